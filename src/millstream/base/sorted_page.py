"""One page of a sorted order, out of any number of items that come in any order.

Items are kept in buckets of bounded size, each with items that are all below those of the next.  A bucket
that grows too large is sorted and cut up, so no call sorts more than one bucket.  What lies behind the page
is counted and forgotten: the first page of a million takes the memory of a page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from typing import Any, Final, Generic, TypeVar

Item = TypeVar("Item")

AT_ONCE: Final = 128  # items that ``SortedPage.add`` should get at most

_BUCKET: Final = 512  # most items of a bucket


class SortedPage(Generic[Item]):
    """The items from `offset` on, at most `count` of them (all if it is None), in ascending order."""

    def __init__(self, offset: int = 0, count: int | None = None) -> None:
        self.total = 0  # items that were added
        self._offset = offset
        self._end = None if count is None else offset + count
        self._buckets: list[list[Any]] = [[]]
        self._starts: list[Any] = []  # of each bucket but the first: nothing before it is above
        self._kept = 0
        self._cut: list[Any] = []  # one item at most: from it on, items are only counted

    def add(self, items: list[Item]) -> None:
        """Take a few items; the list is sorted in place."""
        items.sort()
        self.total += len(items)
        end = bisect_left(items, self._cut[0]) if self._cut else len(items)
        at = 0
        number = bisect_left(self._starts, items[0]) if items else 0
        while at < end:
            until = end
            if number < len(self._starts):
                until = bisect_left(items, self._starts[number], at, end)
            if until > at:
                bucket = self._buckets[number]
                bucket += items[at:until]
                self._kept += until - at
                at = until
                number += self._split(number)
            number += 1
        self._forget()

    def chunks(self) -> Iterator[list[Item]]:
        """The page, some items at a time; to be asked for once, when all items were added."""
        passed = 0
        for number, bucket in enumerate(self._buckets):
            self._buckets[number] = []  # freed by and by: a million items at once take many milliseconds
            bucket.sort()
            start = max(self._offset - passed, 0)
            end = None if self._end is None else self._end - passed
            if start < len(bucket) and (end is None or end > 0):
                yield bucket[start:end]
            passed += len(bucket)

    def _split(self, number: int) -> int:
        """Cut a bucket that is too large; returns how many buckets came of it besides the first."""
        bucket = self._buckets[number]
        if len(bucket) <= _BUCKET:
            return 0
        bucket.sort()
        half = _BUCKET // 2
        parts = [bucket[at : at + half] for at in range(0, len(bucket), half)]
        self._buckets[number : number + 1] = parts
        self._starts[number:number] = [part[0] for part in parts[1:]]
        return len(parts) - 1

    def _forget(self) -> None:
        """Drop buckets that lie behind the page."""
        if self._end is None:
            return
        while len(self._buckets) > 1 and self._kept - len(self._buckets[-1]) >= self._end:
            self._kept -= len(self._buckets.pop())
            self._cut = [self._starts.pop()]


def sorted_pieces(
    items: list[Any], offset: int = 0, count: int | None = None
) -> Generator[int, None, list[Any]]:
    """Sort a long list in pieces (see ``base.slices``); returns the page that is asked for."""
    page: SortedPage[Any] = SortedPage(offset, count)
    for at in range(0, len(items), AT_ONCE):
        chunk = items[at : at + AT_ONCE]
        page.add(chunk)
        yield len(chunk)
    found: list[Any] = []
    for chunk in page.chunks():
        found += chunk
        yield len(chunk)
    return found
