"""Reading in order, while things change."""

from __future__ import annotations

import pytest

from millstream.store.cursor import Cursor
from millstream.store.fs import MemoryFile, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from tests.kits.store.log import SMALL, body_of, commit, commit_all, filled, put


def rest(cursor: Cursor) -> list[int]:
    record = Record()
    found = []
    while cursor.next(record):
        found.append(record.seq)
        assert record.payload() == body_of(record.seq)
    return found


def test_it_reads_everything_in_order() -> None:
    log = filled(200)
    assert rest(Cursor(log)) == list(range(1, 201))
    assert rest(Cursor(log, 150)) == list(range(150, 201))
    assert rest(Cursor(log, 201)) == []
    assert rest(Cursor(log, 10_000)) == []


@pytest.mark.parametrize(
    ("patterns", "remainders"),
    [
        ((b"s.1",), {1}),
        ((b"s.1", b"s.2"), {1, 2}),
        ((b"s.*",), {0, 1, 2}),
        ((b">",), {0, 1, 2}),
        ((b"none",), set()),
        ((b"none", b">"), {0, 1, 2}),
    ],
)
def test_it_reads_what_is_wanted(patterns: tuple[bytes, ...], remainders: set[int]) -> None:
    log = filled(200)
    wanted = [number for number in range(1, 201) if number % 3 in remainders]
    assert rest(Cursor(log, 1, patterns)) == wanted
    assert rest(Cursor(log, 90, patterns)) == [number for number in wanted if number >= 90]


def test_it_goes_on_after_a_commit() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    cursor = Cursor(log)
    filtered = Cursor(log, 1, (b"new.>",))
    for number in range(1, 100):
        put(log, b"new.%d" % number, body_of(number))
        assert rest(cursor) == []
        commit(log)
        assert rest(cursor) == [number]
        assert rest(filtered) == [number]
    assert cursor.seq == 100


@pytest.mark.parametrize("pattern", [b"a.1", b"a.*", b"a.>"])
def test_a_subject_that_comes_back_is_not_taken_for_another(pattern: bytes) -> None:
    """All its messages were removed when the cursor came: for a while, every subject was wanted."""
    log = open_log(MemoryFileSystem(), "s", segment_size=10_000)
    put(log, b"b.1", body_of(1))
    put(log, b"a.1", body_of(2))
    commit(log)
    log.remove(1)
    cursor = Cursor(log, 1, (pattern,))
    assert rest(cursor) == [2]
    put(log, b"b.1", body_of(3))
    put(log, b"a.1", body_of(4))
    commit(log)
    assert cursor.count_from(3) == 1
    assert rest(cursor) == [4]


def test_what_is_removed_ahead_of_it_is_not_read() -> None:
    log = filled(100)
    cursor = Cursor(log)
    record = Record()
    assert cursor.next(record)
    log.remove(2)
    log.remove_below(40)
    log.remove_matching(b"s.1", 60)
    expected = [number for number in range(40, 101) if number >= 60 or number % 3 != 1]
    assert rest(cursor) == expected


def test_it_survives_the_drop_of_the_segment_it_stands_in() -> None:
    log = filled(100)
    cursor = Cursor(log)
    record = Record()
    for _ in range(3):
        assert cursor.next(record)
    log.remove_below(50)
    commit_all(log)
    assert rest(cursor) == list(range(50, 101))


def test_it_can_be_moved() -> None:
    log = filled(50)
    cursor = Cursor(log, 30)
    assert rest(cursor)[0] == 30
    cursor.move(10)
    assert rest(cursor) == list(range(10, 51))


def test_a_record_longer_than_a_chunk_is_read_whole() -> None:
    log = open_log(MemoryFileSystem(), "s")
    for size in (10, 1_000_000, 3, 300_000):
        put(log, b"a", b"x" * size)
    commit(log)
    cursor = Cursor(log)
    record = Record()
    sizes = []
    while cursor.next(record):
        sizes.append(len(record.payload()))
    assert sizes == [10, 1_000_000, 3, 300_000]


def test_a_damaged_record_is_reported_and_left_out() -> None:
    log = filled(20, segment_size=10_000)
    file = log.chain.segments[0].file
    assert isinstance(file, MemoryFile)
    file.overwrite(log.chain.segments[0].offset_at(9) + 30, b"?")
    assert rest(Cursor(log)) == [number for number in range(1, 21) if number != 10]
    assert log.losses.messages == 1
    assert log.messages == 19


def test_many_records_are_read_with_few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(20_000, segment_size=1 << 20)
    reads = []
    read = MemoryFile.read
    monkeypatch.setattr(
        MemoryFile, "read", lambda file, offset, size: (reads.append(size), read(file, offset, size))[1]
    )
    assert len(rest(Cursor(log))) == 20_000
    assert len(reads) < 30


def test_few_matches_far_apart_do_not_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=1 << 20)
    for number in range(1, 4001):
        put(log, b"rare" if number % 1000 == 0 else b"often", b"x" * 400)
    commit_all(log)
    read = MemoryFile.read
    reads = []
    monkeypatch.setattr(
        MemoryFile, "read", lambda file, offset, size: (reads.append(size), read(file, offset, size))[1]
    )
    cursor, record = Cursor(log, 1, (b"rare",)), Record()
    found = []
    while cursor.next(record):
        found.append(record.seq)
    assert found == [1000, 2000, 3000, 4000]
    assert sum(reads) < 40_000


def test_it_is_tired_when_it_passed_over_as_much_as_it_may_and_goes_on_from_there() -> None:
    log = filled(200)
    cursor, record, found, rests = Cursor(log, 1, (b"s.1",)), Record(), [], 0
    while True:
        cursor.allow(5)
        while cursor.step(record):
            found.append(record.seq)
        if not cursor.tired:
            break
        rests += 1
    assert found == [number for number in range(1, 201) if number % 3 == 1]
    assert rests > 200 // 3 * 2 // 10  # it passes over two of three


def test_what_is_wanted_tires_nobody() -> None:
    log = filled(200)
    cursor, record, count = Cursor(log), Record(), 0
    cursor.allow(1)
    while cursor.step(record):
        count += 1
    assert (count, cursor.tired) == (200, False)


def test_next_never_tires() -> None:
    log = filled(200)
    cursor, record = Cursor(log, 1, (b"s.1",)), Record()
    cursor.allow(0)
    assert not cursor.step(record)
    assert rest(cursor) == [number for number in range(1, 201) if number % 3 == 1]


def test_what_the_last_commit_wrote_is_read_without_the_file() -> None:
    class Counted(MemoryFileSystem):
        reads = 0

        def open(self, path: str, *, create: bool = False) -> MemoryFile:
            file = super().open(path, create=create)
            read = file.read

            def counting(offset: int, size: int) -> bytes:
                Counted.reads += 1
                return read(offset, size)

            file.read = counting  # type: ignore[method-assign]
            return file

    log = filled(20, Counted(), segment_size=1_000_000)
    log.commits.keeps_recent = True
    cursor, other = Cursor(log), Cursor(log, 1, (b"s.1",))
    rest(cursor)
    rest(other)
    for number in range(21, 41):
        put(log, b"s.%d" % (number % 3), body_of(number))
    commit_all(log)
    before = Counted.reads
    assert rest(cursor) == list(range(21, 41))
    assert rest(other) == [number for number in range(21, 41) if number % 3 == 1]
    assert Counted.reads == before
    log.commits.recent = None
    assert rest(Cursor(log, 30)) == list(range(30, 41))
    assert Counted.reads > before


def test_a_cursor_that_is_behind_reads_on_into_what_was_just_written() -> None:
    log = filled(20)
    log.commits.keeps_recent = True
    cursor = Cursor(log)
    for number in range(21, 41):
        put(log, b"s.%d" % (number % 3), body_of(number))
    commit_all(log)
    assert rest(cursor) == list(range(1, 41))


def test_a_log_that_nobody_waits_for_keeps_nothing_in_memory() -> None:
    log = filled(20)
    assert log.commits.recent is None


def of_many_subjects(count: int, segment_size: int = 2**30) -> Log:
    """A committed log with a message for each of so many subjects."""
    log = open_log(MemoryFileSystem(), "s", segment_size=segment_size)
    for number in range(1, count + 1):
        put(log, b"s.%d.x" % number, b"")
    commit_all(log)
    return log


def steps(cursor: Cursor, allowed: int) -> list[int]:
    """Return how many messages each step gave until there are no more."""
    record, counts = Record(), [0]
    while True:
        cursor.allow(allowed)
        while cursor.step(record):
            counts[-1] += 1
        if not cursor.tired:
            return counts
        counts.append(0)


def test_each_large_segment_is_entered_in_a_step_of_its_own() -> None:
    log = of_many_subjects(15_000, segment_size=200_000)
    sizes = [segment.count for segment in log.chain.segments]
    assert len(sizes) > 2
    assert steps(Cursor(log), 10**6) == sizes


def test_subjects_are_compared_with_many_patterns_for_a_while() -> None:
    log = of_many_subjects(5_000)
    patterns = tuple(b"*.%d.*" % number for number in range(4_991, 5_011))
    counts = steps(Cursor(log, 1, patterns), 10**6)
    assert counts == [0, 0, 10]  # 2,048 subjects at a time
    assert len(rest_of_seqs(Cursor(log, 1, patterns))) == 10


def rest_of_seqs(cursor: Cursor) -> list[int]:
    record, found = Record(), []
    while cursor.next(record):
        found.append(record.seq)
    return found


@pytest.mark.parametrize("seq", [1, 77, 199, 200])
def test_it_can_be_moved_back_and_on_within_its_segment(seq: int) -> None:
    log = filled(200)
    cursor, record = Cursor(log, 1, (b"s.1", b"s.2")), Record()
    for _ in range(50):
        assert cursor.next(record)
    cursor.move(seq)
    assert rest(cursor) == [number for number in range(seq, 201) if number % 3]


def test_moving_back_compares_no_subjects_again() -> None:
    log = of_many_subjects(5_000)
    patterns = tuple(b"*.%d.*" % number for number in range(1, 11))
    cursor, record = Cursor(log, 1, patterns), Record()
    assert cursor.next(record)
    cursor.move(record.seq)
    cursor.allow(10)
    assert cursor.step(record)
    assert (record.seq, cursor.tired) == (1, False)
