"""One page of a sorted order, from any number of items that arrive in any order.

Items are kept in buckets of bounded size; all items of a bucket are below those of the next.  A bucket that
grows too large is sorted and split, so no call sorts more than one bucket.  Items after the page are counted
and dropped: the first page of a million items takes the memory of a page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from typing import Any, Final, Generic, TypeVar

from millstream.base.build import pure_requested
from millstream.base.untracked import untrack

Item = TypeVar("Item")

AT_ONCE: Final = 128  # the most items that ``SortedPage.add`` should get

_BUCKET: Final = 128 if pure_requested() else 512  # most items of a bucket


class SortedPage(Generic[Item]):
    """The sorted items from `offset` on, at most `count` of them; None means all."""

    def __init__(self, offset: int = 0, count: int | None = None) -> None:
        self.total = 0  # number of items added
        self._offset = offset
        self._end = None if count is None else offset + count
        self._buckets: list[list[Any]] = [[]]
        self._starts: list[Any] = []  # first item of each bucket but the first
        self._kept = 0
        self._cut: list[Any] = []  # empty or one item: items from it on are only counted

    def add(self, items: list[Item]) -> None:
        """Add a few items; sorts the list in place."""
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
        """Yield the page in chunks; call it once, after all items were added."""
        passed = 0
        for number, bucket in enumerate(self._buckets):
            self._buckets[number] = []  # freed one by one: freeing a million items at once blocks for long
            bucket.sort()
            start = max(self._offset - passed, 0)
            end = None if self._end is None else self._end - passed
            if start < len(bucket) and (end is None or end > 0):
                yield bucket[start:end]
            passed += len(bucket)

    def _split(self, number: int) -> int:
        """Split a bucket that is too large; return the number of additional buckets."""
        bucket = self._buckets[number]
        if len(bucket) <= _BUCKET:
            return 0
        bucket.sort()
        half = _BUCKET // 2
        parts = [bucket[at : at + half] for at in range(0, len(bucket), half)]
        for part in parts:
            untrack(part)  # a collection would visit each of a million items
        self._buckets[number : number + 1] = parts
        self._starts[number:number] = [part[0] for part in parts[1:]]
        return len(parts) - 1

    def _forget(self) -> None:
        """Drop buckets after the page."""
        if self._end is None:
            return
        while len(self._buckets) > 1 and self._kept - len(self._buckets[-1]) >= self._end:
            self._kept -= len(self._buckets.pop())
            self._cut = [self._starts.pop()]


def sorted_pieces(
    items: list[Any], offset: int = 0, count: int | None = None
) -> Generator[int, None, list[Any]]:
    """Sort a long list in pieces (``base.slices``); return the page."""
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
