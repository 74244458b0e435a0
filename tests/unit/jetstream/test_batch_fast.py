"""Fast ingest: transcripts of nats-server 2.15.1, and that nothing is told before it is durable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.publish.fast_batch import BatchOperation, Step, parse
from millstream.jsapi.enums import RetentionPolicy
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from tests.kits.fake_world import FakeWorld

START, APPEND, COMMIT, END, PING = 0, 1, 2, 3, 4
Line = tuple[bytes, bytes]
Answer = dict[str, Any]


def make(world: FakeWorld, **fields: Any) -> AccountJetStream:
    account = world.account()
    defaults = {"name": "A", "subjects": ["a.>"], "allow_batched": True, "duplicate_window": 10**11}
    account.add(StreamConfig(**(defaults | fields)))
    return account


def step(
    world: FakeWorld,
    number: int,
    operation: int,
    *lines: Line,
    flow: int = 5,
    gap: str = "fail",
    batch: str = "b",
) -> list[Answer]:
    """One message, and all answers to it."""
    reply = f"_I.{batch}.{flow}.{gap}.{number}.{operation}.$FI".encode()
    world.published.clear()
    world.send(b"a.1", b"" if lines else b"x", reply=reply, headers=headers.make(*lines) if lines else None)
    world.settle()
    assert all(each.subject == reply for each in world.published)
    return [json.loads(each.payload) for each in world.published]


def ack(seq: int, messages: int) -> Answer:
    return {"type": "ack", "seq": seq, "msgs": messages}


def gap(expected: int, got: int) -> Answer:
    return {"type": "gap", "last_seq": expected, "seq": got}


def end(seq: int, count: int) -> Answer:
    return {"stream": "A", "seq": seq, "batch": "b", "count": count}


def codes(answers: list[Answer]) -> list[int]:
    return [each.get("error", {}).get("err_code", 0) for each in answers]


WRONG = (b"Nats-Expected-Stream", b"Q")
MISMATCH = {"code": 400, "err_code": 10060, "description": "expected stream does not match"}


def test_progress_is_told_every_few_messages_and_the_end_at_last() -> None:
    world = FakeWorld()
    account = make(world)
    assert step(world, 1, START, flow=2) == [ack(0, 2)]
    assert step(world, 2, APPEND, flow=2) == [ack(2, 2)]
    assert step(world, 3, APPEND, flow=2) == []
    assert step(world, 4, APPEND, flow=2) == [ack(4, 2)]
    assert step(world, 5, COMMIT, flow=2) == [end(5, 5)]
    assert account.stream("A").log.messages == 5
    assert account.resources.fast_batches == 0


def test_a_batch_may_end_without_a_message_or_with_its_first() -> None:
    world = FakeWorld()
    make(world)
    step(world, 1, START)
    step(world, 2, APPEND)
    assert step(world, 3, END) == [end(2, 2)]
    assert step(world, 1, COMMIT) == [end(3, 1)]


def test_nothing_is_told_before_it_is_durable() -> None:
    world = FakeWorld()
    make(world)
    for number, operation in ((1, START), (2, COMMIT)):
        world.send(b"a.1", reply=b"_I.b.1.fail.%d.%d.$FI" % (number, operation))
    assert [json.loads(each.payload) for each in world.published] == [ack(0, 1)]
    world.settle()
    assert [json.loads(each.payload) for each in world.published] == [ack(0, 1), ack(1, 1), end(2, 2)]


@pytest.mark.parametrize(("flow", "between"), [(0, 10), (70000, 500), (3, 3)])
def test_the_publisher_says_how_often(flow: int, between: int) -> None:
    world = FakeWorld()
    make(world)
    assert step(world, 1, START, flow=flow) == [ack(0, between)]


def test_a_gap_ends_a_batch_that_does_not_allow_one() -> None:
    world = FakeWorld()
    make(world)
    step(world, 1, START)
    assert step(world, 3, APPEND) == [gap(2, 3), end(1, 1)]
    assert codes(step(world, 4, APPEND)) == [10208]


def test_a_gap_is_told_to_one_that_does() -> None:
    world = FakeWorld()
    make(world)
    assert step(world, 1, START, flow=2, gap="ok") == [ack(0, 2)]
    assert step(world, 3, APPEND, flow=2, gap="ok") == [gap(2, 3), ack(2, 2)]
    assert step(world, 4, APPEND, flow=2, gap="ok") == [ack(4, 2)]
    assert step(world, 2, APPEND, flow=2, gap="ok") == [gap(5, 2), end(3, 4)]
    step(world, 1, START, flow=2, gap="ok")
    assert step(world, 5, COMMIT, flow=2, gap="ok") == [gap(2, 5), end(5, 5)]


def test_a_ping_is_answered_with_the_progress() -> None:
    world = FakeWorld()
    make(world)
    step(world, 1, START)
    assert step(world, 1, PING) == [ack(0, 5)]
    assert step(world, 3, PING) == [gap(2, 4), end(1, 1)]
    step(world, 1, START, gap="ok")
    assert step(world, 7, PING, gap="ok") == [gap(2, 8), ack(5, 5)]
    assert step(world, 8, COMMIT, gap="ok") == [end(3, 8)]


def test_a_message_that_is_refused_ends_the_batch_unless_gaps_are_fine() -> None:
    world = FakeWorld()
    make(world)
    refusal = {"error": MISMATCH, "stream": "A", "seq": 0}
    assert step(world, 1, START, WRONG) == [ack(0, 5), refusal]
    assert codes(step(world, 2, APPEND)) == [10208]
    step(world, 1, START)
    assert step(world, 2, APPEND, WRONG) == [{"type": "err", "seq": 2, "error": MISMATCH}, end(1, 1)]
    assert step(world, 1, START, WRONG, gap="ok") == [ack(0, 5), {"type": "err", "seq": 1, "error": MISMATCH}]
    step(world, 2, APPEND, gap="ok")
    assert step(world, 3, COMMIT, gap="ok") == [end(3, 3)]
    step(world, 1, START, gap="ok")
    assert step(world, 2, COMMIT, WRONG, gap="ok") == [
        {"type": "err", "seq": 2, "error": MISMATCH},
        end(4, 1),
    ]


def test_duplicates_count_as_progress() -> None:
    world = FakeWorld()
    make(world)
    first, second = (b"Nats-Msg-Id", b"i"), (b"Nats-Msg-Id", b"j")
    assert step(world, 1, START, first, flow=2) == [ack(0, 2)]
    assert step(world, 2, APPEND, first, flow=2) == [ack(2, 2)]
    assert step(world, 3, APPEND, second, flow=2) == []
    assert step(world, 4, COMMIT, first, flow=2) == [ack(4, 2), end(2, 4)]
    assert step(world, 1, COMMIT, first) == [end(1, 1) | {"duplicate": True}]
    assert step(world, 1, COMMIT, first, gap="ok") == [end(0, 1)]


def test_others_slow_a_publisher_down_at_first() -> None:
    world = FakeWorld()
    make(world)
    assert step(world, 1, START, flow=500) == [ack(0, 500)]
    assert step(world, 1, START, flow=500, batch="c") == [ack(0, 1), ack(1, 2)]
    assert step(world, 2, APPEND, flow=500, batch="c") == []
    assert step(world, 3, APPEND, flow=500, batch="c") == [ack(3, 4)]


def test_what_a_reply_subject_may_say() -> None:
    world = FakeWorld()
    make(world)
    malformed = [(1, 5), (0, START), (2, START), (1, APPEND), (1, END)]
    assert [codes(step(world, *each)) for each in malformed] == [[10206]] * 5
    assert codes(step(world, 1, START, gap="maybe")) == [10206]
    assert codes(step(world, 1, START, batch="b" * 65)) == [10207]
    assert step(world, 1, COMMIT, batch="b" * 64)[0]["count"] == 1
    assert codes(step(world, 2, PING, batch="unknown")) == [10208]
    assert parse(b"_I.x.b.7.ok.3.1.$FI") == Step(b"b", 7, True, 3, BatchOperation.APPEND)
    for reply in (b"a.$FI", b"b.7.ok.3.1.$FI", b"_I.b.7.ok.18446744073709551615.1.$FI", b"_I.b.7.ok.x.1.$FI"):
        assert parse(reply) is None


def test_the_api_level_is_checked_and_left_out() -> None:
    world = FakeWorld()
    make(world)
    level = b"Nats-Required-Api-Level"
    assert codes(step(world, 1, START, (level, b"99"))) == [10185]
    assert step(world, 1, COMMIT, (level, b"2"), (b"Q", b"r")) == [end(1, 1)]


def test_the_last_id_is_checked() -> None:
    world = FakeWorld()
    make(world)
    assert codes(step(world, 1, START, (b"Nats-Expected-Last-Msg-Id", b"q"))) == [0, 10070]


def test_a_stream_has_to_allow_it_and_has_limits() -> None:
    world = FakeWorld()
    account = make(world, allow_batched=False, max_msg_size=100)
    assert codes(step(world, 1, START, (b"A", b"b"))) == [10205]
    account.update(account.stream("A"), StreamConfig(name="A", subjects=["a.>"], allow_batched=True))
    for number in range(1000):
        step(world, 1, START, batch=f"{number}")
    assert codes(step(world, 1, START)) == [10211]
    world.advance(9)
    step(world, 2, APPEND, batch="7")
    world.advance(1.5)
    assert account.resources.fast_batches == 1
    assert codes(step(world, 2, APPEND, batch="8")) == [10208]
    account.stream("A").stop()
    assert account.resources.fast_batches == 0


def test_a_commit_that_is_refused_for_the_last_id_ends_the_batch() -> None:
    world = FakeWorld()
    make(world)
    refused = step(world, 1, COMMIT, (b"Nats-Expected-Last-Msg-Id", b"x"))
    assert codes(refused) == [10070]
    assert step(world, 1, COMMIT) == [end(1, 1)]


def test_a_plain_stream_refuses_what_drives_a_batch_and_takes_what_only_looks_like_it() -> None:
    world = FakeWorld()
    make(world, allow_batched=False)
    assert codes(step(world, 1, START)) == [10205]
    world.send(b"a.1", b"x", reply=b"_I.x$FI")
    world.settle()
    assert json.loads(world.published[-1].payload) == {"stream": "A", "seq": 1}


def test_nothing_is_kept_that_nobody_is_interested_in() -> None:
    world = FakeWorld()
    account = make(world, retention=RetentionPolicy.INTEREST)
    assert step(world, 1, START) == [ack(0, 5)]
    assert step(world, 2, COMMIT) == [end(2, 2)]
    assert (account.stream("A").log.messages, account.stream("A").log.last_seq) == (0, 2)
