"""The highest sequence of the messages that were removed since any moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.consumers import told_removals
from millstream.jetstream.consumers.told_removals import ToldRemovals
from tests.kits.jetstream.stream import Site

BATCHES = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4), max_size=30)


@given(batches=BATCHES)
def test_it_agrees_with_a_list_of_all(batches: list[list[int]]) -> None:
    told = ToldRemovals()
    told.add([], 0)
    removed: list[int] = []
    for batch in batches:
        removed += batch
        told.add(batch, len(removed))
    for total in range(len(removed) + 1):
        exact = max(removed[total:], default=0)
        assert told.highest_since(total) >= exact
    at = 0
    for batch in batches:  # between two batches it is exact
        assert told.highest_since(at) == max(removed[at:])
        at += len(batch)
    assert told.highest_since(at) == 0


def test_removals_that_nobody_was_told_of_make_what_was_before_unknown() -> None:
    told = ToldRemovals()
    told.add([5], 1)
    told.add([3], 4)
    assert told.highest_since(1) > 1 << 62
    assert told.highest_since(3) == 3


def test_it_stays_small_if_every_removal_is_below_the_one_before() -> None:
    told = ToldRemovals()
    told.add([], 0)
    count = 5 * told_removals._MOST
    for number in range(count):
        told.add([count - number], number + 1)
    assert len(told._totals) <= told_removals._MOST
    assert told.highest_since(0) > count
    assert told.highest_since(count - 10) == 10


def test_consumers_that_wait_for_nothing_are_not_visited() -> None:
    """Their counts are right all the same."""
    site = Site()
    stream = site.create(max_msgs_per_subject=1)
    for number in range(20):
        config = {"durable_name": f"c{number}", "ack_policy": "none", "filter_subject": f"s.{number}"}
        site.ask(f"CONSUMER.DURABLE.CREATE.S.c{number}", {"stream_name": "S", "config": config})
    for _ in range(3):
        for number in range(20):
            site.publish(f"s.{number}")
    for name in stream.consumers:
        assert site.ask(f"CONSUMER.INFO.S.{name}")["num_pending"] == 1
    assert list(stream.consumers._told_ones) == []
