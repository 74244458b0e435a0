"""Counts of the messages in a range, asked in every way there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.slices import finish
from millstream.store.counts import count_between, count_in_pieces, is_long, subjects_between
from millstream.store.cursor import Cursor
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from millstream.subjects.match import matches
from tests.kits.store.log import commit_all, contents, filled, put

COUNT = 60
PATTERNS = [(), (b"s.1",), (b"s.0", b"s.2"), (b"s.*",), (b">",), (b"s.9",), (b"s.9", b"s.1")]


def naive(log: Log, first: int, last: int, patterns: tuple[bytes, ...]) -> int:
    return sum(
        first <= seq <= last and (not patterns or any(matches(subject, each) for each in patterns))
        for seq, (subject, *_) in contents(log).items()
    )


@given(
    removed=st.sets(st.integers(1, COUNT)),
    first=st.integers(1, COUNT + 2),
    last=st.integers(0, COUNT),
    patterns=st.sampled_from(PATTERNS),
)
def test_a_range_is_counted_as_one_would_by_hand(
    removed: set[int], first: int, last: int, patterns: tuple[bytes, ...]
) -> None:
    log = filled(COUNT)
    for seq in removed:
        log.remove(seq)
    commit_all(log)
    assert count_between(log, first, last, patterns) == naive(log, first, last, patterns)


@given(
    removed=st.sets(st.integers(1, COUNT)),
    read=st.integers(0, COUNT),
    seq=st.integers(1, COUNT + 2),
    patterns=st.sampled_from(PATTERNS),
    segment_size=st.sampled_from([300, 1_000_000]),
)
def test_a_cursor_counts_what_it_would_give(
    removed: set[int], read: int, seq: int, patterns: tuple[bytes, ...], segment_size: int
) -> None:
    log = filled(COUNT, segment_size=segment_size)
    cursor = Cursor(log, 1, patterns)
    record = Record()
    for _ in range(read):
        cursor.next(record)
    for each in removed:
        log.remove(each)
    commit_all(log)
    assert cursor.count_from(seq) == naive(log, seq, COUNT, patterns)


@pytest.mark.parametrize("patterns", PATTERNS)
def test_a_cursor_at_the_end_counts_what_was_committed_since(patterns: tuple[bytes, ...]) -> None:
    log = filled(COUNT, segment_size=1_000_000)
    cursor = Cursor(log, 1, patterns)
    record = Record()
    while cursor.next(record):
        pass
    put(log, b"s.9")
    put(log, b"s.1")
    put(log, b"other")
    assert cursor.count_from(COUNT + 1) == 0  # nothing of it is committed
    commit_all(log)
    put(log, b"s.1")
    assert cursor.count_from(COUNT + 1) == naive(log, COUNT + 1, COUNT + 3, patterns)


@pytest.mark.parametrize("segment_size", [300, 1_000_000])
def test_the_subjects_of_a_range_are_found(segment_size: int) -> None:
    log = filled(COUNT, segment_size=segment_size)
    put(log, b"other")
    commit_all(log)
    assert subjects_between(log, 1, COUNT) == {b"s.0", b"s.1", b"s.2"}
    assert subjects_between(log, 7, 7) == {b"s.1"}
    assert subjects_between(log, COUNT, COUNT + 1) == {b"s.0", b"other"}
    assert subjects_between(log, COUNT + 2, COUNT + 1) == set()


@given(
    removed=st.sets(st.integers(1, COUNT)),
    first=st.integers(1, COUNT + 2),
    last=st.integers(0, COUNT),
    patterns=st.sampled_from(PATTERNS[1:]),
)
def test_counting_in_pieces_gives_the_same(
    removed: set[int], first: int, last: int, patterns: tuple[bytes, ...]
) -> None:
    log = filled(COUNT)
    for seq in removed:
        log.remove(seq)
    commit_all(log)
    assert finish(count_in_pieces(log, first, last, patterns)) == naive(log, first, last, patterns)


def test_segments_may_be_unloaded_and_dropped_between_two_pieces() -> None:
    log = filled(COUNT)
    assert len(log.chain.segments) > 3
    pieces = count_in_pieces(log, 4, COUNT, (b"s.1", b"*.2"))  # the index alone cannot tell
    unloaded = False
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            counted = end.value
            break
        if not unloaded:
            unloaded = True
            for segment in log.chain.segments[:-1]:
                if segment.loaded:
                    segment.unload()
            log.remove_below(log.chain.segments[1].base_seq)
            commit_all(log)
    assert counted == naive(log, 4, COUNT, (b"s.1", b"*.2"))


def test_only_many_subjects_in_many_segments_take_long_to_count() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=100_000)
    for number in range(10_000):
        put(log, b"s.%d.%d" % (number % 2, number))
    commit_all(log)
    assert is_long(log, 1, (b"s.1.*",))
    assert not is_long(log, 1, ())
    assert not is_long(log, 1, (b"s.*.*",))  # all of them
    assert not is_long(log, 1, (b"s.1.1",))
    assert not is_long(log, log.last_seq, (b"s.1.*",))
