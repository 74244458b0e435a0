"""Ranges and limits: nothing twice, nothing left out, and never a batch of nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.spark.offsets import Position
from millstream.spark.options import BatchLimits
from millstream.spark.plan import SMALL_BATCH, Backlog, Range, cut, limited, parts_for, ranges_of, waits

counts = st.integers(min_value=0, max_value=10_000)
backlogs = st.dictionaries(
    st.sampled_from("ABCDE"),
    st.builds(
        lambda start, count, weight: Backlog(start, start + count, weight),
        st.integers(min_value=1, max_value=10**12),
        counts,
        st.floats(min_value=0, max_value=1e6),
    ),
    min_size=1,
)


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=2**60), counts, st.integers(1, 50), st.integers(1, 5_000))
def test_ranges_cover_everything_once_and_in_order(start: int, count: int, least: int, most: int) -> None:
    parts = parts_for(count, least, most)
    ranges = cut("S", start, start + count, parts)
    assert len(ranges) == parts
    following = start
    for part in ranges:
        assert part.low == following
        assert 1 <= part.count <= most
        following = part.high + 1
    assert following == start + count
    sizes = [part.count for part in ranges]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_the_number_of_ranges() -> None:
    assert parts_for(0, 8, 10) == 0
    assert parts_for(SMALL_BATCH - 1, 8, 1_000_000) == 1  # a task costs more than it gains
    assert parts_for(SMALL_BATCH, 8, 1_000_000) == 8
    assert parts_for(3, 8, 1) == 3
    assert parts_for(2_500_000, 1, 1_000_000) == 3


def test_a_batch_is_what_its_end_says() -> None:
    streams = {"B": Position("x", 10, 14, 2), "A": Position("x", 5, 5, 0), "C": Position("x", 1, 2, 1)}
    assert ranges_of(streams) == [Range("B", 10, 11), Range("B", 12, 13), Range("C", 1, 1)]


@settings(deadline=None)
@given(backlogs, st.integers(min_value=1, max_value=20_000))
def test_a_limit_on_rows_is_kept_and_used_up(found: dict[str, Backlog], most: int) -> None:
    ends = limited(found, BatchLimits(max_rows=most))
    taken = {name: ends[name] - backlog.start for name, backlog in found.items()}
    total = sum(backlog.count for backlog in found.values())
    assert sum(taken.values()) == min(total, most)
    assert all(0 <= taken[name] <= found[name].count for name in found)


@settings(deadline=None)
@given(backlogs, st.integers(min_value=1, max_value=10**9))
def test_a_limit_on_bytes_always_lets_something_through(found: dict[str, Backlog], most: int) -> None:
    ends = limited(found, BatchLimits(max_bytes=most))
    taken = sum(ends[name] - backlog.start for name, backlog in found.items())
    total = sum(backlog.count for backlog in found.values())
    assert taken >= min(total, 1)
    assert taken <= total


def test_bytes_are_counted_by_the_average_of_each_stream() -> None:
    found = {"A": Backlog(1, 101, 100.0)}
    assert limited(found, BatchLimits(max_bytes=1_000)) == {"A": 11}
    assert limited(found, BatchLimits(max_bytes=1_000, max_rows=5)) == {"A": 6}
    assert limited(found, BatchLimits(max_bytes=10)) == {"A": 2}


def test_streams_share_a_limit_by_their_backlog() -> None:
    found = {"A": Backlog(1, 901), "B": Backlog(1, 101), "C": Backlog(7, 7)}
    assert limited(found, BatchLimits(max_rows=100)) == {"A": 91, "B": 11, "C": 7}


def test_a_minimum_holds_back_until_there_is_enough_or_it_took_too_long() -> None:
    limits = BatchLimits(min_rows=10, max_delay=60)
    assert waits({"A": Backlog(1, 5)}, limits, 59)
    assert not waits({"A": Backlog(1, 5)}, limits, 60)
    assert not waits({"A": Backlog(1, 6), "B": Backlog(1, 6)}, limits, 0)
    assert not waits({"A": Backlog(1, 5)}, BatchLimits(), 0)
