"""Lent memory does not change until it is given back, and is kept no longer."""

import contextlib
import os
from pathlib import Path

import pytest

from millstream.arrow.batch import Batch
from millstream.arrow.picks import picks_of
from millstream.arrow.reader import RangeReading
from millstream.store.extent import Extent, lend_extent
from millstream.store.fs import RealFileSystem
from millstream.store.layout import layout
from millstream.store.log import Log
from tests.kits.arrow.log import Direct, append, commit, fill, new_log, seqs, table_of


def rows_of(extent: Extent) -> list[int]:
    """The sequences of what can be read through it."""
    picks = picks_of(extent, None)
    batch = Batch(b"S", ("seq", "data"))
    for index in range(picks.count):
        place = picks.offset(index)
        batch.take(extent.read(place, picks.end(index) - place), place, picks, index, index + 1)
    assert batch.damaged == []
    found: list[int] = batch.seq.lend().tolist()
    return found


def lend(log: Log, seq: int = 1) -> Extent:
    extent = lend_extent(log, seq, log.committed)
    assert extent is not None
    return extent


def compact(log: Log) -> bool:
    job = log.next_job()
    if job is None:
        return False
    job.run()
    return log.end_job(job)


def test_only_what_is_committed_is_there() -> None:
    log = new_log()
    fill(log, 10)
    append(log, b"a", b"not yet")
    assert seqs(table_of(log)) == list(range(1, 11))
    commit(log)
    assert seqs(table_of(log)) == list(range(1, 12))


def test_a_range_has_both_its_ends() -> None:
    log = new_log()
    fill(log, 100)
    assert seqs(table_of(log, first=40, last=60)) == list(range(40, 61))
    assert seqs(table_of(log, first=100, last=100)) == [100]
    assert seqs(table_of(log, first=101, last=100)) == []


def test_removed_messages_and_gaps_are_passed_over() -> None:
    log = new_log()
    fill(log, 60)
    log.skip_to(1_000, 0)
    fill(log, 5)
    for seq in (1, 2, 30, 60, 1_001):
        log.remove(seq)
    log.remove_below(10)
    commit(log)
    kept = [seq for seq in range(10, 60) if seq != 30]
    assert seqs(table_of(log)) == [*kept, 1_002, 1_003, 1_004, 1_005]


def test_an_empty_log_has_no_rows() -> None:
    log = new_log()
    assert table_of(log).num_rows == 0
    fill(log, 30)
    log.remove_below(31)
    commit(log)
    assert table_of(log).num_rows == 0


def test_subjects_are_chosen_by_any_of_several_patterns() -> None:
    log = new_log()
    fill(log, 90)
    assert seqs(table_of(log, patterns=[b"a.1"])) == list(range(1, 91, 3))
    assert seqs(table_of(log, patterns=[b"a.1", b"a.0"])) == [s for s in range(1, 91) if s % 3 != 2]
    assert seqs(table_of(log, patterns=[b"a.*", b"b"])) == list(range(1, 91))
    assert seqs(table_of(log, patterns=[b"b", b">"])) == list(range(1, 91))
    assert seqs(table_of(log, patterns=[b"b.>"])) == []


def test_segments_without_a_match_are_not_lent() -> None:
    log = new_log()
    fill(log, 200)
    append(log, b"needle", b"")
    commit(log)
    fill(log, 200)
    source = Direct(log)
    assert len(layout(log)) >= 8
    assert seqs(table_of(log, patterns=[b"needle"], source=source)) == [201]
    assert source.lent == 1


def test_new_subjects_of_a_segment_that_grows_are_found() -> None:
    log = new_log(segment_size=1_000_000)
    fill(log, 10)
    reading = RangeReading(Direct(log), "S", ("seq",), 1, 20, (b"new.*", b"a.1"))
    # The range may be read while the segment grows: the second stretch has subjects that the first had not.
    reading.last = 10
    first = reading.next_batch()
    assert first is not None
    assert first.seq.lend().tolist() == [1, 4, 7, 10]
    for _ in range(10):
        append(log, b"new.x", b"")
    commit(log)
    reading.last = 20
    second = reading.next_batch()
    assert second is not None
    assert second.seq.lend().tolist() == list(range(11, 21))


def test_what_is_removed_while_it_is_lent_can_still_be_read() -> None:
    log = new_log()
    fill(log, 100)
    segments = len(layout(log))
    extent = lend(log)
    log.remove_below(101)
    commit(log)
    commit(log)
    assert rows_of(extent)[:3] == [1, 2, 3]
    assert len(layout(log)) == 2  # the last one, and the one that is lent
    extent.give_back()
    commit(log)
    assert len(layout(log)) == 1 < segments


def test_what_is_erased_while_it_is_lent_cannot_be_read() -> None:
    log = new_log()
    fill(log, 20)
    extent = lend(log)
    log.erase(4)
    commit(log)
    assert rows_of(extent) == [1, 2, 3, *range(5, 21)]
    extent.give_back()


def test_a_segment_that_is_lent_is_neither_compacted_nor_compressed() -> None:
    log = new_log()
    fill(log, 100)
    for seq in range(1, 30):
        log.remove(seq)
    commit(log)
    extent = lend(log)
    expected = rows_of(extent)
    while compact(log):
        commit(log)
    assert rows_of(extent) == expected
    extent.give_back()
    compact(log)
    assert seqs(table_of(log)) == list(range(30, 101))


def test_compacted_and_compressed_segments_are_read_like_others(tmp_path: Path) -> None:
    log = _real(tmp_path, 50_000)
    log.compress(True)
    fill(log, 5_000)
    for seq in range(1, 4_000, 3):
        log.remove(seq)
    commit(log)
    while compact(log):
        commit(log)
    assert any(segment.compressed for segment in layout(log))
    assert seqs(table_of(log)) == [seq for seq in range(1, 5_001) if seq >= 4_000 or seq % 3 != 1]
    bodies = table_of(log, ("data",), first=4_990).column("data").to_pylist()
    assert bodies == [b"body %d" % seq for seq in range(4_990, 5_001)]
    log.close()


def _real(folder: Path, segment_size: int) -> Log:
    from millstream.store.recovery import open_log

    return open_log(RealFileSystem(), str(folder / "log"), segment_size=segment_size)


def _open_below(folder: Path) -> list[str]:
    """The files in `folder` that this process holds open."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in names if name.startswith(str(folder))]


def test_a_log_that_is_closed_keeps_the_files_that_are_lent(tmp_path: Path) -> None:
    log = _real(tmp_path, 2_000)
    fill(log, 100)
    extent = lend(log)
    log.close()
    assert len(_open_below(tmp_path)) == 1
    assert rows_of(extent)[:2] == [1, 2]
    extent.give_back()
    assert not _open_below(tmp_path)


def test_tables_that_were_dropped_are_loaded(tmp_path: Path) -> None:
    log = _real(tmp_path, 2_000)
    fill(log, 2_000)
    for _ in range(2):  # the first time marks them
        for _ in log.rest():
            pass
    assert sum(segment.loaded for segment in layout(log)) < len(layout(log))
    assert seqs(table_of(log)) == list(range(1, 2_001))
    log.close()


def test_a_reading_that_fails_gives_back_what_it_was_lent() -> None:
    log = new_log()
    fill(log, 50)
    source = Direct(log)

    def broken(offset: int, size: int) -> bytes:
        raise OSError("broken")

    lent: list[Extent] = []

    def lend_broken(seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Extent | None:
        extent = Direct.lend(source, seq, last, patterns, most)
        assert extent is not None
        extent.read = broken  # type: ignore[method-assign]
        lent.append(extent)
        return extent

    source.lend = lend_broken  # type: ignore[method-assign]
    reading = RangeReading(source, "S", ("seq",), 1, 50)
    with pytest.raises(OSError, match="broken"):
        reading.next_batch()
    assert len(lent) == 1
    assert all(not segment.held for segment in layout(log))
