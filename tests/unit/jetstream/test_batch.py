"""Atomic batches: what nats-server 2.15.1 answers, and that there is never half of one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.jetstream.account import AccountJetStream
from millstream.jsapi.enums import DiscardPolicy
from millstream.jsapi.stream_types import StreamConfig, SubjectTransformConfig
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import Record
from tests.kits.fake_world import FakeWorld

Line = tuple[bytes, bytes]


def make(world: FakeWorld, *, fs: MemoryFileSystem | None = None, **fields: Any) -> AccountJetStream:
    world.heard.append(b"$JS.EVENT.ADVISORY.>")
    account = world.account(fs=fs)
    defaults = {"name": "A", "subjects": ["a.>"], "allow_atomic": True, "duplicate_window": 10**11}
    account.add(StreamConfig(**(defaults | fields)))
    return account


def block(number: int, commit: bytes | None = None, *more: Line, batch: bytes = b"u") -> bytes:
    end = () if commit is None else ((b"Nats-Batch-Commit", commit),)
    return headers.make((b"Nats-Batch-Id", batch), (b"Nats-Batch-Sequence", b"%d" % number), *end, *more)


def send(
    world: FakeWorld,
    number: int,
    commit: bytes | None = None,
    *more: Line,
    subject: bytes = b"a.1",
    body: bytes = b"",
    batch: bytes = b"u",
) -> Any:
    """The answer: None for an empty one, otherwise what the JSON says."""
    answer = world.request(subject, body, headers=block(number, commit, *more, batch=batch))
    return json.loads(answer) if answer else None


def error(answer: Any) -> tuple[int, str]:
    return answer["error"]["err_code"], answer["error"]["description"]


def stored(account: AccountJetStream) -> list[tuple[int, bytes, bytes]]:
    """(sequence, subject, payload) of every message."""
    log = account.stream("A").log
    record = Record()
    found = []
    for seq in log.sequences(1, log.last_seq):
        assert log.get(seq, record)
        found.append((seq, record.subject(), record.payload()))
    return found


def abandoned(world: FakeWorld) -> list[tuple[str, str]]:
    """(batch, reason) of the advisories so far."""
    found = [json.loads(each.payload) for each in world.published if b"BATCH_ABANDONED" in each.subject]
    return [(each["batch"], each["reason"]) for each in found]


def test_nothing_is_stored_before_the_commit_and_everything_with_it() -> None:
    world = FakeWorld()
    account = make(world)
    assert send(world, 1, body=b"x") is None
    assert send(world, 2, subject=b"a.2", body=b"y") is None
    assert stored(account) == []
    answer = send(world, 3, b"1", subject=b"a.3", body=b"z")
    assert answer == {"stream": "A", "seq": 3, "batch": "u", "count": 3}
    assert stored(account) == [(1, b"a.1", b"x"), (2, b"a.2", b"y"), (3, b"a.3", b"z")]


def test_headers_are_stored_as_they_came_but_for_the_api_level() -> None:
    world = FakeWorld()
    account = make(world)
    send(world, 1, None, (b"Nats-Required-Api-Level", b"2"))
    send(world, 2, b"1", (b"B", b"c"))
    record = Record()
    assert account.stream("A").load(1, record)
    assert record.headers() == block(1)
    assert account.stream("A").load(2, record)
    assert record.headers() == block(2, b"1", (b"B", b"c"))


def test_a_batch_may_end_with_a_message_that_is_not_stored() -> None:
    world = FakeWorld()
    account = make(world)
    send(world, 1, body=b"x")
    assert send(world, 2, b"eob", body=b"y") == {"stream": "A", "seq": 1, "batch": "u", "count": 1}
    record = Record()
    assert account.stream("A").load(1, record)
    assert record.headers() == block(1, b"1")
    assert stored(account) == [(1, b"a.1", b"x")]


def test_one_message_is_a_batch_but_none_is_not() -> None:
    world = FakeWorld()
    make(world)
    assert send(world, 1, b"1") == {"stream": "A", "seq": 1, "batch": "u", "count": 1}
    assert error(send(world, 1, b"eob")) == (10176, "atomic publish batch is incomplete")
    assert abandoned(world) == [("u", "incomplete")]


def test_malformed_messages_are_refused_at_once() -> None:
    world = FakeWorld()
    make(world)
    no_sequence = headers.make((b"Nats-Batch-Id", b"w"))
    assert error(json.loads(world.request(b"a.1", headers=no_sequence)))[0] == 10175
    junk = headers.make((b"Nats-Batch-Id", b"w"), (b"Nats-Batch-Sequence", b"x"))
    assert error(json.loads(world.request(b"a.1", headers=junk)))[0] == 10175
    assert error(send(world, 0))[0] == 10176
    assert error(send(world, 1, batch=b"w" * 65)) == (10179, "atomic publish batch ID is invalid")
    assert send(world, 1, b"1", batch=b"w" * 64)["count"] == 1
    assert error(send(world, 2, batch=b"unknown"))[0] == 10176
    assert error(send(world, 1001, batch=b"unknown")) == (10199, "atomic publish batch is too large: 1000")
    assert error(send(world, 1001, b"eob", batch=b"unknown"))[0] == 10176
    assert error(send(world, 1002, b"eob", batch=b"unknown"))[0] == 10199
    assert abandoned(world) == []


def test_a_gap_ends_the_batch() -> None:
    world = FakeWorld()
    account = make(world)
    send(world, 1)
    assert error(send(world, 3))[0] == 10176
    assert error(send(world, 2, b"1"))[0] == 10176
    assert abandoned(world) == [("u", "incomplete")]
    assert stored(account) == []


@pytest.mark.parametrize("value", [b"2", b"", b"EOB"])
def test_an_unknown_commit_ends_the_batch(value: bytes) -> None:
    world = FakeWorld()
    make(world)
    send(world, 1)
    assert error(send(world, 2, value)) == (10200, "atomic publish batch commit is invalid")
    assert error(send(world, 2, b"1"))[0] == 10176
    assert abandoned(world) == []


def test_an_api_level_that_is_too_high_ends_the_batch() -> None:
    world = FakeWorld()
    make(world)
    assert error(send(world, 1, None, (b"Nats-Required-Api-Level", b"99")))[0] == 10185
    assert abandoned(world) == [("u", "unsupported")]


def test_a_batch_may_have_a_thousand_messages_and_an_end() -> None:
    world = FakeWorld()
    account = make(world)
    for number in range(1, 1001):
        world.send(b"a.1", headers=block(number))
    assert error(send(world, 1001)) == (10199, "atomic publish batch is too large: 1000")
    assert abandoned(world) == [("u", "large")]
    for number in range(1, 1001):
        world.send(b"a.1", headers=block(number))
    assert send(world, 1001, b"eob") == {"stream": "A", "seq": 1000, "batch": "u", "count": 1000}
    assert len(stored(account)) == 1000


def test_a_stream_has_fifty_batches_at_a_time() -> None:
    world = FakeWorld()
    account = make(world)
    for number in range(50):
        send(world, 1, batch=b"%d" % number)
    assert error(send(world, 1, batch=b"over")) == (10210, "atomic publish too many inflight")
    send(world, 2, b"1", batch=b"7")
    assert send(world, 1, batch=b"over") is None
    assert account.resources.batches == 50
    account.stream("A").stop()
    assert account.resources.batches == 0


def test_a_batch_that_is_not_continued_is_given_up() -> None:
    world = FakeWorld()
    make(world)
    send(world, 1)
    world.advance(9)
    send(world, 2)
    world.advance(9)
    assert abandoned(world) == []
    world.advance(1.1)
    assert abandoned(world) == [("u", "timeout")]
    assert error(send(world, 3, b"1"))[0] == 10176


def test_a_stream_has_to_allow_batches() -> None:
    world = FakeWorld()
    make(world, allow_atomic=False)
    assert error(send(world, 1, b"1")) == (10174, "atomic publish is disabled")


def test_a_message_that_is_too_large_does_not_get_in() -> None:
    world = FakeWorld()
    make(world, max_msg_size=100)
    assert error(send(world, 1, body=b"x" * 100))[0] == 10054


def test_streams_without_acknowledgement_answer_nothing() -> None:
    world = FakeWorld()
    account = make(world, no_ack=True)
    for number, commit in ((1, None), (2, b"1")):
        world.send(b"a.1", reply=b"me", headers=block(number, commit))
    world.settle()
    assert (len(stored(account)), world.published) == (2, [])


LAST = b"Nats-Expected-Last-Sequence"
LAST_ID = b"Nats-Expected-Last-Msg-Id"
DUPLICATE = "atomic publish batch contains duplicate message id"
LAST_SUBJECT = b"Nats-Expected-Last-Subject-Sequence"


@pytest.mark.parametrize(
    ("first", "second", "code", "text"),
    [
        ((), (LAST_ID, b"q"), 10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id"),
        ((b"Nats-Msg-Id", b"i"), (b"Nats-Msg-Id", b"i"), 10201, DUPLICATE),
        ((), (b"Nats-Msg-Id", b"known"), 10201, DUPLICATE),
        ((LAST, b"7"), (), 10071, "wrong last sequence: 1"),
        ((LAST, b"1"), (LAST, b"2"), 10164, "wrong last sequence"),
        ((), (LAST, b"1"), 10071, "wrong last sequence: 2"),
        ((), (LAST_SUBJECT, b"1"), 10164, "wrong last sequence"),
        ((LAST_SUBJECT, b"4"), (), 10071, "wrong last sequence: 1"),
        ((), (b"Nats-Expected-Stream", b"Q"), 10060, "expected stream does not match"),
        ((), (b"Nats-TTL", b"x"), 10165, "invalid per-message TTL"),
        ((), (b"Nats-Rollup", b"sub"), 10111, "batch rollup sub invalid"),
        ((), (b"Nats-Rollup", b"all"), 10111, "batch rollup all invalid"),
        ((), (b"Nats-Rollup", b"x"), 10111, 'rollup value invalid: "x"'),
        ((), (b"Nats-Incr", b"1"), 10168, "message counters is disabled"),
        ((), (b"Nats-Stream-Source", b"x"), 10227, "message stream source header is not allowed"),
    ],
)  # fmt: skip
def test_one_message_that_fails_fails_the_batch(first: Any, second: Any, code: int, text: str) -> None:
    world = FakeWorld()
    account = make(world, allow_msg_ttl=True, allow_rollup_hdrs=True)
    world.request(b"a.1", headers=headers.make((b"Nats-Msg-Id", b"known")))
    assert send(world, 1, None, *([first] if first else [])) is None
    assert error(send(world, 2, b"1", *([second] if second else []))) == (code, text)
    assert len(stored(account)) == 1
    assert send(world, 1, b"1")["seq"] == 2


def test_what_the_batch_expects_and_finds_is_fine() -> None:
    world = FakeWorld()
    account = make(world, allow_rollup_hdrs=True)
    world.request(b"a.1", b"old")
    send(world, 1, None, (LAST, b"1"), (b"Nats-Rollup", b"sub"), body=b"new")
    assert send(world, 2, b"1", (LAST_SUBJECT, b"0"), subject=b"a.9")["seq"] == 3
    assert stored(account) == [(2, b"a.1", b"new"), (3, b"a.9", b"")]


def test_increments_of_a_batch_add_up() -> None:
    world = FakeWorld()
    account = make(world, allow_msg_counter=True)
    send(world, 1, None, (b"Nats-Incr", b"1"))
    answer = send(world, 2, b"1", (b"Nats-Incr", b"2"))
    assert answer == {"stream": "A", "seq": 2, "batch": "u", "count": 2}
    assert [payload for _, _, payload in stored(account)] == [b'{"val":"1"}', b'{"val":"3"}']
    assert json.loads(world.request(b"a.1", headers=headers.make((b"Nats-Incr", b"4"))))["val"] == "7"
    assert error(send(world, 1, b"1"))[0] == 10169


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_msgs": 1}, "maximum messages exceeded"),
        ({"max_bytes": 150}, "maximum bytes exceeded"),
        (
            {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
            "maximum messages per subject exceeded",
        ),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(fields: dict[str, Any], text: str) -> None:
    world = FakeWorld()
    account = make(world, discard=DiscardPolicy.NEW, **fields)
    send(world, 1, body=b"x" * 30)
    assert error(send(world, 2, b"1", body=b"x" * 30)) == (10077, text)
    assert stored(account) == []
    assert send(world, 1, b"1")["seq"] == 1


def test_subjects_are_transformed() -> None:
    world = FakeWorld()
    account = make(world, subject_transform=SubjectTransformConfig(src="a.>", dest="t.>"))
    send(world, 1)
    send(world, 2, b"1", subject=b"a.2")
    assert [subject for _, subject, _ in stored(account)] == [b"t.1", b"t.2"]


def write_and_cut(fs: MemoryFileSystem, keep: int) -> tuple[int, list[tuple[int, bytes, bytes]]]:
    """A batch over an older message of the same subject, of which only the first `keep` bytes get to disk.

    How many bytes the batch has, and what is there after a restart.
    """
    world = FakeWorld()
    account = make(world, fs=fs, max_msgs_per_subject=1)
    world.request(b"a.1", b"old")
    log = account.stream("A").log
    path = "store/streams/A/log/0000000001.log"
    before = len(fs.read_all(path))
    send(world, 1, body=b"x")
    send(world, 2, subject=b"a.2", body=b"y")
    send(world, 3, b"1", subject=b"a.3", body=b"z")
    size = len(fs.read_all(path)) - before
    log.close()
    fs.open(path, create=False).truncate(before + keep)
    world = FakeWorld()
    account = world.account(fs=fs)
    account.recover()
    world.settle()
    found = stored(account)
    assert json.loads(world.request(b"a.new"))["seq"] == account.stream("A").log.last_seq
    account.stop()
    again = world.account(fs=fs)
    again.recover()
    assert stored(again)[: len(found)] == found
    return size, found


def test_a_batch_that_a_crash_tore_is_gone_and_took_nothing_with_it() -> None:
    old, whole = [(1, b"a.1", b"old")], [(2, b"a.1", b"x"), (3, b"a.2", b"y"), (4, b"a.3", b"z")]
    size, found = write_and_cut(MemoryFileSystem(), 0)
    assert found == old
    for keep in range(0, size + 1):
        _, found = write_and_cut(MemoryFileSystem(), keep)
        assert found in (old, whole), keep
    assert found == whole
