"""Commits that tell where they end, and what a start concludes from that after power loss and damage."""

from __future__ import annotations

import errno
from random import Random

import pytest

from millstream.store.errors import StoreError
from millstream.store.log import Log
from millstream.store.record import HEADER_SIZE, Record, end_mark
from millstream.store.recovery import open_log
from millstream.store.segment import FILE_HEADER_SIZE, file_header
from tests.kits.crashfs import SECTOR, CrashFileSystem, Keep, PowerCut

PATH = "s/0000000001.log"
SECOND_PATH = "s/0000000002.log"
ENTRY = 1200  # bytes: every message has a sector of its own
SECOND_COMMIT = range(4, 7)


def put(log: Log, seqs: range, size: int = ENTRY) -> None:
    for seq in seqs:
        log.append(b"s", b"%04d" % seq + b"x" * (size - 4), 0, 0, size, 1000 + seq, 0)


def commit(log: Log, *, sync: bool = True) -> None:
    begun = log.begin_commit()
    assert begun is not None
    begun.run(sync=sync)
    log.end_commit(begun)


def two_commits(*, ends: bool) -> tuple[CrashFileSystem, dict[int, int]]:
    """Return a log of two commits with three messages each, and where each message is."""
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    log.mark_ends(ends)
    put(log, range(1, 4))
    commit(log)
    put(log, SECOND_COMMIT)
    commit(log)
    segment = log.chain.segments[0]
    places = {segment.seq_at(number): segment.offset_at(number) for number in range(segment.count)}
    log.close()
    return fs, places


def lose_sector(fs: CrashFileSystem, at: int) -> None:
    first = -(-at // SECTOR) * SECTOR
    fs.damage(PATH, lambda data: data.__setitem__(slice(first, first + SECTOR), bytes(SECTOR)))


def live(log: Log) -> list[int]:
    return list(log.sequences(1, log.last_seq))


def test_damage_before_the_last_commit_is_no_torn_write() -> None:
    fs, places = two_commits(ends=True)
    lose_sector(fs, places[2])
    log = open_log(fs, "s", refills=True)
    assert live(log) == [1, 3, 4, 5, 6]
    assert log.losses.torn == []
    assert log.losses.messages == 1


def test_an_origin_sends_a_torn_last_commit_again() -> None:
    fs, places = two_commits(ends=True)
    lose_sector(fs, places[5])
    log = open_log(fs, "s", refills=True)
    assert live(log) == [1, 2, 3, 4]
    assert (log.last_seq, log.losses.reach) == (4, 6)


# With fewer bytes, the checksum proves those that are lost; with one more, the mark is whole.
@pytest.mark.parametrize("here", range(5, HEADER_SIZE - 1))
def test_an_origin_sends_again_what_began_in_a_sector_that_was_lost(here: int) -> None:
    """The sector is not empty: it has what was there before, the first bytes of the last end mark."""

    def begin(size: int) -> tuple[CrashFileSystem, Log]:
        fs = CrashFileSystem()
        log = open_log(fs, "s")
        log.mark_ends(True)
        put(log, range(1, 2), size)
        commit(log)
        return fs, log

    size = ENTRY - begin(ENTRY)[1].chain.segments[0].size % SECTOR + SECTOR - here
    fs, log = begin(size)
    end = log.chain.segments[0].size
    assert end % SECTOR == SECTOR - here
    put(log, range(2, 5))
    commit(log)
    log.close()
    fs.damage(PATH, lambda data: data.__setitem__(slice(end, end + here), end_mark(2, end)[:here]))
    log = open_log(fs, "s", refills=True)
    assert live(log) == [1]
    assert (log.last_seq, log.losses.reach) == (1, 4)


def test_an_origin_sends_damaged_messages_at_the_end_again() -> None:
    fs, places = two_commits(ends=True)
    fs.damage(PATH, lambda data: data.__setitem__(places[6] + 100, 0))
    log = open_log(fs, "s", refills=True)
    assert live(log) == [1, 2, 3, 4, 5]
    assert (log.last_seq, log.losses.reach) == (5, 6)


@pytest.mark.parametrize("ends", [False, True])
def test_a_log_of_its_own_keeps_what_is_behind_a_lost_sector(ends: bool) -> None:
    fs, places = two_commits(ends=ends)
    lose_sector(fs, places[5])
    log = open_log(fs, "s")
    assert live(log) == [1, 2, 3, 4, 6]
    assert [first for first, _ in log.losses.torn] == [5]


@pytest.mark.parametrize("synced", [False, True])
def test_a_start_leaves_nothing_in_the_file_that_a_power_cut_takes(synced: bool) -> None:
    """The commit journal vouches for the bytes of its own commits, and they begin at the end of the file."""
    fs, places = two_commits(ends=False)
    lose_sector(fs, places[5])
    log = open_log(fs, "s", synced=synced)
    size = log.chain.segments[0].synced
    log.close()
    survivor = fs.crash(Keep.NOTHING, Random(1))
    assert len(survivor.read_all(PATH)) == size


def test_a_start_marks_a_torn_commit_once() -> None:
    fs, places = two_commits(ends=False)
    lose_sector(fs, places[5])
    sizes = []
    for _ in range(3):
        log = open_log(fs, "s")
        if log.has_uncommitted():
            commit(log)
        sizes.append(log.chain.segments[0].size)
        log.close()
    assert sizes == [sizes[0]] * 3
    assert live(open_log(fs, "s")) == [1, 2, 3, 4, 6]


def test_a_commit_that_is_written_again_is_one_with_the_next() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    log.mark_ends(True)
    put(log, range(1, 2))
    commit(log)
    put(log, range(2, 4))
    failing = log.begin_commit()
    assert failing is not None
    fs.fail(5, kind="sync")
    with pytest.raises(Exception, match="sync"):
        failing.run()
    log.fail_commit(failing)
    fs.heal()
    put(log, range(4, 6))
    commit(log)
    places = log.chain.segments[0].offsets.to_list()
    log.close()
    lose_sector(fs, places[1])  # of the part that failed: nothing behind it was durable before
    assert live(open_log(fs, "s", refills=True)) == [1]


def test_commits_without_a_sync_prove_nothing() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    log.mark_ends(True)
    for seq in range(1, 5):
        put(log, range(seq, seq + 1))
        commit(log, sync=False)
    places = log.chain.segments[0].offsets.to_list()
    log.close()
    lose_sector(fs, places[1])
    assert live(open_log(fs, "s", refills=True)) == [1]


def test_an_empty_log_knows_its_last_time_after_a_restart() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    put(log, range(1, 4))
    commit(log)
    log.remove_below(4)
    commit(log)
    log.close()
    assert open_log(fs, "s").last_timestamp == 1003


@pytest.mark.parametrize("seq", range(1, 7))
@pytest.mark.parametrize("bit", range(28))
def test_a_flipped_bit_in_a_length_costs_nothing(seq: int, bit: int) -> None:
    fs, places = two_commits(ends=False)
    before = fs.read_all(PATH)
    at = places[seq] + bit // 8
    fs.damage(PATH, lambda data: data.__setitem__(at, data[at] ^ 1 << bit % 8))
    log = open_log(fs, "s")
    assert live(log) == [1, 2, 3, 4, 5, 6]
    record = Record()
    assert log.get(seq, record)
    assert record.payload().startswith(b"%04d" % seq)
    log.close()
    assert fs.read_all(PATH) == before


@pytest.mark.parametrize("seq", range(1, 7))
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_last_byte_is_no_damaged_kind(seq: int, bit: int) -> None:
    fs, places = two_commits(ends=False)
    at = places.get(seq + 1, len(fs.read_all(PATH))) - 1
    fs.damage(PATH, lambda data: data.__setitem__(at, data[at] ^ 1 << bit))
    log = open_log(fs, "s")
    assert live(log) == [each for each in range(1, 7) if each != seq]
    assert log.losses.messages >= 1
    assert log.last_seq >= 6


@pytest.mark.parametrize("whole", [0, 1, 16, 100])
def test_what_a_torn_message_displaced_stays(whole: int) -> None:
    """A write failed in the middle of a sector, and power went while the next try replaced it."""
    fs, _ = two_commits(ends=False)
    log = open_log(fs, "s")
    put(log, range(7, 8), 1500)
    log.remove_below(3)
    commit(log)
    at = log.chain.segments[0].offset_at(6)
    log.close()
    start, end = at + whole, (at // SECTOR + 1) * SECTOR
    assert start < end
    fs.damage(PATH, lambda data: data.__setitem__(slice(start, end), bytes(end - start)))
    log = open_log(fs, "s")
    assert live(log) == [1, 2, 3, 4, 5, 6]


def test_sequences_go_on_behind_a_damaged_file_before_an_empty_one() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=100)
    put(log, range(1, 2))
    commit(log)
    put(log, range(2, 3))
    commit(log)
    log.close()
    fs.damage("s/0000000002.log", lambda data: data.clear())  # power went when it was created
    for name in [name for name in fs.list("s") if name.endswith(".sum")]:
        fs.lose(f"s/{name}")
    fs.damage(PATH, lambda data: data.__setitem__(16 + HEADER_SIZE + 5, 0))
    log = open_log(fs, "s", segment_size=100)
    assert log.last_seq >= 1
    assert log.messages == 0


@pytest.mark.parametrize("keep", list(Keep))
@pytest.mark.parametrize("seed", range(4))
def test_no_file_is_lost_before_others_of_its_commit(keep: Keep, seed: int) -> None:
    for operation in range(1, 40):
        fs = CrashFileSystem()
        log = open_log(fs, "s", segment_size=600)
        put(log, range(1, 6))
        fs.cut_power_at(fs.operations + operation)
        try:
            commit(log)
        except PowerCut:
            pass
        else:
            return
        found = live(open_log(fs.crash(keep, Random(seed)), "s"))  # type: ignore[arg-type]
        assert found == list(range(1, len(found) + 1))


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_messages_stay_until_those_that_displace_them_are_durable(error: int) -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    put(log, range(1, 4), size=200)
    log.roll()
    log.writer.write_used(log.chain.segments[-1])
    commit(log)
    put(log, SECOND_COMMIT, size=200)
    log.remove_below(4)
    assert log.next_commit.doomed
    failing = log.begin_commit()
    assert failing is not None
    fs.fail(error, kind="write")
    with pytest.raises(StoreError):
        failing.run()
    log.fail_commit(failing)
    assert live(open_log(fs.crash(Keep.EVERYTHING, Random(1)), "s"))[:3] == [1, 2, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(16))
def test_sequences_of_a_file_that_is_dropped_are_durable_before_the_next_exists(seed: int) -> None:
    for operation in range(1, 40):
        fs = CrashFileSystem()
        log = open_log(fs, "s")
        put(log, range(1, 4), size=20)
        commit(log)
        put(log, SECOND_COMMIT, size=20)
        commit(log, sync=False)  # a commit journal vouches for it
        log.roll()
        log.remove_below(7)
        assert log.next_commit.doomed
        put(log, range(7, 8))
        fs.cut_power_at(fs.operations + operation)
        try:
            commit(log)
        except PowerCut:
            pass
        else:
            return
        survivor = fs.crash(Keep.SECTORS, Random(seed))
        newest = max(name for name in survivor.list("s") if name.endswith(".log"))
        found = open_log(survivor, "s")  # type: ignore[arg-type]
        assert newest == "0000000001.log" or found.last_seq >= 6


@pytest.mark.parametrize("size", [0, FILE_HEADER_SIZE])
def test_a_write_that_failed_before_a_purge_is_no_damage(size: int, caplog: pytest.LogCaptureFixture) -> None:
    """The server was killed while it made the next file, and had not repeated the write."""
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    put(log, range(1, 4))
    commit(log)
    end = log.chain.segments[0].size
    put(log, range(4, 7))
    begun = log.begin_commit()
    assert begun is not None
    fs.space = sum(len(fs.read_all(path)) for path in fs.paths()) + 700
    with pytest.raises(StoreError):
        begun.run()
    log.fail_commit(begun)
    log.close()
    fs.space = None
    assert end < len(fs.read_all(PATH)) < end + ENTRY
    following = fs.open(SECOND_PATH, create=True)
    following.append(file_header(7)[:size])
    log = open_log(fs, "s")
    assert live(log) == [1, 2, 3]
    assert log.losses.messages == 0
    assert not [
        record for record in caplog.records if "damaged" in record.message or "missing" in record.message
    ]
