"""Messages that are stored on schedule, as nats-server 2.15.1 does it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.golang.time import format_time
from millstream.jetstream.account import AccountJetStream
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import Record
from tests.kits.bad_disk import BadDisk
from tests.kits.fake_world import FakeWorld

START = 1_700_000_000_000_000_000  # 2023-11-14T22:13:20Z
SECOND = 1_000_000_000
EVERY = b"@every 10s"
Line = tuple[bytes, bytes]


def make(world: FakeWorld, *, fs: MemoryFileSystem | None = None, **fields: Any) -> AccountJetStream:
    account = world.account(fs=fs)
    defaults = {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_rollup_hdrs": True}
    account.add(StreamConfig(**(defaults | {"allow_msg_ttl": True} | fields)))
    return account


def reopen(fs: MemoryFileSystem, now_ns: int) -> tuple[FakeWorld, AccountJetStream]:
    world = FakeWorld(now_ns)
    account = world.account(fs=fs)
    account.recover()
    world.settle()
    return world, account


def at(seconds: float) -> bytes:
    return b"@at " + format_time(START + round(seconds * SECOND)).encode()


def publish(world: FakeWorld, subject: bytes, *lines: Line, body: bytes = b"") -> tuple[int, int]:
    """(sequence, code of the error)."""
    answer = json.loads(world.request(subject, body, headers=headers.make(*lines)))
    return answer["seq"], answer.get("error", {}).get("err_code", 0)


def schedule(
    world: FakeWorld,
    pattern: bytes,
    *lines: Line,
    subject: bytes = b"s.x",
    target: bytes = b"s.t",
    body: bytes = b"",
) -> tuple[int, int]:
    first = (b"Nats-Schedule", pattern), (b"Nats-Schedule-Target", target)
    return publish(world, subject, *first, *lines, body=body)


def last(account: AccountJetStream, subject: bytes) -> tuple[int, bytes, bytes] | None:
    """(sequence, headers, body) of the last message of a subject."""
    log = account.stream("S").log
    record = Record()
    if not log.get(log.last_of(subject), record):
        return None
    return record.seq, record.headers(), record.payload()


def test_a_schedule_is_stored_with_a_rollup() -> None:
    world = FakeWorld()
    account = make(world)
    assert schedule(world, EVERY) == (1, 0)
    assert schedule(world, b"@every 1h") == (2, 0)
    found = last(account, b"s.x")
    assert found is not None
    assert found[1] == headers.make(
        (b"Nats-Schedule", b"@every 1h"), (b"Nats-Schedule-Target", b"s.t"), (b"Nats-Rollup", b"sub")
    )
    assert account.stream("S").log.messages == 1


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([(b"Nats-Schedule", b"bad"), (b"Nats-Schedule-Target", b"s.t")], 10189),
        ([(b"Nats-Schedule", EVERY)], 10190),
        *(
            ([(b"Nats-Schedule", EVERY), (b"Nats-Schedule-Target", target)], 10190)
            for target in (b"", b"s.x", b"s.*", b"other", b"s..a", b"s.t ", b"s.>")
        ),
    ],
)
def test_pattern_and_target_are_checked(lines: list[Line], code: int) -> None:
    world = FakeWorld()
    make(world)
    assert publish(world, b"s.x", *lines) == (0, code)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (b"Nats-Schedule-Time-Zone", b"UTC", 10189),  # with an interval
        (b"Nats-Schedule-Time-Zone", b"", 10223),
        (b"Nats-Schedule-Time-Zone", b"Nope", 10223),
        (b"Nats-Schedule-Source", b"", 0),
        (b"Nats-Schedule-Source", b"s.src", 0),
        (b"Nats-Schedule-Source", b"s.x", 10203),
        (b"Nats-Schedule-Source", b"s.t", 10203),
        (b"Nats-Schedule-Source", b"s.*", 10203),
        (b"Nats-Schedule-Source", b"other", 10203),
        (b"Nats-Schedule-TTL", b"", 0),
        (b"Nats-Schedule-TTL", b"5m", 0),
        (b"Nats-Schedule-TTL", b"never", 0),
        (b"Nats-Schedule-TTL", b"x", 10191),
        (b"Nats-Schedule-TTL", b"0", 10191),
        (b"Nats-Schedule-Rollup", b"sub", 0),
        (b"Nats-Schedule-Rollup", b"all", 10192),
        (b"Nats-Schedule-Rollup", b"SUB", 10192),
        (b"Nats-Rollup", b"sub", 0),
        (b"Nats-Rollup", b"SUB", 0),
        (b"Nats-Rollup", b"all", 10192),
        (b"Nats-Rollup", b"x", 10192),
        (b"Nats-Scheduler", b"s.q", 10212),
    ],
)
def test_options_are_checked(key: bytes, value: bytes, code: int) -> None:
    world = FakeWorld()
    make(world)
    assert schedule(world, EVERY, (key, value))[1] == code


def test_a_ttl_needs_a_stream_that_allows_it() -> None:
    world = FakeWorld()
    make(world, allow_msg_ttl=False)
    assert schedule(world, EVERY, (b"Nats-Schedule-TTL", b"5m")) == (0, 10166)


def test_a_stream_has_to_allow_schedules() -> None:
    world = FakeWorld()
    make(world, allow_msg_schedules=False)
    assert schedule(world, EVERY) == (0, 10188)
    assert schedule(world, b"bad") == (0, 10188)
    assert schedule(world, b"") == (1, 0)
    assert publish(world, b"s.x", (b"Nats-Schedule-Next", b"purge"), (b"Nats-Scheduler", b"s.q")) == (
        0,
        10188,
    )


def test_once_means_once_and_the_schedule_goes() -> None:
    world = FakeWorld()
    account = make(world)
    lines = (
        (b"X", b"y"),
        (b"Nats-Msg-Id", b"m1"),
        (b"Nats-Schedule-TTL", b"5m"),
        (b"Nats-Schedule-Rollup", b"sub"),
        (b"Nats-TTL", b"1h"),
        (b"Nats-Expected-Last-Sequence", b"0"),
    )
    schedule(world, at(5), *lines, body=b"body")
    world.advance(4.9)
    assert last(account, b"s.t") is None
    world.published.clear()
    world.advance(0.4)
    block = headers.make(
        (b"X", b"y"),
        (b"Nats-Scheduler", b"s.x"),
        (b"Nats-Schedule-Next", b"purge"),
        (b"Nats-TTL", b"5m"),
        (b"Nats-Rollup", b"sub"),
    )
    assert last(account, b"s.t") == (2, block, b"body")
    assert last(account, b"s.x") is None
    assert world.published == []
    world.advance(100)
    assert account.stream("S").log.last_seq == 2
    world.advance(201)
    assert account.stream("S").log.messages == 0


def test_a_schedule_waits_while_its_message_cannot_be_read() -> None:
    world, disk = FakeWorld(START), BadDisk()
    account = make(world, fs=disk)
    schedule(world, at(2), body=b"later")
    world.settle()
    disk.broken = True
    world.advance(5)
    disk.broken = False
    assert last(account, b"s.t") is None
    world.advance(2)
    found = last(account, b"s.t")
    assert found is not None
    assert found[2] == b"later"


def test_a_time_that_has_passed_is_due_at_once() -> None:
    world = FakeWorld()
    account = make(world)
    schedule(world, b"@at 2020-01-01T00:00:00Z")
    world.advance(0.3)
    assert last(account, b"s.t") == (
        2,
        headers.make((b"Nats-Scheduler", b"s.x"), (b"Nats-Schedule-Next", b"purge")),
        b"",
    )


def test_an_interval_repeats_with_the_time_of_the_next() -> None:
    world = FakeWorld()
    account = make(world)
    schedule(world, EVERY, body=b"b")
    for count in (1, 2, 3):
        world.advance(10.3 if count == 1 else 10)
        following = format_time(START + (count + 1) * 10 * SECOND).encode()
        block = headers.make((b"Nats-Scheduler", b"s.x"), (b"Nats-Schedule-Next", following))
        assert last(account, b"s.t") == (count + 1, block, b"b")
    assert last(account, b"s.x") is not None


def test_fields_are_in_their_time_zone() -> None:
    world = FakeWorld()
    account = make(world)
    schedule(world, b"0 0 8 * * *", (b"Nats-Schedule-Time-Zone", b"Europe/Berlin"))
    world.advance(10 * 3600)
    found = last(account, b"s.t")
    assert found is not None
    assert headers.find(found[1], b"Nats-Schedule-Next") == b"2023-11-16T08:00:00+01:00"


def test_the_body_may_come_from_another_subject() -> None:
    world = FakeWorld()
    account = make(world)
    schedule(world, EVERY, (b"Nats-Schedule-Source", b"s.src"), body=b"own")
    world.advance(10.3)
    found = last(account, b"s.t")
    assert found is not None
    assert found[2] == b"own"
    publish(world, b"s.src", (b"Src", b"1"), (b"Nats-Msg-Id", b"z"), body=b"other")
    world.advance(10)
    found = last(account, b"s.t")
    assert found is not None
    assert (headers.find(found[1], b"Src"), headers.find(found[1], b"Nats-Msg-Id")) == (b"1", None)
    assert found[2] == b"other"


def test_a_client_ends_a_schedule() -> None:
    world = FakeWorld()
    account = make(world)
    schedule(world, EVERY)
    end = (b"Nats-Schedule-Next", b"purge"), (b"Nats-Scheduler", b"s.x")
    assert publish(world, b"s.y", *end) == (2, 0)
    assert last(account, b"s.x") is None
    assert last(account, b"s.y") == (2, headers.make(*end), b"")
    world.advance(100)
    assert last(account, b"s.t") is None


@pytest.mark.parametrize(
    ("following", "scheduler", "code"),
    [
        (b"purge", None, 10212),
        (b"purge", b"s.y", 10212),
        (b"purge", b"s.*", 10212),
        (b"x", b"s.x", 10212),
        (b"2030-01-01T00:00:00Z", b"s.x", 10212),
        (None, b"s.x", 10212),
        (b"purge", b"s.plain", 10212),
        (b"purge", b"s.none", 0),
        (b"", b"", 0),
    ],
)
def test_what_ends_a_schedule_is_checked(following: bytes | None, scheduler: bytes | None, code: int) -> None:
    world = FakeWorld()
    make(world)
    world.request(b"s.plain", b"x")
    lines = [(b"Nats-Schedule-Next", following), (b"Nats-Scheduler", scheduler)]
    assert publish(world, b"s.y", *((key, value) for key, value in lines if value is not None))[1] == code


def test_a_message_over_a_schedule_or_its_removal_ends_it() -> None:
    world = FakeWorld()
    account = make(world)
    schedule(world, EVERY)
    schedule(world, EVERY, subject=b"s.z")
    world.request(b"s.x", b"plain")
    account.stream("S").log.remove(2)
    world.advance(100)
    assert last(account, b"s.t") is None


def test_a_schedule_that_is_replaced_all_the_time_fires_as_the_last_one_says() -> None:
    world = FakeWorld()
    account = make(world)
    for seconds in range(200, 0, -1):
        schedule(world, at(seconds))
    schedule(world, at(300), body=b"last")
    world.advance(299)
    assert last(account, b"s.t") is None
    world.advance(1.3)
    found = last(account, b"s.t")
    assert found is not None
    assert found[2] == b"last"


def test_a_restart_remembers_schedules_and_when_they_are_due() -> None:
    fs = MemoryFileSystem()
    world = FakeWorld()
    account = make(world, fs=fs)
    schedule(world, EVERY)
    schedule(world, at(100), subject=b"s.once", target=b"s.o")
    world.advance(15)
    account.stop()
    world, account = reopen(fs, START + 16 * SECOND)
    world.advance(3.9)
    assert account.stream("S").log.last_seq == 3
    world.advance(0.4)
    found = last(account, b"s.t")
    assert found is not None
    assert found[0] == 4
    world.advance(80)
    assert last(account, b"s.o") is not None


def test_a_schedule_that_was_missed_fires_once() -> None:
    fs = MemoryFileSystem()
    world = FakeWorld()
    account = make(world, fs=fs)
    schedule(world, at(5), subject=b"s.once", target=b"s.o")
    account.stop()
    world, account = reopen(fs, START + 1000 * SECOND)
    world.advance(1)
    assert last(account, b"s.o") is not None
    assert last(account, b"s.once") is None


def test_a_schedule_that_fired_before_a_crash_does_not_fire_again() -> None:
    fs = MemoryFileSystem()
    world = FakeWorld()
    account = make(world, fs=fs)
    schedule(world, at(5), body=b"b")
    path = "store/streams/S/log/0000000001.log"
    world.advance(6)
    fired = last(account, b"s.t")
    assert fired is not None
    account.stream("S").log.close()
    data = fs.read_all(path)
    record = Record()
    end = 16
    while record.read(data, end, len(data), True) == 1 and record.kind <= 1:
        end += record.size
    assert end < len(data)  # what says that the schedule was removed
    fs.open(path, create=False).truncate(end)
    world, account = reopen(fs, START + 7 * SECOND)
    world.advance(10)
    assert last(account, b"s.t") == fired
    assert last(account, b"s.x") is None


def test_a_batch_may_have_schedules() -> None:
    world = FakeWorld()
    account = make(world, allow_atomic=True)
    first = (b"Nats-Batch-Id", b"u"), (b"Nats-Batch-Sequence", b"1")
    second = (b"Nats-Batch-Id", b"u"), (b"Nats-Batch-Sequence", b"2"), (b"Nats-Batch-Commit", b"1")
    lines = (b"Nats-Schedule", EVERY), (b"Nats-Schedule-Target", b"s.t")
    end = (b"Nats-Schedule-Next", b"purge"), (b"Nats-Scheduler", b"s.x")
    world.request(b"s.x", headers=headers.make(*first, *lines))
    assert publish(world, b"s.y", *second, *end) == (2, 0)
    assert last(account, b"s.x") is None
    world.request(b"s.x", headers=headers.make(*first))
    assert publish(world, b"s.y", *second, *end) == (0, 10212)
    world.request(b"s.x", headers=headers.make(*first, *lines))
    assert publish(world, b"s.z", *second) == (4, 0)
    world.advance(11)
    assert last(account, b"s.t") is not None
