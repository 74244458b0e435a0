"""A wall clock that is set back, or forward and back again, under a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.jetstream.account import AccountJetStream
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import Record
from tests.kits.fake_world import FakeWorld

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


class Site:
    """A stream `S` in a world whose clock can be set."""

    def __init__(self, **config: Any) -> None:
        self.fs = MemoryFileSystem()
        self.world = FakeWorld()
        self.account: AccountJetStream = self.world.account(fs=self.fs)
        self.account.add(
            StreamConfig(name="S", subjects=["s"], storage=StorageType.FILE, **{"max_age": 0} | config)
        )

    def set_clock(self, seconds: float) -> None:
        """Timers do not see it: they run on another clock."""
        self.world.was_set_ns += round(seconds * SECOND)

    def publish(self, message_id: str = "") -> dict[str, Any]:
        block = headers.make((b"Nats-Msg-Id", message_id.encode())) if message_id else None
        return json.loads(self.world.request(b"s", b"x", block))  # type: ignore[no-any-return]

    def restart(self) -> None:
        self.account.stop()
        self.world = FakeWorld(self.world.now_ns())
        self.account = self.world.account(fs=self.fs)
        self.account.recover()

    def times(self) -> list[int]:
        log, record = self.account.streams["S"].log, Record()
        return [record.timestamp for seq in log.sequences(1, log.last_seq) if log.get(seq, record)]


@pytest.mark.parametrize("restart", [False, True])
def test_times_and_sequences_only_rise(restart: bool) -> None:
    site = Site()
    seqs = []
    for jump in (0, -3600, 10, -86_400, 7200, -1):
        site.set_clock(jump)
        if restart:
            site.restart()
        seqs.append(site.publish()["seq"])
    assert seqs == [1, 2, 3, 4, 5, 6]
    assert site.times() == sorted(site.times())


def test_a_message_is_found_by_its_time_although_the_clock_was_set_back() -> None:
    site = Site()
    site.publish()
    before = site.world.now_ns()
    site.set_clock(-3600)
    site.publish()
    log = site.account.streams["S"].log
    assert log.seq_at_time(before) == 1
    assert log.seq_at_time(before + 1) == 0
    site.set_clock(7200)
    site.publish()
    assert log.seq_at_time(before + 1) == 3


@pytest.mark.parametrize("restart", [False, True])
def test_ids_stay_known_when_the_clock_is_set_back(restart: bool) -> None:
    site = Site(duplicate_window=60 * SECOND)
    assert site.publish("one")["seq"] == 1
    site.set_clock(-3600)
    if restart:
        site.restart()
    assert site.publish("one") == {"stream": "S", "seq": 1, "duplicate": True}
    assert site.publish("two")["seq"] == 2
    assert site.publish("two") == {"stream": "S", "seq": 2, "duplicate": True}


def test_ids_are_forgotten_one_day_after_the_clock_was_set_back() -> None:
    site = Site(duplicate_window=60 * SECOND)
    site.publish("one")
    site.set_clock(-3600)
    site.world.advance(3600 + 61)
    assert site.publish("one") == {"stream": "S", "seq": 2}


@pytest.mark.parametrize("restart", [False, True])
def test_no_message_gets_too_old_early_when_the_clock_is_set_back(restart: bool) -> None:
    site = Site(max_age=100 * SECOND)
    site.publish()
    site.world.advance(50)
    site.set_clock(-30)
    site.publish()
    if restart:
        site.restart()
    site.world.advance(60)
    assert len(site.times()) == 2
    site.world.advance(21)  # now the clock says that the first is a hundred seconds old
    assert len(site.times()) == 1
    site.world.advance(60)
    assert site.times() == []


def test_a_clock_far_ahead_that_is_corrected_loses_nothing_and_stops_nothing() -> None:
    site = Site(max_age=100 * SECOND)
    site.set_clock(HOUR / SECOND)
    site.publish()
    site.set_clock(-HOUR / SECOND)
    assert site.publish()["seq"] == 2
    site.world.advance(50)
    assert site.publish()["seq"] == 3
    assert len(site.times()) == 3
    site.world.advance(3600 + 200)
    assert site.times() == []
