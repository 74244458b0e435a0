"""Messages with a time to live, and the markers that say they are gone; as nats-server 2.15.1 has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.base import slices
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.publish import ttl as ttl_module
from millstream.jetstream.publish.ttl import NEVER, parse_ttl
from millstream.jsapi.errors import ApiError
from millstream.jsapi.stream_types import RePublish, StreamConfig
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import Record
from tests.kits.bad_disk import BadDisk
from tests.kits.fake_world import FakeWorld

SECOND = 1_000_000_000
INVALID = {"code": 400, "err_code": 10165, "description": "invalid per-message TTL"}
DISABLED = {"code": 400, "err_code": 10166, "description": "per-message TTL is disabled"}


def with_ttl(value: bytes, *more: tuple[bytes, bytes]) -> bytes:
    return headers.make((b"Nats-TTL", value), *more)


def add(account: AccountJetStream, **fields: Any) -> None:
    fields = {"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True, "allow_rollup_hdrs": True} | fields
    account.add(StreamConfig(**fields))


def publish(
    world: FakeWorld, subject: bytes, ttl: bytes | None = None, payload: bytes = b""
) -> dict[str, Any]:
    block = with_ttl(ttl) if ttl is not None else None
    answer: dict[str, Any] = json.loads(world.request(subject, payload, headers=block))
    return answer


def sequences(account: AccountJetStream) -> list[int]:
    log = account.stream("T").log
    return list(log.sequences(1, log.last_seq))


def stored_headers(account: AccountJetStream, seq: int) -> bytes:
    record = Record()
    assert account.stream("T").load(seq, record)
    return record.headers()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("1500ms", 1),
        ("1", 1),
        ("01", 1),
        ("00", 0),
        ("5", 5),
        ("1h2m", 3720),
        (".5m", 30),
        ("never", NEVER),
        ("NEVER", NEVER),
        ("2562047h", 2562047 * 3600),
        ("9223372036854775807", 9223372036854775807),
        ("99999999999999999999", 7766279631452241919),
    ],
)
def test_a_duration_a_number_or_never_is_a_ttl(text: str, seconds: int) -> None:
    assert parse_ttl(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "500ms",
        "x",
        "+5",
        "1.5",
        "1e3",
        "0x10",
        "5 ",
        "999999999h",
        "1µs",
        "1d",
        "0s",
        "-5s",
        "1s1",
        "٣",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse_ttl(text)
    assert raised.value.code == 10165


def test_a_stream_without_ttl_refuses_sound_ones_as_disabled_and_others_as_invalid() -> None:
    world = FakeWorld()
    add(world.account(), allow_msg_ttl=False)
    assert publish(world, b"t.a", b"1s")["error"] == DISABLED
    assert publish(world, b"t.a", b"never")["error"] == DISABLED
    assert publish(world, b"t.a", b"0")["error"] == INVALID
    assert publish(world, b"t.a", b"")["seq"] == 1
    assert publish(world, b"t.a", b"00")["seq"] == 2


def test_a_message_goes_when_its_time_has_come_and_not_before() -> None:
    world = FakeWorld()
    account = world.account()
    add(account)
    publish(world, b"t.a", b"3s")
    publish(world, b"t.b", b"1")
    publish(world, b"t.c")
    publish(world, b"t.d", b"never")
    world.advance(0.99)
    assert sequences(account) == [1, 2, 3, 4]
    world.advance(0.3)
    assert sequences(account) == [1, 3, 4]
    world.advance(1.6)
    assert sequences(account) == [1, 3, 4]
    world.advance(0.4)
    assert sequences(account) == [3, 4]
    world.advance(1e6)
    assert sequences(account) == [3, 4]


def test_a_message_that_was_replaced_leaves_its_successor_alone() -> None:
    world = FakeWorld()
    account = world.account()
    add(account, max_msgs_per_subject=1)
    publish(world, b"t.a", b"1s")
    publish(world, b"t.a")
    world.advance(5)
    assert sequences(account) == [2]


@pytest.mark.compiled
def test_a_key_that_is_written_all_the_time_takes_no_more_room() -> None:
    world = FakeWorld()
    account = world.account()
    add(account, max_msgs_per_subject=1)
    block = with_ttl(b"1h")
    for _ in range(20_000):
        world.send(b"t.a", headers=block)
    world.settle()
    expiry = account.stream("T").expiry
    assert len(expiry) < 5_000
    world.advance(3601)
    assert (sequences(account), len(expiry)) == ([], 0)


def test_never_outlives_max_age_and_others_do_not() -> None:
    world = FakeWorld()
    account = world.account()
    add(account, max_age=2 * SECOND)
    publish(world, b"t.a", b"never")
    publish(world, b"t.b", b"10s")
    publish(world, b"t.c")
    world.advance(1)
    publish(world, b"t.d", b"never")
    publish(world, b"t.e")
    world.advance(1.5)
    assert sequences(account) == [1, 4, 5]
    world.advance(1)
    assert sequences(account) == [1, 4]
    publish(world, b"t.f")
    world.advance(2.5)
    assert sequences(account) == [1, 4]


def test_plain_messages_age_too() -> None:
    world = FakeWorld()
    account = world.account()
    add(account, allow_msg_ttl=False, max_age=2 * SECOND)
    world.send(b"t.a")
    world.settle()
    world.advance(2.1)
    assert sequences(account) == []


def test_another_max_age_counts_at_once() -> None:
    world = FakeWorld()
    account = world.account()
    add(account, max_age=1000 * SECOND)
    publish(world, b"t.a")
    world.advance(5)
    stream = account.stream("T")
    account.update(stream, StreamConfig(name="T", subjects=["t.>"], max_age=2 * SECOND, allow_msg_ttl=True))
    world.settle()
    assert sequences(account) == []


def test_a_restart_remembers_every_ttl() -> None:
    world, fs = FakeWorld(), MemoryFileSystem()
    account = world.account(fs=fs)
    add(account)
    publish(world, b"t.a", b"10s")
    publish(world, b"t.b", b"2s")
    publish(world, b"t.c")
    account.stop()
    world = FakeWorld(world.time_ns + 5 * SECOND)
    account = world.account(fs=fs)
    account.recover()
    world.settle()
    assert sequences(account) == [1, 3]
    world.advance(5.2)
    assert sequences(account) == [3]


def test_the_last_message_of_a_subject_leaves_a_marker_that_goes_in_turn() -> None:
    world = FakeWorld()
    account = world.account()
    add(account, subject_delete_marker_ttl=90 * SECOND, max_age=0)
    publish(world, b"t.a", b"100s", b"1")
    publish(world, b"t.a", b"90s", b"2")
    publish(world, b"t.b", b"never", b"3")
    world.advance(91)
    assert sequences(account) == [1, 3]
    world.advance(10)
    assert sequences(account) == [3, 4]
    expected = headers.make(
        (b"Nats-Marker-Reason", b"MaxAge"), (b"Nats-TTL", b"1m30s"), (b"Nats-Rollup", b"sub")
    )
    assert stored_headers(account, 4) == expected
    world.advance(91)
    assert sequences(account) == [3]


def test_age_leaves_markers_too_and_they_are_republished() -> None:
    world = FakeWorld()
    account = world.account()
    add(
        account,
        subject_delete_marker_ttl=3 * SECOND,
        max_age=2 * SECOND,
        republish=RePublish(src="t.>", dest="rep.>"),
    )
    publish(world, b"t.b", payload=b"2")
    world.advance(2.1)
    assert sequences(account) == [2]
    marker = world.published[-1]
    assert (marker.subject, headers.find(marker.headers, b"Nats-Last-Sequence")) == (b"rep.b", b"1")
    world.advance(2.1)  # by its age, before its TTL
    assert sequences(account) == []


@pytest.mark.parametrize("line", [(b"Nats-Marker-Reason", b"Purge"), (b"KV-Operation", b"PURGE")])
def test_what_is_a_marker_already_leaves_none(line: tuple[bytes, bytes]) -> None:
    world = FakeWorld()
    account = world.account()
    add(account, subject_delete_marker_ttl=SECOND)
    world.request(b"t.m", headers=with_ttl(b"1s", line))
    world.request(b"t.k", headers=with_ttl(b"1s", (b"KV-Operation", b"DEL")))
    world.advance(1.2)
    assert sequences(account) == [3]
    assert headers.find(stored_headers(account, 3), b"Nats-Marker-Reason") == b"MaxAge"


@pytest.mark.parametrize(("per_subject", "kept"), [(-1, b"3"), (1, b"1s")])
def test_a_ttl_below_that_of_markers_is_raised(per_subject: int, kept: bytes) -> None:
    world = FakeWorld()
    account = world.account()
    add(account, subject_delete_marker_ttl=3 * SECOND, max_msgs_per_subject=per_subject)
    publish(world, b"t.a", b"1s")
    assert headers.find(stored_headers(account, 1), b"Nats-TTL") == kept


# -- in slices ----------------------------------------------------------------------------------------


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", 3)
    for name in ("_PIECE", "_LOOKED_UP"):
        monkeypatch.setattr(ttl_module, name, 3)


def with_many(world: FakeWorld, **fields: Any) -> AccountJetStream:
    account = world.account()
    add(account, **fields)
    for number in range(20):
        world.send(b"t.%d" % number, headers=with_ttl(b"1s"))
    world.settle()
    return account


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("marker_ttl", [0, 60 * SECOND])
def test_many_that_are_due_go_in_slices(marker_ttl: int) -> None:
    world = FakeWorld()
    account = with_many(world, subject_delete_marker_ttl=marker_ttl)
    world.advance(61 if marker_ttl else 2)
    assert sequences(account) == (list(range(21, 41)) if marker_ttl else [])
    assert [items for name, items in world.slices if name == "expiry"].count(3) > 3
    world.advance(61)
    assert sequences(account) == []


@pytest.mark.usefixtures("small_steps")
def test_what_is_stored_while_others_expire_goes_in_its_own_time() -> None:
    world = FakeWorld()
    account = with_many(world)
    world.time_ns += 2 * SECOND
    account.stream("T").expiry.start()
    assert 0 < len(sequences(account)) < 20
    quiet = FakeWorld()
    with_many(quiet)
    world.send(b"t.x", headers=with_ttl(b"1s"))
    world.settle()
    assert sequences(account) == [21]
    assert world.timers <= quiet.timers + 1  # the one of before, which time has passed
    world.advance(2)
    assert (sequences(account), len(account.stream("T").expiry)) == ([], 0)


@pytest.mark.usefixtures("small_steps")
def test_nothing_expires_any_more_in_a_stream_that_was_stopped() -> None:
    world = FakeWorld()
    account = with_many(world)
    stream = account.stream("T")
    world.time_ns += 2 * SECOND
    stream.expiry.start()
    account.delete(stream)
    left = stream.log.messages
    world.settle()
    assert stream.log.messages == left > 0


@pytest.mark.usefixtures("small_steps")
def test_times_of_messages_that_are_gone_are_forgotten_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttl_module, "_STALE", 30)
    world = FakeWorld()
    account = world.account()
    add(account, max_msgs_per_subject=1)
    expiry = account.stream("T").expiry
    for number in range(60):
        world.advance(0.05)  # several to a bucket
        world.send(b"t.a", headers=with_ttl(b"%dh" % (number % 3 + 1)))
    world.settle()
    assert "stale times" in dict(world.slices)
    assert len(expiry) < 40
    world.advance(3 * 3600 + 10)
    assert (sequences(account), len(expiry)) == ([], 0)


def test_a_message_expires_later_if_it_cannot_be_read_when_it_is_due() -> None:
    world, disk = FakeWorld(), BadDisk()
    account = world.account(fs=disk)
    add(account, subject_delete_marker_ttl=100 * SECOND)
    publish(world, b"t.a", b"100s")
    world.settle()
    disk.broken = True
    world.advance(101)
    assert sequences(account) == [1]
    disk.broken = False
    world.advance(11)
    assert sequences(account) == [2]
    assert headers.find(stored_headers(account, 2), b"Nats-Marker-Reason") == b"MaxAge"
