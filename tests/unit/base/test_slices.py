"""A slice ends when it has had enough items or enough time; the work goes on with the next."""

from collections.abc import Generator
from typing import Any

import pytest

from millstream.base.slices import MOST_ITEMS, SLICE_S, Pieces, Sliced, begin, finish


def count(pieces: int, items: int) -> Generator[int, None, str]:
    for _ in range(pieces):
        yield items
    return "done"


def test_a_slice_has_a_bounded_number_of_items() -> None:
    work = Sliced(count(10, MOST_ITEMS // 2), lambda: 0.0)
    handled = []
    while not work.step():
        handled.append(work.items)
    assert handled == [MOST_ITEMS] * 5
    assert (work.ended, work.result) == (True, "done")


def test_a_slice_has_a_bounded_time() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += SLICE_S / 4
        return now

    work = Sliced(count(100, 1), clock)
    assert not work.step()
    assert work.items == 4


def test_work_that_is_dropped_ends_where_it_is() -> None:
    ended = []

    def pieces() -> Generator[int, None, None]:
        try:
            while True:
                yield MOST_ITEMS
        finally:
            ended.append(True)

    work = Sliced(pieces(), lambda: 0.0)
    work.step()
    work.drop()
    assert ended == [True]


def test_what_the_work_raises_is_raised_by_the_step() -> None:
    def pieces() -> Generator[int, None, None]:
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Sliced(pieces(), lambda: 0.0).step()
    assert finish(count(3, 1)) == "done"


class Later:
    """Keeps work for later."""

    def __init__(self) -> None:
        self.works: list[tuple[str, Pieces[Any]]] = []

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        self.works.append((name, pieces))

    def steady_ns(self) -> int:
        return 0


def test_short_work_ends_where_it_begins_and_the_rest_of_long_work_is_done_later() -> None:
    later = Later()
    begin(later, "short", count(2, 1))
    assert later.works == []
    begin(later, "long", count(3, MOST_ITEMS))
    [(name, pieces)] = later.works
    assert name == "long"
    assert finish(pieces) == "done"
