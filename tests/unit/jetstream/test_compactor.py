"""Room that removed messages took is given back, without anybody noticing."""

from __future__ import annotations

import functools

import pytest
from stream_kit import Disk, Site

from millrace.jetstream import account
from millrace.store.recovery import open_log

SEGMENT = 4000
FOLDER = "store/streams/S/log"


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "open_log", functools.partial(open_log, segment_size=SEGMENT))


def size(disk: Disk) -> int:
    return sum(len(disk.read_all(f"{FOLDER}/{name}")) for name in disk.list(FOLDER) if name.endswith(".log"))


def fill(site: Site, rounds: int) -> None:
    """One message that stays in every segment, and many that are replaced."""
    for number in range(rounds):
        site.publish(f"s.stays.{number}", b"x" * 100)
        for _ in range(30):
            site.publish("s.changes", b"x" * 100)


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_segments_of_replaced_messages_shrink(storage: str) -> None:
    site = Site()
    stream = site.create(max_msgs_per_subject=1, storage=storage)
    fill(site, 10)
    before = sum(segment.size for segment in stream.log.segments)
    for _ in range(20):
        site.world.advance(1)
    after = sum(segment.size for segment in stream.log.segments)
    assert after < before / 3
    assert site.state()["messages"] == 11
    assert len(site.subjects()) == 11


def test_what_was_compacted_is_the_same_after_a_restart() -> None:
    site = Site()
    site.create(max_msgs_per_subject=1)
    fill(site, 10)
    before, subjects = size(site.disk), site.subjects()
    for _ in range(20):
        site.world.advance(1)
    assert size(site.disk) < before / 3
    assert site.restarted(orderly=False).subjects() == subjects


def test_a_stream_is_deleted_while_a_segment_is_compacted() -> None:
    site = Site()
    site.create(max_msgs_per_subject=1)
    fill(site, 4)
    jobs = []
    site.world.run_in_worker = lambda work, done: jobs.append((work, done))  # type: ignore[method-assign]
    site.world.advance(1)
    assert jobs, "there should be something to compact"
    site.ask("STREAM.DELETE.S")
    for work, done in jobs:
        work()
        done(None)
    assert site.disk.list("store/streams") == []
    assert site.disk.list("store/deleted") == []


def test_a_server_stops_while_a_segment_is_compacted() -> None:
    site = Site()
    site.create(max_msgs_per_subject=1)
    fill(site, 4)
    subjects = site.subjects()
    jobs = []
    site.world.run_in_worker = lambda work, done: jobs.append((work, done))  # type: ignore[method-assign]
    site.world.advance(1)
    assert jobs
    again = site.restarted()
    assert again.subjects() == subjects
    for work, done in jobs:
        work()
        done(None)
