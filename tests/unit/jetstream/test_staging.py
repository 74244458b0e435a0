"""The short way into a batch: only what needs no look, which is then treated like the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.publish.batch_fast_path import BatchStaging, OpenBatch, StagedMessage
from millstream.jetstream.publish.candidate import Incoming
from millstream.jsapi.enums import DiscardPolicy
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from millstream.protocol.parser import make_frame
from millstream.store.record import Record
from tests.kits.fake_world import FakeWorld

Line = tuple[bytes, bytes]


def make(world: FakeWorld, **fields: Any) -> AccountJetStream:
    account = world.account()
    defaults: dict[str, Any] = {
        "name": "A",
        "subjects": ["a.>"],
        "allow_atomic": True,
        "duplicate_window": 10**11,
    }
    account.add(StreamConfig(**(defaults | fields)))
    return account


def block(number: int, *more: Line, batch: bytes = b"u") -> bytes:
    return headers.make((b"Nats-Batch-Id", batch), (b"Nats-Batch-Sequence", b"%d" % number), *more)


def tell(world: FakeWorld, number: int, *more: Line, subject: bytes = b"a.1", batch: bytes = b"u") -> None:
    world.send(subject, b"%d" % number, headers=block(number, *more, batch=batch))


def commit(world: FakeWorld, number: int, *more: Line, subject: bytes = b"a.1", how: bytes = b"1") -> Any:
    return json.loads(
        world.request(subject, b"%d" % number, headers=block(number, (b"Nats-Batch-Commit", how), *more))
    )


def kinds(account: AccountJetStream) -> list[type]:
    """Return the types under which the messages of the open batch are kept."""
    return [type(each) for each in account.stream("A").batches.staging.open[b"u"].messages]


def stored(account: AccountJetStream) -> list[tuple[bytes, bytes, bytes]]:
    """(subject, headers, payload) of every message."""
    log = account.stream("A").log
    record = Record()
    found = []
    for seq in log.sequences(1, log.last_seq):
        assert log.get(seq, record)
        found.append((record.subject(), record.headers(), record.payload()))
    return found


def test_messages_without_a_reply_take_the_short_way_and_are_stored_as_they_came() -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1)
    tell(world, 2, (b"Color", b"blue"), subject=b"a.2")
    tell(world, 3)
    assert kinds(account) == [Incoming, StagedMessage, StagedMessage]
    assert stored(account) == []
    assert commit(world, 4) == {"stream": "A", "seq": 4, "batch": "u", "count": 4}
    assert stored(account) == [
        (b"a.1", block(1), b"1"),
        (b"a.2", block(2, (b"Color", b"blue")), b"2"),
        (b"a.1", block(3), b"3"),
        (b"a.1", block(4, (b"Nats-Batch-Commit", b"1")), b"4"),
    ]
    assert account.stream("A").log.count_of(b"a.2") > 0


def test_the_last_one_says_that_it_is_when_something_else_ended_the_batch() -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1)
    tell(world, 2)
    assert kinds(account) == [Incoming, StagedMessage]
    assert commit(world, 3, how=b"eob") == {"stream": "A", "seq": 2, "batch": "u", "count": 2}
    assert stored(account)[1] == (b"a.1", block(2, (b"Nats-Batch-Commit", b"1")), b"2")


@pytest.mark.parametrize(
    "line", [(b"Nats-Msg-Id", b"i"), (b"Nats-Rollup", b"sub"), (b"Nats-Batch-Sequence", b"2")]
)
def test_headers_that_mean_something_are_looked_at(line: Line) -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1)
    tell(world, 2, line)
    assert kinds(account) == [Incoming, Incoming]


def test_a_gap_ends_the_batch_although_nobody_waits_for_an_answer() -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1)
    tell(world, 2)
    tell(world, 4)
    assert commit(world, 5)["error"]["err_code"] == 10176
    assert stored(account) == []


def test_no_batch_has_more_than_a_thousand_messages() -> None:
    world = FakeWorld()
    account = make(world)
    for number in range(1, 1002):
        tell(world, number)
    assert commit(world, 1002)["error"]["err_code"] == 10199
    assert stored(account) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ((b"Nats-Expected-Last-Subject-Sequence", b"0"), 10164),
        ((b"Nats-Expected-Last-Sequence", b"0"), 10071),
    ],
)
def test_expectations_of_the_last_one_see_those_before_it(line: Line, code: int) -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1, subject=b"a.0")
    tell(world, 2)
    assert commit(world, 3, line)["error"]["err_code"] == code
    assert stored(account) == []


def test_rules_that_came_after_a_message_are_for_it_too() -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1)
    tell(world, 2)
    stream = account.stream("A")
    changed = StreamConfig(
        name="A", subjects=["a.>"], allow_atomic=True, max_msgs=2, discard=DiscardPolicy.NEW
    )
    account.update(stream, changed)
    assert commit(world, 3)["error"]["description"] == "maximum messages exceeded"
    assert stored(account) == []


def test_limits_hold_for_what_a_batch_brought() -> None:
    world = FakeWorld()
    account = make(world, max_msgs_per_subject=1)
    for number in range(1, 5):
        tell(world, number, subject=b"a.%d" % (number % 2))
    assert commit(world, 5, subject=b"a.0")["seq"] == 5
    assert [payload for _, _, payload in stored(account)] == [b"3", b"5"]


def test_a_batch_is_given_up_ten_seconds_after_its_last_message() -> None:
    world = FakeWorld()
    account = make(world)
    tell(world, 1)
    world.advance(9)
    tell(world, 2)
    assert kinds(account) == [Incoming, StagedMessage]
    world.advance(9)
    assert len(account.stream("A").batches) == 1
    world.advance(2)
    assert len(account.stream("A").batches) == 0


_PIECES = [
    b"NATS/1.0", b"NATS/1.0 503", b"\r\n", b"\r", b"\n", b" ", b"Nats-Batch-Id:", b"Nats-Batch-Sequence:",
    b"Nats-Batch-Id: u\r\n", b"Nats-Batch-Sequence: 2\r\n", b"NATS/1.0\r\n", b"\r\n\r\n",
    b"Nats-Batch-Commit: 1\r\n", b"Nats-Required-Api-Level: 1\r\n", b"A: b\r\n",
    b"Nats-", b"u", b"2", b"02", b"x",
]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=9).map(b"".join))
def test_whatever_is_taken_is_what_lookups_find_and_nothing_else(given_block: bytes) -> None:
    for found in (given_block, b"NATS/1.0\r\n" + given_block + b"\r\n"):
        staging = BatchStaging(lambda: 5)
        staging.granted = 1000
        batch = staging.open[b"u"] = OpenBatch(10)
        batch.messages.append(Incoming(b"s", b"", b"", b""))
        if not staging.take(b"s", make_frame(b"", found, b"body")):
            continue
        kept = batch.messages[1]
        assert isinstance(kept, StagedMessage)
        assert (kept.subject, kept.source, kept.header_size) == (b"s", found + b"body", len(found))
        assert headers.find(found, b"Nats-Batch-Id") == b"u"
        assert int(headers.find(found, b"Nats-Batch-Sequence") or b"0") == 2
        assert found.count(b"\r\nNats-") == 2
        assert headers.remove(headers.without_status(found), b"Nats-Required-Api-Level:") == found
        assert batch.patience.heard_ns == 5
        assert batch.size == len(b"s" + found + b"body")


def test_the_ordinary_block_is_taken_and_split_ones_are_not() -> None:
    whole = block(2)
    for size in range(len(whole) + 1):
        staging = BatchStaging(lambda: 5)
        staging.granted = 1000
        batch = staging.open[b"u"] = OpenBatch(10)
        batch.messages.append(Incoming(b"s", b"", b"", b""))
        assert staging.take(b"s", make_frame(b"", whole[:size], b"")) == (size == len(whole))
