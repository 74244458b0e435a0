"""A log as it was, read while it goes on."""

import pytest

from millstream.store.errors import StoreError
from millstream.store.frozen import Frozen
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log


def commit(log: Log) -> None:
    pending = log.begin_commit(flush=True)
    if pending is not None:
        pending.run()
        log.end_commit(pending)


def filled(count: int, *, segment_size: int = 512) -> tuple[MemoryFileSystem, Log]:
    fs = MemoryFileSystem()
    log = open_log(fs, "log", segment_size=segment_size)
    append(log, count)
    return fs, log


def append(log: Log, count: int) -> None:
    for number in range(log.last_seq + 1, log.last_seq + count + 1):
        body = b"body %d" % number
        log.append(b"a.%d" % (number % 3), body, 0, 0, len(body), 1000 + number, 0)
        if number % 10 == 0:
            commit(log)
    commit(log)


def read(frozen: Frozen) -> list[tuple[int, bytes]]:
    record = Record()
    found = []
    while frozen.enter():
        while frozen.next(record):
            found.append((record.seq, record.payload()))
    frozen.close()
    return found


def bodies(*seqs: int) -> list[tuple[int, bytes]]:
    return [(seq, b"body %d" % seq) for seq in seqs]


def test_it_has_what_was_there_and_nothing_that_came_later() -> None:
    _, log = filled(50)
    log.remove(7)
    frozen = Frozen(log)
    append(log, 20)
    assert read(frozen) == bodies(*(seq for seq in range(1, 51) if seq != 7))


def test_what_is_removed_meanwhile_is_still_read() -> None:
    _, log = filled(50)
    frozen = Frozen(log)
    log.remove(3)
    log.remove_below(40)
    commit(log)
    append(log, 30)
    assert read(frozen) == bodies(*range(1, 51))


def test_segments_that_nobody_needs_go_when_they_were_read() -> None:
    fs, log = filled(50)
    frozen = Frozen(log)
    log.remove_below(51)
    append(log, 1)
    held = len(fs.list("log"))
    read(frozen)
    commit(log)
    commit(log)
    assert len(fs.list("log")) < held
    assert list(log.sequences(1, 100)) == [51]


def test_what_was_not_committed_yet_belongs_to_it() -> None:
    _, log = filled(5)
    log.append(b"a", b"body 6", 0, 0, 6, 2000, 0)
    frozen = Frozen(log)
    assert frozen.last_seq == 6
    commit(log)
    assert read(frozen) == bodies(*range(1, 7))


def test_what_is_erased_meanwhile_is_left_out() -> None:
    _, log = filled(20)
    frozen = Frozen(log)
    log.erase(5)
    commit(log)
    assert read(frozen) == bodies(*(seq for seq in range(1, 21) if seq != 5))


def test_no_segment_that_is_held_is_compacted() -> None:
    _, log = filled(50)
    frozen = Frozen(log)
    for seq in range(1, 45):
        if seq % 5:
            log.remove(seq)
    commit(log)
    assert log.upkeep.candidate() is None
    read(frozen)
    commit(log)
    assert log.upkeep.candidate() is not None


def test_a_compaction_under_way_is_given_up() -> None:
    _, log = filled(50)
    for seq in range(1, 45):
        if seq % 5:
            log.remove(seq)
    commit(log)
    commit(log)
    segment = log.upkeep.candidate()
    assert segment is not None
    compaction = log.upkeep.begin_job(segment)
    compaction.run()
    frozen = Frozen(log)
    assert not log.end_job(compaction)
    assert read(frozen) == bodies(*(seq for seq in range(1, 51) if seq >= 45 or seq % 5 == 0))


def test_a_damaged_record_ends_it() -> None:
    fs, log = filled(50)
    frozen = Frozen(log)
    file = fs.open(f"log/{log.chain.segments[0].number:010}.log", create=False)
    file.overwrite(60, b"\xff")
    with pytest.raises(StoreError, match="damaged record"):
        read(frozen)
    assert frozen.damaged
    frozen.close()


def test_two_may_be_read_at_once() -> None:
    _, log = filled(30)
    first, second = Frozen(log), Frozen(log)
    log.remove_below(31)
    commit(log)
    assert read(first) == bodies(*range(1, 31))
    assert read(second) == bodies(*range(1, 31))
