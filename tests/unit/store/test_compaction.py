"""Writing a segment anew without what is dead."""

from __future__ import annotations

import errno

import pytest

from millstream.store.cursor import Cursor
from millstream.store.errors import StoreError
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFileSystem
from tests.kits.store.log import SMALL, bodies, body_of, commit, commit_all, contents, filled, put

COUNT = 60


def thinned(fs: CrashFileSystem | None = None) -> Log:
    """A log of which every fourth message is left."""
    log = filled(COUNT, fs, segment_size=1000)
    for seq in range(1, COUNT + 1):
        if seq % 4:
            log.remove(seq)
    commit_all(log)
    return log


def compact_all(log: Log) -> int:
    count = 0
    while (segment := log.upkeep.candidate()) is not None:
        compaction = log.upkeep.begin_job(segment)
        compaction.run()
        assert log.end_job(compaction)
        commit_all(log)
        count += 1
    return count


def disk(log: Log) -> int:
    return sum(
        len(log.chain.fs.read_all(f"s/{name}")) for name in log.chain.fs.list("s") if name.endswith(".log")
    )


def test_dead_bytes_go_and_everything_live_stays() -> None:
    log = thinned()
    before, counted, bytes_before = contents(log), log.record_bytes, disk(log)
    assert compact_all(log) >= 3
    assert contents(log) == before
    assert (log.messages, log.record_bytes) == (COUNT // 4, counted)
    assert disk(log) < bytes_before * 0.6
    log.close()
    again = open_log(log.chain.fs, "s", segment_size=1000)
    assert contents(again) == before
    assert again.record_bytes == counted
    assert again.losses.damages == []
    assert put(again, b"a") == COUNT + 1


def test_a_log_with_little_to_gain_is_left_alone() -> None:
    log = filled(COUNT, segment_size=1000)
    assert log.upkeep.candidate() is None
    log.remove(2)
    commit_all(log)
    assert log.upkeep.candidate() is None


def test_a_new_file_can_be_read_from_its_bytes_alone() -> None:
    log = thinned()
    compact_all(log)
    before = contents(log)
    fs = log.chain.fs
    log.close()
    for name in fs.list("s"):
        if name.endswith(".sum"):
            fs.remove(f"s/{name}")
    again = open_log(fs, "s", segment_size=1000)
    assert contents(again) == before
    assert again.losses.damages == []
    assert again.last_seq == COUNT


def test_what_was_removed_meanwhile_is_removed_in_the_new_file() -> None:
    log = thinned()
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    compaction.run()
    log.remove(8)
    commit_all(log)
    assert log.end_job(compaction)
    assert not log.has(8)
    commit_all(log)
    log.close()
    assert sorted(bodies(open_log(log.chain.fs, "s", segment_size=1000))) == [
        seq for seq in range(4, COUNT + 1, 4) if seq != 8
    ]


def test_readers_and_cursors_do_not_notice() -> None:
    log = thinned()
    cursor, record = Cursor(log), Record()
    assert cursor.next(record)
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    assert cursor.next(record)
    compaction.run()
    assert bodies(log)[4] == body_of(4)
    assert cursor.next(record)
    assert record.seq == 12
    assert log.end_job(compaction)
    seen = []
    while cursor.next(record):
        seen.append(record.seq)
        assert record.payload() == body_of(record.seq)
    assert seen == list(range(16, COUNT + 1, 4))


def test_a_segment_whose_commit_is_under_way_is_not_exchanged() -> None:
    """The commit's memory has its messages at the same offsets as the old file."""
    log = open_log(CrashFileSystem(), "s", segment_size=1000)
    for seq in range(1, COUNT + 1):
        put(log, b"s", body_of(seq))
    first = log.begin_commit()  # several whole segments
    assert first is not None
    first.run()
    for seq in range(1, COUNT + 1):
        if seq % 4:
            log.remove(seq)
    assert log.upkeep.candidate() is None
    log.end_commit(first)
    assert bodies(log) == {seq: body_of(seq) for seq in range(4, COUNT + 1, 4)}
    commit_all(log)
    assert compact_all(log) >= 3
    assert log.losses.damages == []


def test_a_segment_that_is_dropped_meanwhile_stays_gone() -> None:
    log = thinned()
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    log.remove_below(segment.last_seq + 1)
    commit_all(log)
    compaction.run()
    assert not log.end_job(compaction)
    commit_all(log)
    assert f"{segment.number:010d}.log" not in log.chain.fs.list("s")
    assert not [name for name in log.chain.fs.list("s") if name.endswith(".new")]


def test_erasing_meanwhile_leaves_no_copy() -> None:
    log = thinned()
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    compaction.run()
    log.erase(4)
    commit_all(log)
    assert not log.end_job(compaction)
    commit_all(log)
    log.close()
    assert not [name for name in log.chain.fs.list("s") if body_of(4) in log.chain.fs.read_all(f"s/{name}")]


def test_removals_of_other_segments_messages_are_kept() -> None:
    log = filled(6, segment_size=SMALL)
    first = log.chain.segments[0]
    log.remove(1)  # in the first segment; said in a later one
    while len(log.chain.segments) < 4:
        put(log, b"b", b"x" * 40)
    commit_all(log)
    (speaking,) = [
        segment for segment in log.chain.segments if 1 in segment.removals.to_list() or segment.floor
    ]
    assert speaking is not first
    kept = speaking.last_seq
    for seq in range(speaking.base_seq, kept):
        log.remove(seq)
    commit_all(log)
    compaction = log.upkeep.begin_job(speaking)
    compaction.run()
    assert log.end_job(compaction)
    commit_all(log)
    log.close()
    again = open_log(log.chain.fs, "s", segment_size=SMALL)
    assert not again.has(1)
    assert again.has(2)
    assert again.has(kept)


def test_a_damaged_record_is_left_behind_and_reported() -> None:
    fs = CrashFileSystem()
    log = thinned(fs)
    segment = log.upkeep.candidate()
    assert segment is not None
    log.reader.load(segment)
    offset = segment.offset_at(segment.ordinal_of(4))
    fs.damage("s/0000000001.log", lambda data: data.__setitem__(offset + 30, data[offset + 30] ^ 1))
    compaction = log.upkeep.begin_job(segment)
    compaction.run()
    assert log.end_job(compaction)
    assert log.losses.messages == 1
    assert sorted(bodies(log)) == list(range(8, COUNT + 1, 4))


def test_a_full_disk_leaves_the_old_file() -> None:
    fs = CrashFileSystem()
    log = thinned(fs)
    before = contents(log)
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    fs.fail(errno.ENOSPC, kind="write", suffix=".new")
    with pytest.raises(StoreError):
        compaction.run()
    assert not log.end_job(compaction)
    fs.heal()
    assert contents(log) == before
    assert not [name for name in fs.list("s") if name.endswith(".new")]
    assert log.upkeep.candidate() is segment


def test_one_at_a_time_and_the_next_when_the_exchange_is_durable() -> None:
    log = thinned()
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    assert log.upkeep.candidate() is None
    compaction.run()
    assert log.end_job(compaction)
    assert log.uncommitted
    assert log.upkeep.candidate() is None
    commit(log)
    assert log.upkeep.candidate() not in (None, segment)
