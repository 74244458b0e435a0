"""Sealed segments of a log are compressed, and nobody who reads it notices."""

from __future__ import annotations

import errno

import pytest

from millstream.store.block_file import BlockFile, open_segment_file
from millstream.store.blocks import BLOCK_SIZE, find_blocks
from millstream.store.compaction import Compaction
from millstream.store.compression import Compression
from millstream.store.cursor import Cursor
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFileSystem
from tests.kits.store.log import bodies, body_of, commit, commit_all, contents, filled, put

COUNT = 160
SEGMENT = 2000
BLOCK = 500


def log_of(fs: FileSystem | None = None, count: int = COUNT) -> Log:
    """Some segments that are to be compressed."""
    log = filled(count, fs, segment_size=SEGMENT)
    log.upkeep.block_size = BLOCK
    return log


def pack_all(log: Log) -> int:
    count = 0
    while (segment := log.upkeep.candidate()) is not None:
        job = log.upkeep.begin_job(segment)
        job.run()
        assert log.end_job(job)
        commit_all(log)
        count += 1
    return count


def packed(log: Log) -> list[str]:
    """The files that are compressed."""
    names = [name for name in log.chain.fs.list("s") if name.endswith(".log")]
    return [name for name in names if isinstance(open_segment_file(log.chain.fs, f"s/{name}"), BlockFile)]


def opened(log: Log, block_size: int = BLOCK) -> Log:
    log.close()
    return open_log(log.chain.fs, "s", segment_size=SEGMENT, block_size=block_size)


def disk(log: Log) -> int:
    return sum(
        len(log.chain.fs.read_all(f"s/{name}")) for name in log.chain.fs.list("s") if name.endswith(".log")
    )


def test_sealed_segments_are_compressed_once_and_the_active_one_is_not() -> None:
    log = log_of()
    before, sealed = contents(log), len(log.chain.segments) - 1
    assert sealed >= 3
    assert pack_all(log) == sealed
    assert len(packed(log)) == sealed
    assert f"{log.chain.segments[-1].number:010d}.log" not in packed(log)
    assert contents(log) == before
    again = opened(log)
    assert again.upkeep.candidate() is None
    assert (contents(again), again.losses.damages) == (before, [])


def test_the_summaries_stay_as_they_are() -> None:
    log = log_of(MemoryFileSystem())
    names = [name for name in log.chain.fs.list("s") if name.endswith(".sum")]
    before = {name: log.chain.fs.read_all(f"s/{name}") for name in names}
    pack_all(log)
    assert {name: log.chain.fs.read_all(f"s/{name}") for name in names} == before


def test_compressed_segments_can_be_read_without_their_summaries() -> None:
    log = log_of()
    pack_all(log)
    before = contents(log)
    log.close()
    for name in log.chain.fs.list("s"):
        if name.endswith(".sum"):
            log.chain.fs.remove(f"s/{name}")
    again = open_log(log.chain.fs, "s", segment_size=SEGMENT)
    assert (contents(again), again.losses.damages) == (before, [])


def test_compressible_messages_take_less_room() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=100_000, block_size=BLOCK_SIZE)
    for number in range(4000):
        put(
            log,
            b"orders.eu.%d" % (number % 9),
            b'{"order": %d, "customer": "somebody", "open": true}' % number,
        )
    commit_all(log)
    before = disk(log)
    assert pack_all(log) >= 3
    assert disk(log) < before * 0.6


def test_switched_on_it_takes_what_was_sealed_before_and_switched_off_it_leaves_it() -> None:
    log = filled(COUNT, segment_size=SEGMENT)
    assert log.upkeep.candidate() is None
    log.upkeep.block_size = BLOCK
    first = pack_all(log)
    assert first >= 3
    log.upkeep.block_size = 0
    while len(log.chain.segments) < first + 4:
        put(log, b"s.1", b"later" * 20)
        commit(log)
    commit_all(log)
    assert log.upkeep.candidate() is None
    before, mixed = contents(log), packed(log)
    assert len(mixed) == first
    again = opened(log, 0)
    assert (contents(again), packed(again), again.losses.damages) == (before, mixed, [])
    again.upkeep.block_size = BLOCK
    assert pack_all(again) >= 2
    assert contents(again) == before


def test_a_compressed_segment_that_is_mostly_dead_is_compacted_and_stays_compressed() -> None:
    log = log_of()
    pack_all(log)
    before = packed(log)
    for seq in range(1, COUNT + 1):
        if seq % 4:
            log.remove(seq)
    commit_all(log)
    size = disk(log)
    segment = log.upkeep.candidate()
    assert segment is not None
    job = log.upkeep.begin_job(segment)
    assert isinstance(job, Compaction)
    job.run()
    assert log.end_job(job)
    commit_all(log)
    pack_all(log)
    assert packed(log) == before
    assert disk(log) < size
    assert bodies(opened(log)) == {seq: body_of(seq) for seq in range(4, COUNT + 1, 4)}


def test_with_compression_off_a_compacted_segment_is_plain_again() -> None:
    log = log_of()
    pack_all(log)
    log.upkeep.block_size = 0
    for seq in range(1, COUNT + 1):
        if seq % 4:
            log.remove(seq)
    commit_all(log)
    assert pack_all(log) >= 3
    assert packed(log) == []
    assert log.upkeep.candidate() is None


def test_readers_and_cursors_do_not_notice() -> None:
    log = log_of()
    cursor, record = Cursor(log), Record()
    assert cursor.next(record)
    segment = log.upkeep.candidate()
    assert segment is not None
    job = log.upkeep.begin_job(segment)
    assert isinstance(job, Compression)
    assert cursor.next(record)
    job.run()
    log.remove(4)
    assert cursor.next(record)
    assert log.end_job(job)
    seen = []
    while cursor.next(record):
        seen.append(record.seq)
        assert record.payload() == body_of(record.seq)
    assert seen == list(range(5, COUNT + 1))
    commit_all(log)
    assert not opened(log).has(4)


@pytest.mark.parametrize("meanwhile", [False, True], ids=["compressed", "under-way"])
def test_an_erased_message_is_in_no_file(meanwhile: bool) -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=SEGMENT, block_size=BLOCK)
    for number in range(COUNT):
        put(log, b"a", b"secret %06d" % number * 3)
    commit_all(log)
    if meanwhile:
        segment = log.upkeep.candidate()
        assert segment is not None
        job = log.upkeep.begin_job(segment)
        job.run()
    else:
        pack_all(log)
    assert log.erase(3)
    assert log.erase(4)
    fs.transcript.clear()
    commit_all(log)
    if meanwhile:
        assert not log.end_job(job)
        pack_all(log)
    else:
        assert fs.transcript.count("rename 0000000001.log") == 1, "one file is written once for all of them"
    for name in fs.list("s"):
        assert name.endswith((".log", ".sum"))
        data = fs.read_all(f"s/{name}")
        if name.endswith(".log"):
            file = open_segment_file(fs, f"s/{name}")
            data += file.read(0, file.size())
        assert b"secret 000002" not in data
        assert b"secret 000003" not in data
    assert sorted(bodies(opened(log))) == [seq for seq in range(1, COUNT + 1) if seq not in (3, 4)]


def test_a_damaged_block_costs_the_messages_in_it_and_is_reported() -> None:
    for with_summaries in (True, False):
        fs = CrashFileSystem()
        log = log_of(fs)
        pack_all(log)
        segment = log.chain.segments[1]
        log.reader.load(segment)
        hit = {
            segment.seq_at(ordinal)
            for ordinal in range(segment.count)
            if segment.offset_at(ordinal) < 2 * BLOCK and segment.end_of(ordinal) > BLOCK
        }
        path = "s/0000000002.log"
        blocks = find_blocks(fs.read_all(path))
        assert blocks is not None
        at = blocks.places[1] + 40
        log.close()
        fs.damage(path, lambda data, at=at: data.__setitem__(at, data[at] ^ 8))
        if not with_summaries:
            for name in fs.list("s"):
                if name.endswith(".sum"):
                    fs.lose(f"s/{name}")
        log = open_log(fs, "s", segment_size=SEGMENT, block_size=BLOCK)
        assert bodies(log) == {seq: body_of(seq) for seq in range(1, COUNT + 1) if seq not in hit}
        assert log.losses.messages == len(hit)
        assert {damage.path for damage in log.losses.damages} == {path}


def test_a_last_file_that_is_compressed_says_that_a_later_one_is_lost() -> None:
    fs = CrashFileSystem()
    log = log_of(fs)
    pack_all(log)
    last = log.chain.segments[-1]
    known = {seq: body for seq, body in bodies(log).items() if seq < last.base_seq}
    log.close()
    fs.lose(f"s/{last.number:010d}.log")
    for name in fs.list("s"):
        if name.endswith(".sum"):
            fs.lose(f"s/{name}")
    again = open_log(fs, "s", segment_size=SEGMENT)
    assert [damage.reason for damage in again.losses.damages] == ["the segment is missing"]
    assert again.last_seq >= COUNT
    assert bodies(again) == known
    put(again, b"a", b"goes on")
    commit_all(again)
    assert len(bodies(open_log(fs, "s", segment_size=SEGMENT))) == len(known) + 1


def test_the_only_file_may_be_a_compressed_one() -> None:
    fs = CrashFileSystem()
    log = log_of(fs)
    pack_all(log)
    log.close()
    for name in fs.list("s"):
        if name != "0000000001.log":
            fs.lose(f"s/{name}")
    again = open_log(fs, "s", segment_size=SEGMENT)
    assert bodies(again)[1] == body_of(1)
    assert put(again, b"a") > COUNT


def test_a_full_disk_leaves_the_plain_file() -> None:
    fs = CrashFileSystem()
    log = log_of(fs)
    before = contents(log)
    segment = log.upkeep.candidate()
    assert segment is not None
    job = log.upkeep.begin_job(segment)
    fs.fail(errno.ENOSPC, kind="write", suffix=".new")
    with pytest.raises(StoreError):
        job.run()
    assert not log.end_job(job)
    fs.heal()
    assert contents(log) == before
    assert not [name for name in fs.list("s") if name.endswith(".new")]
    assert log.upkeep.candidate() is segment


def test_what_an_interrupted_erasure_left_goes_when_the_log_is_opened() -> None:
    log = log_of(MemoryFileSystem())
    log.chain.fs.replace("s/0000000001.log.erase.new", b"half")
    log.chain.fs.replace("s/0000000001.log.new", b"half")
    assert contents(opened(log))
    assert not [name for name in log.chain.fs.list("s") if name.endswith(".new")]


def test_files_that_are_unpacked_keep_one_block_each_in_memory() -> None:
    log = log_of()
    pack_all(log)
    contents(log)
    files = [segment.file for segment in log.chain.segments if isinstance(segment.file, BlockFile)]
    assert files
    assert all(file.kept() <= BLOCK for file in files)
