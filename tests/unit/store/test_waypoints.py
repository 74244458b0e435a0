"""Single messages are found by waypoints: the same as by tables, with one short read, whatever is lost."""

from __future__ import annotations

import random

import pytest

from millstream.base.numbers import Numbers
from millstream.base.slices import finish
from millstream.store import tables
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem, MemoryFile, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from millstream.store.waypoints import STRIDE, Waypoints
from tests.kits.store.log import bodies, body_of, commit, commit_all, filled, put

COUNT = 900
SEGMENT = 4000


class CountingFiles(MemoryFileSystem):
    """Counts what is read of segments and summaries."""

    def __init__(self) -> None:
        super().__init__()
        self.summaries = 0

    def read_all(self, path: str) -> bytes:
        self.summaries += path.endswith(".sum")
        return super().read_all(path)


def opened(fs: FileSystem, stride: int = 100) -> Log:
    """The log in `fs` with short stretches; only its last segment has tables."""
    log = open_log(fs, "s", segment_size=SEGMENT)
    log.chain.tables.stride = stride
    for segment in log.chain.segments[:-1]:
        if segment.loaded:
            continue
        segment.waypoints = None
        log.reader.load(segment)
        log.chain.tables.drop(segment)
        segment.unload(stride)
    return log


def stored(*, gaps: bool) -> CountingFiles:
    """A log of many segments; with `gaps`, one whose files were compacted."""
    fs = CountingFiles()
    log = filled(COUNT, fs, segment_size=SEGMENT)
    if gaps:
        for seq in range(2, COUNT - 100):
            if seq % 3:
                log.remove(seq)
        commit_all(log)
        while (segment := log.upkeep.candidate()) is not None:
            job = log.upkeep.begin_job(segment)
            if not job.ready:
                commit(log)
            job.run()
            log.end_job(job)
            commit_all(log)
        assert any(segment.seqs is not None for segment in log.chain.segments)
    log.close()
    return fs


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("stride", [1, 100, STRIDE])
def test_what_waypoints_find_is_what_tables_find(gaps: bool, stride: int) -> None:
    fs = stored(gaps=gaps)
    log, other = opened(fs, stride), open_log(fs, "s", segment_size=SEGMENT)
    expected = bodies(other)
    record = Record()
    sequences = list(range(COUNT + 20))
    random.Random(stride).shuffle(sequences)
    for seq in sequences:
        assert log.get(seq, record) == (seq in expected)
        if seq in expected:
            assert (record.seq, record.payload()) == (seq, expected[seq])
            assert log.subject_of(seq) == record.subject()
            assert log.size_of(seq) == record.size
        assert log.has(seq) == (seq in expected)
        assert log.next_seq(seq) == min((each for each in expected if each >= seq), default=0)
    for timestamp in range(0, (COUNT + 2) * 10**9, 7 * 10**8):
        assert log.seq_at_time(timestamp) == min(
            (each for each in expected if each * 10**9 >= timestamp), default=0
        )
    assert gaps or not any(segment.loaded for segment in log.chain.segments[:-1])
    for seq in sequences:
        assert log.next_match(seq, b"*.1") == other.next_match(seq, b"*.1")


@pytest.mark.parametrize("gaps", [False, True])
def test_reading_anywhere_loads_no_tables(gaps: bool) -> None:
    fs = stored(gaps=gaps)
    log = opened(fs)
    fs.summaries = 0
    record = Record()
    for seq in random.Random(1).sample(range(1, COUNT), 400):
        log.get(seq, record)
        log.subject_of(seq)
        log.remove(seq) if seq > log.first_seq and seq % 5 == 0 else None
    assert fs.summaries == 0


def test_a_file_that_was_closed_and_is_opened_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_OPEN", 1)
    log = opened(stored(gaps=False))
    first, second = log.chain.segments[:2]
    for segment in (first, first, second, first):
        assert log.chain.tables.file(segment) is segment.file is not None
        assert sum(each.file is not None for each in (first, second)) == 1
        if segment is first:
            segment.close()  # as with its tables, when they are dropped


def test_many_in_a_row_load_the_tables() -> None:
    fs = stored(gaps=False)
    log = opened(fs)
    assert all(log.subject_of(seq) for seq in range(1, COUNT))
    assert any(segment.loaded for segment in log.chain.segments[:-1])


@pytest.mark.parametrize("gaps", [False, True])
def test_what_is_removed_without_tables_is_gone_for_good(gaps: bool) -> None:
    fs = stored(gaps=gaps)
    log, other = opened(fs), open_log(fs, "s", segment_size=SEGMENT)
    left = sorted(bodies(other))
    chosen = random.Random(2).sample(left[1:], 200)
    for seq in chosen:
        assert log.remove(seq)
        assert not log.remove(seq)
        assert not log.has(seq)
    assert gaps or not any(segment.loaded for segment in log.chain.segments[:-1])
    for each in other.chain.segments:
        other.reader.load(each)
    for seq in chosen:
        assert other.remove(seq)
    assert (log.messages, log.record_bytes, log.index.subjects) == (
        other.messages,
        other.record_bytes,
        other.index.subjects,
    )
    commit_all(log)
    log.close()
    assert sorted(bodies(open_log(fs, "s", segment_size=SEGMENT))) == sorted(set(left) - set(chosen))


def test_what_is_erased_without_tables_leaves_the_file() -> None:
    fs = CountingFiles()
    log = open_log(fs, "s", segment_size=SEGMENT)
    for number in range(300):
        put(log, b"s", b"secret %04d" % number)
    commit_all(log)
    log.close()
    log = opened(fs)
    assert log.erase(120)
    commit_all(log)
    assert not any(segment.loaded for segment in log.chain.segments[:-1])
    files = b"".join(fs.read_all(f"s/{name}") for name in fs.list("s") if name.endswith(".log"))
    assert b"secret 0119" not in files
    assert all(b"secret %04d" % number in files for number in range(300) if number != 119)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_damaged_record_costs_one_message(gaps: bool) -> None:
    fs = stored(gaps=gaps)
    log = opened(fs, STRIDE)
    expected = bodies(open_log(fs, "s", segment_size=SEGMENT))
    segment = log.chain.segments[1]
    file = log.chain.tables.file(segment)
    whole = file.read(0, segment.size)
    lost = next(seq for seq in expected if segment.base_seq < seq and body_of(seq) in whole)
    file.overwrite(whole.index(body_of(lost)), b"?")
    for seq, body in expected.items():
        record = Record()
        assert log.get(seq, record) == (seq != lost)
        assert seq == lost or record.payload() == body
    assert log.losses.messages == 1


def test_a_removed_message_can_be_read_while_it_is_in_its_file() -> None:
    log = opened(stored(gaps=False))
    log.remove(50)
    record = Record()
    assert not log.get(50, record)
    assert log.peek_removed(50, record)
    assert record.payload() == body_of(50)
    assert not log.peek_removed(COUNT + 5, record)


def test_large_records_are_not_read_by_those_who_look_for_their_neighbours() -> None:
    offsets = Numbers(4)
    ends = [16, 116, 216, 10_216, 10_316, 10_416, 20_000]
    offsets.extend(ends[:-1])
    points = Waypoints(offsets, None, 1, ends[-1], 4096)
    stretches = [(points.start(index), points.end(index)) for index in range(points.offsets.count)]
    assert stretches == [(16, 216), (216, 10_216), (10_216, 10_416), (10_416, 20_000)]
    assert [points.before(seq) for seq in range(8)] == [-1, 0, 0, 1, 2, 2, 3, 3]


def test_open_files_are_bounded_and_a_system_without_any_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    class FewFiles(MemoryFileSystem):
        room = 1000

        def open(self, path: str, *, create: bool):  # type: ignore[no-untyped-def]
            if self.room <= 0:
                raise StoreError("open", path, "Too many open files", recoverable=True)
            self.room -= 1
            return super().open(path, create=create)

    fs = FewFiles()
    filled(COUNT, fs, segment_size=SEGMENT).close()
    log = opened(fs)
    monkeypatch.setattr(tables, "MOST_OPEN", 4)
    record = Record()
    for seq in random.Random(3).sample(range(1, COUNT), 300):
        assert log.get(seq, record)
    assert sum(segment.file is not None for segment in log.chain.segments[:-1]) <= 4
    monkeypatch.setattr(log.chain.tables, "_close_opened", lambda count: setattr(fs, "room", 10))
    fs.room = 0
    away = next(segment for segment in log.chain.segments if segment.file is None)
    assert log.get(away.base_seq, record)


def test_a_message_of_an_even_stretch_is_read_alone() -> None:
    class Sizes(MemoryFileSystem):
        def __init__(self) -> None:
            super().__init__()
            self.read_sizes: list[int] = []

        def open(self, path: str, *, create: bool) -> MemoryFile:
            file = super().open(path, create=create)
            read = file.read

            def noted(offset: int, size: int) -> bytes:
                self.read_sizes.append(size)
                return read(offset, size)

            file.read = noted  # type: ignore[method-assign]
            return file

    fs = Sizes()
    log = open_log(fs, "s", segment_size=SEGMENT)
    for _ in range(COUNT):
        log.append(b"a", b"0123456789", 0, 0, 10, 10**9, 0)
        commit(log)
    log.close()
    log = opened(fs, STRIDE)
    record = Record()
    log.get(50, record)  # which opens the file
    fs.read_sizes.clear()
    assert log.get(60, record)
    assert record.seq == 60
    assert set(fs.read_sizes) == {record.size}  # each opening notes it once more


def test_times_of_this_process_need_no_reading() -> None:
    log = filled(COUNT, segment_size=SEGMENT)
    for segment in log.chain.segments[:-1]:
        log.chain.tables.drop(segment)
        segment.unload()
        assert segment.waypoints is not None
        assert segment.waypoints.times is not None
        assert segment.waypoints.times.count == segment.waypoints.offsets.count
        assert segment.waypoints.times.at(0) == segment.first_timestamp


def test_a_damaged_time_does_not_mislead() -> None:
    fs = stored(gaps=False)
    count = (opened(fs).chain.segments[1].waypoints or pytest.fail("it has none")).offsets.count
    for index in range(count):
        for wrong in (bytes(8), b"\xff" * 7 + b"\x7f"):
            log = opened(fs)
            segment = log.chain.segments[1]
            assert segment.waypoints is not None
            file, offset = log.chain.tables.file(segment), segment.waypoints.start(index) + 16
            before = file.read(offset, 8)
            file.overwrite(offset, wrong)
            for seq in range(segment.base_seq, segment.last_seq + 1):
                assert log.seq_at_time(seq * 10**9) in (seq, seq + 1)  # the damaged one is lost
            file.overwrite(offset, before)
            log.close()


def test_tables_that_nobody_uses_are_dropped() -> None:
    log = opened(stored(gaps=False))
    segment = log.chain.segments[0]
    log.reader.load(segment)
    finish(log.chain.tables.rest())
    assert segment.loaded  # it was used since the last time
    finish(log.chain.tables.rest())
    assert not segment.loaded
    log.close()
    assert not log.chain.tables._loaded


def test_a_log_drops_tables_while_all_have_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(stored(gaps=False))
    monkeypatch.setattr(tables.BUDGET.tables, "limit", 0)
    for segment in log.chain.segments:
        log.reader.load(segment)
    assert sum(segment.loaded for segment in log.chain.segments[:-1]) == tables.FEW_LOADED
    log.close()


def test_tables_of_sealed_segments_are_dropped_unless_somebody_reads_them() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=SEGMENT)
    record = Record()
    number = 0
    while len(log.chain.segments) < 4 * tables.FEW_LOADED:
        number += 1
        log.append(b"a", bytes(100), 0, 0, 100, number, 0)
        commit(log)
        assert log.get(1, record)
        if len(log.chain.segments) == 2:
            log.reader.load(log.chain.segments[0])
    loaded = [segment.number for segment in log.chain.segments[:-1] if segment.loaded]
    assert len(loaded) <= tables.FEW_LOADED + 2
    assert loaded[0] == 1  # it was read
    assert [log.subject_of(seq) for seq in range(1, number + 1)] == [b"a"] * number


class CountedFile(MemoryFile):
    """Counts its reads."""

    reads = 0

    def read(self, offset: int, size: int) -> bytes:
        CountedFile.reads += 1
        return super().read(offset, size)


def growing(uncommitted: int) -> Log:
    """A log of one active segment, the last messages of which are not written."""
    log = filled(COUNT, segment_size=1_000_000)
    for number in range(COUNT + 1, COUNT + 1 + uncommitted):
        put(log, b"s.1", body_of(number), timestamp=number * 10**9)
    return log


@pytest.mark.parametrize("uncommitted", [0, 1, 300])
def test_every_moment_is_found_in_a_segment_that_grows(uncommitted: int) -> None:
    log = growing(uncommitted)
    for removed in (1, 2, 400, COUNT):
        log.remove(removed)
    there = list(log.sequences(1, log.last_seq))
    for timestamp in range(-(10**9), (COUNT + uncommitted + 2) * 10**9, 4 * 10**8):
        expected = min((seq for seq in there if seq * 10**9 >= timestamp), default=0)
        assert log.seq_at_time(timestamp) == expected, timestamp


def test_a_moment_in_a_segment_that_grows_takes_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = growing(0)
    file = log.chain.segments[0].file
    assert isinstance(file, MemoryFile)
    file.__class__ = CountedFile
    for seq in range(100, 800, 7):
        monkeypatch.setattr(CountedFile, "reads", 0)
        assert log.seq_at_time(seq * 10**9) == seq
        assert CountedFile.reads <= 1


def test_a_damaged_time_in_a_segment_that_grows_does_not_mislead() -> None:
    for seq in range(200, 260):
        log = growing(0)
        segment = log.chain.segments[0]
        file, offset = log.chain.tables.file(segment), segment.offset_at(seq - 1) + 16
        file.overwrite(offset, bytes(byte ^ 0x55 for byte in file.read(offset, 8)))
        for sought in range(seq - 3, seq + 4):
            found = log.seq_at_time(sought * 10**9)
            assert found == sought or (sought == seq and found == seq + 1), (seq, sought)


@pytest.mark.parametrize(
    ("segment_size", "stride"),
    [
        pytest.param(SEGMENT, 100, id="times in the file"),
        pytest.param(4 * STRIDE, STRIDE, id="times in the summary"),
    ],
)
@pytest.mark.parametrize("pace", ["even", "bursts", "late", "one moment"])
def test_a_moment_is_found_at_every_pace_and_in_any_order(pace: str, segment_size: int, stride: int) -> None:
    chance = random.Random(pace)
    gaps = {
        "even": [1000] * COUNT,
        "bursts": [50_000 if number % 97 == 0 else number % 2 for number in range(COUNT)],
        "late": [1 if number < COUNT - 20 else 10**9 for number in range(COUNT)],
        "one moment": [0] * COUNT,
    }[pace]
    fs = MemoryFileSystem()
    log = open_log(fs, "s", segment_size=segment_size)
    times, now = [], 10**9
    for number in range(COUNT):
        now += gaps[number]
        times.append(now)
        put(log, b"a", body_of(number), timestamp=now)
    commit_all(log)
    log.close()
    log = opened(fs, stride)
    points = log.chain.segments[0].waypoints
    assert points is not None
    assert (points.times is not None) == (stride == STRIDE)
    moments = sorted({moment + step for moment in times for step in (-1, 0, 1)})
    for moment in chance.sample(moments, len(moments)):
        first = next((seq for seq, each in enumerate(times, start=1) if each >= moment), 0)
        assert log.seq_at_time(moment) == first
    log.close()
