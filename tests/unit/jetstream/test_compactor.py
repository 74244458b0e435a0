"""Room that removed messages took is given back, without anybody noticing."""

from __future__ import annotations

import functools

import pytest

from millstream.jetstream import parts
from millstream.store.block_file import BlockFile, open_segment_file
from millstream.store.errors import StoreError
from millstream.store.layout import layout
from millstream.store.recovery import new_log, open_log
from tests.kits.jetstream.stream import Disk, Site

SEGMENT = 4000
FOLDER = "store/streams/S/log"


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "open_log", functools.partial(open_log, segment_size=SEGMENT))
    monkeypatch.setattr(parts, "new_log", functools.partial(new_log, segment_size=SEGMENT))


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
    before = sum(segment.size for segment in layout(stream.log))
    for _ in range(20):
        site.world.advance(1)
    after = sum(segment.size for segment in layout(stream.log))
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


# -- compression ----------------------------------------------------------------------------------


def packed(disk: Disk) -> list[str]:
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    return [name for name in names if isinstance(open_segment_file(disk, f"{FOLDER}/{name}"), BlockFile)]


def publish_much(site: Site, count: int = 200) -> None:
    for number in range(count):
        site.publish(f"s.{number % 7}", b"what can be compressed " * 5)


def rest(site: Site) -> None:
    for _ in range(20):
        site.world.advance(1)


def test_sealed_segments_of_a_compressed_stream_are_compressed() -> None:
    site = Site()
    stream = site.create(compression="s2")
    publish_much(site)
    before, state = size(site.disk), site.state()
    rest(site)
    assert len(packed(site.disk)) == len(layout(stream.log)) - 1 >= 4
    assert size(site.disk) < before / 2
    assert site.state() == state, "what it holds is counted as if it were not compressed"
    assert site.restarted(orderly=False).state() == state


def test_streams_that_are_not_to_be_compressed_are_not() -> None:
    site = Site()
    site.create()
    publish_much(site)
    rest(site)
    assert packed(site.disk) == []


def test_a_stream_in_memory_takes_the_option_and_ignores_it() -> None:
    site = Site()
    stream = site.create(storage="memory", compression="s2")
    publish_much(site)
    rest(site)
    assert stream.config.compression == "s2"
    assert not stream.log.compresses
    assert not any(segment.compressed for segment in layout(stream.log))


def test_an_update_switches_compression_on_and_off() -> None:
    site = Site()
    stream = site.create()
    publish_much(site)
    update = {"name": "S", "subjects": ["s.>"]}
    assert "error" not in site.ask("STREAM.UPDATE.S", update | {"compression": "s2"})
    rest(site)
    first = packed(site.disk)
    assert len(first) >= 4
    assert "error" not in site.ask("STREAM.UPDATE.S", update)
    assert not stream.log.compresses
    publish_much(site)
    rest(site)
    assert packed(site.disk) == first
    again = site.restarted()
    assert again.state()["messages"] == 400


def test_a_restart_goes_on_compressing() -> None:
    site = Site()
    site.create(compression="s2")
    publish_much(site)
    again = site.restarted(orderly=False)
    before = len(packed(again.disk))
    rest(again)
    assert len(packed(again.disk)) > before
    assert again.state()["messages"] == 200


def test_after_a_failure_the_disk_is_left_alone_for_a_minute() -> None:
    site = Site()
    site.create(compression="s2")
    tries: list[str] = []

    def refuse(op: str, path: str) -> None:
        if path.endswith(".log.new"):
            tries.append(path)
            raise StoreError(op, path, "Input/output error", recoverable=True)

    site.disk.check = refuse  # type: ignore[method-assign]
    publish_much(site)
    for _ in range(50):
        site.publish("s.1")
        site.world.advance(1)
    assert len(tries) == 1
    del site.disk.check  # type: ignore[method-assign]
    for _ in range(20):
        site.world.advance(1)
    assert packed(site.disk)


def test_many_streams_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    streams = [site.create(f"S{number}") for number in range(150)]
    compactor = site.account.committer.compactor
    looked: list[object] = []
    monkeypatch.setattr(compactor, "_begin", looked.append)
    for stream in streams:
        compactor.consider(stream)
    compactor._look()
    assert len(looked) == 64
    compactor._look()
    compactor._look()
    assert looked == streams
