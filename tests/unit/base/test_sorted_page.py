"""A page of a sorted order is what sorting everything would have given."""

import random

import pytest

from millstream.base import sorted_page
from millstream.base.slices import finish
from millstream.base.sorted_page import SortedPage, sorted_pieces

SEEDS = range(20)


def page_of(items: list[int], offset: int, count: int | None, batch: int) -> tuple[list[int], int]:
    page: SortedPage[int] = SortedPage(offset, count)
    for at in range(0, len(items), batch):
        page.add(items[at : at + batch])
    return [item for chunk in page.chunks() for item in chunk], page.total


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_is_a_slice_of_the_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(sorted_page, "_BUCKET", rng.choice((2, 3, 8, 64)))
    items = [rng.randrange(rng.choice((5, 100, 10_000))) for _ in range(rng.randrange(500))]
    if seed % 3 == 0:
        items.sort(reverse=bool(seed % 2))
    for offset, count in ((0, None), (0, 10), (7, 100), (490, 50), (1000, 5), (0, 1)):
        end = None if count is None else offset + count
        found = page_of(items, offset, count, rng.choice((1, 5, 50)))
        assert found == (sorted(items)[offset:end], len(items))


def test_what_lies_behind_the_page_is_not_kept() -> None:
    page: SortedPage[int] = SortedPage(10, 90)
    for at in range(0, 100_000, 500):
        page.add(list(range(at, at + 500)))
    assert sum(map(len, page._buckets)) <= 2048
    assert page.total == 100_000


def test_no_bucket_grows_beyond_its_bound() -> None:
    page: SortedPage[int] = SortedPage()
    rng = random.Random(1)
    for _ in range(200):
        page.add([rng.randrange(10**6) for _ in range(sorted_page.AT_ONCE)])
        assert max(map(len, page._buckets)) <= sorted_page._BUCKET + sorted_page.AT_ONCE


def test_a_long_list_is_sorted_in_pieces() -> None:
    items = [number * 7919 % 10_007 for number in range(10_007)]
    pieces = list(sorted_pieces(items))
    assert max(pieces) <= sorted_page._BUCKET
    assert finish(sorted_pieces(items)) == sorted(items)
    assert finish(sorted_pieces(items, 5, 3)) == [5, 6, 7]
