"""Removed records are overwritten where they lie, and nothing else is."""

from __future__ import annotations

from random import Random

import pytest

from millstream.store.erasure import Erasure
from millstream.store.errors import StoreError
from millstream.store.frozen import Frozen
from millstream.store.fs import FileSystem, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.store.log import commit_all, contents, put

SEGMENT = 3000
COUNT = 100


def secret(number: int) -> bytes:
    return b"secret-%d-end" % number


def opened(fs: FileSystem, block_size: int = 0) -> Log:
    return open_log(fs, "s", segment_size=SEGMENT, block_size=block_size)


def filled(fs: FileSystem, count: int = COUNT, block_size: int = 0) -> Log:
    """Messages with recognisable payloads, subjects and headers over a few segments, all durable."""
    log = opened(fs, block_size)
    for number in range(1, count + 1):
        headers = b"NATS/1.0\r\nX: header-%d-end\r\n\r\n" % number if number % 3 == 0 else b""
        put(log, b"subject-%d-end" % number, secret(number), headers, timestamp=number)
    commit_all(log)
    return log


def disk(log: Log) -> bytes:
    parts = [log.chain.fs.read_all(f"s/{name}") for name in log.chain.fs.list("s")]
    parts += [log.chain.tables.file(segment).read(0, segment.size) for segment in log.chain.segments]
    return b"".join(parts)


def erase_all(log: Log) -> list[type]:
    """Two looks, and everything that is due then."""
    kinds: list[type] = []
    for _ in range(2):
        log.age_removals()
        commit_all(log)
    while (segment := log.upkeep.candidate()) is not None:
        job = log.upkeep.begin_job(segment)
        commit_all(log)
        assert job.ready
        job.run()
        assert log.end_job(job)
        kinds.append(type(job))
        commit_all(log)
    return kinds


def readable(log: Log, *numbers: int) -> list[int]:
    """Return the numbers whose payload, subject or header can be found on disk."""
    data = disk(log)
    marks = (b"secret-%d-end", b"subject-%d-end", b"header-%d-end")
    return [number for number in numbers if any(mark % number in data for mark in marks)]


@pytest.mark.parametrize("block_size", [0, 500], ids=["plain", "compressed"])
def test_a_few_removed_messages_leave_every_segment(block_size: int) -> None:
    log = filled(MemoryFileSystem(), block_size=block_size)
    gone = [2, 3, 30, 31, 55, 77, 98]
    for seq in gone:
        log.remove(seq)
    commit_all(log)
    before = contents(log)
    kinds = erase_all(log)
    assert (Erasure in kinds) is True  # the active segment is never compressed
    assert readable(log, *gone) == []
    assert contents(log) == before
    log.close()
    again = opened(log.chain.fs, block_size)
    assert contents(again) == before
    assert again.losses.damages == []
    assert readable(again, *gone) == []


def test_one_look_is_not_enough_so_what_was_just_removed_waits() -> None:
    log = filled(MemoryFileSystem())
    log.remove(3)
    commit_all(log)
    assert log.age_removals() == 1
    assert log.upkeep.candidate() is None
    assert log.age_removals() == 1
    assert log.upkeep.candidate() is log.chain.segments[0]


def test_a_log_from_which_nothing_was_removed_has_nothing_to_do() -> None:
    log = filled(MemoryFileSystem())
    assert [log.age_removals() for _ in range(3)] == [0, 0, 0]
    assert log.upkeep.candidate() is None


def test_what_was_erased_is_not_erased_again_after_a_restart() -> None:
    log = filled(MemoryFileSystem())
    for seq in (3, 40, 99):
        log.remove(seq)
    commit_all(log)
    assert erase_all(log)
    log.close()
    again = opened(log.chain.fs)
    assert again.age_removals() == 0


def test_what_was_removed_before_a_restart_is_erased_after_it() -> None:
    log = filled(MemoryFileSystem())
    for seq in (3, 40, 99):
        log.remove(seq)
    commit_all(log)
    log.close()
    again = opened(log.chain.fs)
    before = contents(again)
    assert erase_all(again)
    assert readable(again, 3, 40, 99) == []
    assert contents(again) == before


def test_the_index_is_right_after_messages_of_shared_subjects_were_erased() -> None:
    fs = MemoryFileSystem()
    log = opened(fs)
    for number in range(COUNT):
        put(log, b"k.%d" % (number % 7), secret(number))
    commit_all(log)
    for seq in range(1, COUNT + 1, 5):
        log.remove(seq)
    commit_all(log)

    def state(of: Log) -> list[object]:
        subjects = sorted((subject, node.count) for subject, node in of.index.match(b">"))
        firsts = [(of.first_of(subject), of.last_of(subject)) for subject, _ in subjects]
        return [subjects, firsts, of.messages, of.record_bytes, of.first_seq, of.last_seq, of.with_headers]

    before, listed = state(log), contents(log)
    assert erase_all(log)
    assert state(log) == before
    log.close()
    again = opened(fs)
    assert state(again) == before
    assert contents(again) == listed


def test_an_active_segment_without_live_messages_is_dropped() -> None:
    log = filled(MemoryFileSystem(), count=5)
    log.remove_below(6)
    log.shed()
    commit_all(log)
    assert readable(log, 1, 2, 3, 4, 5) == []
    assert log.last_seq == 5
    log.close()
    again = opened(log.chain.fs)
    assert (again.last_seq, again.messages) == (5, 0)
    assert put(again, b"a") == 6


def test_shedding_without_a_purge_keeps_the_last_sequence() -> None:
    log = filled(MemoryFileSystem(), count=5)
    for seq in (2, 1, 5, 4, 3):
        log.remove(seq)
    commit_all(log)
    assert erase_all(log) == []
    assert readable(log, 1, 2, 3, 4, 5) == []
    log.close()
    assert opened(log.chain.fs).last_seq == 5


def test_what_somebody_still_reads_is_erased_when_it_was_read() -> None:
    log = filled(MemoryFileSystem())
    frozen = Frozen(log)
    log.remove(3)
    commit_all(log)
    assert erase_all(log) == []
    record = Record()
    found = 0
    while frozen.enter():
        while frozen.next(record):
            found += 1
    frozen.close()
    assert found == COUNT
    assert erase_all(log) == [Erasure]
    assert readable(log, 3) == []


def test_a_message_is_not_overwritten_before_its_removal_is_durable() -> None:
    fs = CrashFileSystem()
    log = filled(fs)
    log.remove(3)
    log.age_removals()
    log.age_removals()
    segment = log.upkeep.candidate()
    assert segment is not None
    job = log.upkeep.begin_job(segment)
    assert not job.ready
    commit = log.begin_commit()
    assert commit is not None
    assert not job.ready
    commit.run()
    log.end_commit(commit)
    assert job.ready
    log.end_job(job)


def test_messages_that_come_while_the_active_segment_is_erased_are_kept() -> None:
    log = filled(MemoryFileSystem(), count=10)
    log.remove(10)
    log.remove(4)
    commit_all(log)
    log.age_removals()
    log.age_removals()
    segment = log.upkeep.candidate()
    assert segment is not None
    assert not segment.sealed
    job = log.upkeep.begin_job(segment)
    put(log, b"late.1", b"late one")
    commit_all(log)
    job.run()
    put(log, b"late.2", b"late two")
    assert log.end_job(job)
    commit_all(log)
    assert readable(log, 4, 10) == []
    assert [body for _, _, body, _ in contents(log).values()][-2:] == [b"late one", b"late two"]
    before = contents(log)
    log.close()
    assert contents(opened(log.chain.fs)) == before


def test_a_segment_that_is_sealed_while_it_is_erased_is_erased_again_later() -> None:
    log = filled(MemoryFileSystem(), count=10)
    log.remove(4)
    commit_all(log)
    log.age_removals()
    log.age_removals()
    segment = log.upkeep.candidate()
    assert segment is not None
    job = log.upkeep.begin_job(segment)
    commit_all(log)
    while not segment.sealed:
        put(log, b"more", b"x" * 200)
    job.run()
    assert log.end_job(job)
    commit_all(log)
    before = contents(log)
    assert readable(log, 4) == [4], "its summary has the subject"
    assert erase_all(log)
    assert readable(log, 4) == []
    log.close()
    assert contents(opened(log.chain.fs)) == before


def _life(fs: CrashFileSystem, block_size: int, log: Log, done: list[str]) -> None:
    """Removals of every kind, erased; `done` says how far it came."""
    for seq in (2, 3, 30, 31, 32, 55, 77, 98, 99, 100):
        log.remove(seq)
    commit_all(log)
    done.append("removed")
    erase_all(log)
    done.append("erased")
    log.remove_below(30)
    commit_all(log)
    done.append("purged")
    erase_all(log)
    log.remove_below(log.last_seq + 1)
    log.shed()
    commit_all(log)
    done.append("emptied")


REMOVED = {2, 3, 30, 31, 32, 55, 77, 98, 99, 100}


@pytest.mark.compiled
@pytest.mark.parametrize("block_size", [0, 500], ids=["plain", "compressed"])
@pytest.mark.parametrize("keep", Keep)
def test_a_power_cut_at_every_step_loses_nothing_and_brings_nothing_back(keep: Keep, block_size: int) -> None:
    fs = CrashFileSystem()
    log = filled(fs, block_size=block_size)
    before = fs.operations
    _life(fs, block_size, log, [])
    total = fs.operations - before
    for cut in range(1, total + 1):
        fs = CrashFileSystem()
        log = filled(fs, block_size=block_size)
        all_of_it = contents(log)
        fs.cut_power_at(fs.operations + cut)
        done: list[str] = []
        with pytest.raises(PowerCut):
            _life(fs, block_size, log, done)
        again = opened(fs.crash(keep, Random(cut)), block_size)
        found = set(contents(again))
        where = f"cut at {cut}, after {done}"
        assert again.losses.damages == [], where
        assert again.last_seq == COUNT, where
        removed = REMOVED if "removed" in done else set()
        if "purged" in done:
            removed = removed | set(range(1, 30))
        if "emptied" in done:
            removed = set(range(1, COUNT + 1))
        assert not found & removed, f"{where}: came back"
        if "purged" not in done:
            kept = {seq for seq in all_of_it if seq not in REMOVED}
            if "erased" in done:
                kept = {seq for seq in kept if seq >= 30}
            assert kept <= found, f"{where}: lost"
        # It goes on, and what was removed still goes.
        erase_all(again)
        assert readable(again, *(set(range(1, COUNT + 1)) - set(contents(again)))) == [], where


def test_what_a_failed_sync_of_an_erasure_drops_is_written_again() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    put(log, b"a", b"removed")
    put(log, b"a", b"kept")
    commit_all(log)
    log.remove(1)
    commit_all(log)
    log.age_removals()
    log.age_removals()
    job = log.next_job()
    assert job is not None
    commit_all(log)
    assert job.ready
    put(log, b"a", b"vouched for")
    commit = log.begin_commit()
    assert commit is not None
    commit.run(sync=False)  # a commit journal has it
    log.end_commit(commit)
    fs.fail(5, kind="sync")
    with pytest.raises(StoreError, match="sync"):
        job.run()
    assert "s/0000000001.unsynced" in fs.paths()
    assert not log.end_job(job)
    fs.heal()
    assert log.uncommitted
    commit_all(log)
    assert "s/0000000001.unsynced" not in fs.paths()
    again = open_log(fs.crash(Keep.NOTHING, Random(1)), "s")
    assert sorted(contents(again)) == [2, 3]


@pytest.mark.parametrize("summaries", [True, False])
def test_an_erased_message_whose_removal_was_damaged_is_given_up(summaries: bool) -> None:
    """The summary of its file still counts it, and the record that was written with the removal is lost."""
    fs = CrashFileSystem()
    log = filled(fs)
    log.erase(2)
    commit_all(log)
    log.close()
    (last,) = fs.list("s")[-1:]
    fs.damage(f"s/{last}", lambda data: data.__setitem__(-1, data[-1] ^ 1))
    if not summaries:
        for name in fs.list("s"):
            if name.endswith(".sum"):
                fs.lose(f"s/{name}")
    log = opened(fs)
    record = Record()
    assert [seq for seq in range(1, COUNT + 1) if log.get(seq, record)] == [1, *range(3, COUNT + 1)]
    assert log.messages == COUNT - 1
    assert list(contents(log)) == [1, *range(3, COUNT + 1)]


def test_an_erased_message_is_given_up_if_its_summary_is_damaged_later() -> None:
    fs = CrashFileSystem()
    log = filled(fs)
    log.erase(2)
    commit_all(log)
    log.close()
    (last,) = fs.list("s")[-1:]
    fs.damage(f"s/{last}", lambda data: data.__setitem__(-1, data[-1] ^ 1))
    log = opened(fs)
    fs.lose("s/0000000001.sum")
    record = Record()
    assert [seq for seq in range(1, COUNT + 1) if log.get(seq, record)] == [1, *range(3, COUNT + 1)]
    assert log.messages == COUNT - 1
