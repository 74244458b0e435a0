"""Counters, as nats-server 2.15.1 keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.publish.counter import format_number, parse_number
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import Record
from tests.kits.fake_world import FakeWorld, Published

INVALID = {"code": 400, "err_code": 10171, "description": "message counter increment is invalid"}
MISSING = {"code": 400, "err_code": 10169, "description": "message counter increment is missing"}
PAYLOAD = {"code": 400, "err_code": 10170, "description": "message counter has payload"}
DISABLED = {"code": 400, "err_code": 10168, "description": "message counters is disabled"}
BROKEN = {"code": 400, "err_code": 10172, "description": "message counter is broken"}


def make(world: FakeWorld, *, fs: MemoryFileSystem | None = None, **fields: Any) -> AccountJetStream:
    account = world.account(fs=fs)
    account.add(StreamConfig(name="C", subjects=["c.>"], **({"allow_msg_counter": True} | fields)))
    return account


def count(
    world: FakeWorld, value: bytes, *more: tuple[bytes, bytes], subject: bytes = b"c.a", body: bytes = b""
) -> dict[str, Any]:
    block = headers.make((b"Nats-Incr", value), *more)
    answer: dict[str, Any] = json.loads(world.request(subject, body, headers=block))
    return answer


def test_the_sum_is_stored_and_answered() -> None:
    world = FakeWorld()
    account = make(world)
    for seq, (value, total) in enumerate(
        [(b"1", "1"), (b"+2", "3"), (b"-5", "-2"), (b"007", "5"), (b"-0", "5"), (b" 3", "8")], 1
    ):
        assert count(world, value) == {"stream": "C", "seq": seq, "val": total}
    assert count(world, b"123456789012345678901234567890")["val"] == "123456789012345678901234567898"
    record = Record()
    assert account.stream("C").load(6, record)
    assert (record.headers(), record.payload()) == (headers.make((b"Nats-Incr", b" 3")), b'{"val":"8"}')


@pytest.mark.parametrize(
    "value", [b"+", b"-", b"1.5", b"x", b"1_000", b"0x1", b"3 ", "٣".encode(), b"--1", b"1e3"]
)
def test_what_is_no_integer_is_refused(value: bytes) -> None:
    world = FakeWorld()
    make(world)
    assert count(world, value) == {"error": INVALID, "stream": "C", "seq": 0}


def test_refusals_come_in_order() -> None:
    world = FakeWorld()
    make(world)
    assert json.loads(world.request(b"c.a"))["error"] == MISSING
    assert json.loads(world.request(b"c.a", b"x"))["error"] == MISSING
    assert json.loads(world.request(b"c.a", headers=headers.make((b"A", b"b"))))["error"] == MISSING
    assert count(world, b"")["error"] == MISSING
    assert count(world, b"1", body=b"x")["error"] == PAYLOAD
    assert count(world, b"y", body=b"x")["error"] == INVALID
    assert count(world, b"1", (b"Nats-TTL", b"5"))["error"]["err_code"] == 10166
    assert count(world, b"1", (b"Nats-Stream-Source", b"x"))["error"]["err_code"] == 10227


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"Nats-Rollup", b"sub"),
        (b"Nats-Rollup", b"bad"),
        (b"Nats-Expected-Stream", b"C"),
        (b"Nats-Expected-Last-Sequence", b"0"),
        (b"Nats-Expected-Last-Sequence", b"x"),
        (b"Nats-Expected-Last-Subject-Sequence", b"0"),
        (b"Nats-Expected-Last-Subject-Sequence-Subject", b"x"),
        (b"Nats-Expected-Last-Msg-Id", b"q"),
    ],
)
def test_an_increment_cannot_have_conditions(key: bytes, value: bytes) -> None:
    world = FakeWorld()
    make(world)
    assert count(world, b"1", (key, value))["error"] == INVALID
    assert count(world, b"1", (key, b""))["val"] == "1"


def test_a_duplicate_is_not_counted() -> None:
    world = FakeWorld()
    make(world, duplicate_window=1_000_000_000)
    assert count(world, b"1", (b"Nats-Msg-Id", b"id"))["val"] == "1"
    assert count(world, b"1", (b"Nats-Msg-Id", b"id")) == {"stream": "C", "seq": 1, "duplicate": True}
    assert count(world, b"1")["val"] == "2"


def test_a_stream_that_does_not_count_refuses_increments() -> None:
    world = FakeWorld()
    make(world, allow_msg_counter=False)
    assert count(world, b"1")["error"] == DISABLED
    assert count(world, b"1", body=b"x")["error"] == DISABLED
    assert count(world, b"y", body=b"x")["error"] == INVALID
    assert count(world, b"", body=b"x")["seq"] == 1


def test_increments_count_before_they_are_durable() -> None:
    world = FakeWorld()
    make(world)
    block = headers.make((b"Nats-Incr", b"5"))
    for _ in range(3):
        world.send(b"c.a", reply=b"me", headers=block)
    world.settle()
    assert world.published == [
        Published(b"me", b'{"stream":"C","seq":%d,"val":"%d"}' % (seq, seq * 5)) for seq in (1, 2, 3)
    ]


def test_the_sum_follows_what_is_removed() -> None:
    world = FakeWorld()
    account = make(world)
    for _ in range(3):
        count(world, b"5")
    account.stream("C").log.remove(3)
    assert count(world, b"5")["val"] == "15"
    account.stream("C").purge(None, 0, 0)
    assert count(world, b"5")["val"] == "5"


def test_the_sum_survives_a_restart() -> None:
    fs = MemoryFileSystem()
    world = FakeWorld()
    account = make(world, fs=fs)
    count(world, b"40")
    account.stop()
    world = FakeWorld()
    account = world.account(fs=fs)
    account.recover()
    assert count(world, b"2")["val"] == "42"


def test_the_sum_counts_for_the_size_limit() -> None:
    world = FakeWorld()
    make(world, max_msg_size=60)
    assert count(world, b"1")["val"] == "1"
    assert count(world, b"1" * 44)["error"]["err_code"] == 10054
    assert count(world, b"1")["val"] == "2"


def test_parts_of_other_streams_are_passed_on() -> None:
    world, fs = FakeWorld(), MemoryFileSystem()
    account = make(world, fs=fs)
    parts = b'{"east":{"c.a":"3"}}'
    count(world, b"3", (b"Nats-Counter-Sources", parts))
    count(world, b"1")
    account.stop()
    world = FakeWorld()
    account = world.account(fs=fs)
    account.recover()
    count(world, b"1")
    record = Record()
    for seq in (2, 3):
        assert account.stream("C").load(seq, record)
        assert headers.find(record.headers(), b"Nats-Counter-Sources") == parts


def test_a_stored_value_that_makes_no_sense_is_broken() -> None:
    world, fs = FakeWorld(), MemoryFileSystem()
    account = make(world, fs=fs)
    assert count(world, b"1", (b"Nats-Counter-Sources", b"x"))["val"] == "1"
    assert count(world, b"1")["error"] == BROKEN
    log = account.stream("C").log
    log.append(b"c.b", b"junk", 0, 0, 4, world.time_ns, 0)
    account.stop()
    world = FakeWorld()
    account = world.account(fs=fs)
    account.recover()
    assert count(world, b"1")["error"] == BROKEN
    assert count(world, b"1", subject=b"c.b")["error"] == BROKEN
    assert count(world, b"1", subject=b"c.c")["val"] == "1"


@pytest.mark.parametrize("digits", [1, 3999, 4000, 4001, 12000, 20001])
def test_numbers_of_any_length_are_read_and_written(digits: int) -> None:
    for text in (b"9" * digits, b"-1" + b"0" * (digits - 1)):
        assert format_number(parse_number(text)) == text
