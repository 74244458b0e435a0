"""A map from numbers that grows and is freed in small steps, and finds the next higher number.

A dict with a million entries copies all of them when it grows and frees all of them when it is dropped, which
takes 30 and 70 ms.  This map has a dict, a page, for every 256 numbers.  The numbers are sequences of a
stream: most arrive in order and neighbours are used together, so the map remembers the last page.

The keys of a page are places in it, 0 to 255.  Python has one object for each of these numbers, so no key
takes memory, and finding one takes no comparison.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

_BITS = 8  # of a number, within its page
_PLACES = (1 << _BITS) - 1
_TRIES = 16  # numbers behind one, before its page is looked through
_SPARE = 64  # page numbers that may be kept for pages that are gone
_NO_PAGE = -1

Page = tuple[int, dict[int, Any]]  # the number of its place 0, and the values by place


class PagedMap:
    """Map numbers above zero to values."""

    def __init__(self) -> None:
        self.count = 0
        self._pages: dict[int, dict[int, Any]] = {}  # by place; none is empty
        self._order: list[int] = []  # the numbers of the pages, rising; some may be gone
        self._highest = 0  # number that was ever there
        self._rising = True  # each page has its places in order
        self._last = _NO_PAGE  # the number of the page that was used last
        self._page: dict[int, Any] | None = None  # that page; None: there is no such page

    def __len__(self) -> int:
        return self.count

    def __contains__(self, number: int) -> bool:
        page = self._page_of(number)
        return page is not None and number & _PLACES in page

    def __getitem__(self, number: int) -> Any:
        page = self._page_of(number)
        if page is None:
            raise KeyError(number)
        return page[number & _PLACES]

    def __setitem__(self, number: int, value: Any) -> None:
        self.put(number, value)

    def __delitem__(self, number: int) -> None:
        if self.take(number) is None:
            raise KeyError(number)

    def get(self, number: int) -> Any:
        """Return the value of a number, or None."""
        page = self._page_of(number)
        return None if page is None else page.get(number & _PLACES)

    def put(self, number: int, value: Any) -> None:
        """Set the value of a number; the value must not be None."""
        page = self._page_of(number)
        if page is None:
            page = self._add_page(number >> _BITS)
        before = len(page)
        page[number & _PLACES] = value
        if len(page) > before:
            self.count += 1
            if number > self._highest:
                self._highest = number
            else:
                self._rising = False

    def take(self, number: int) -> Any:
        """Remove a number and return its value, or None."""
        page = self._page_of(number)
        if page is None:
            return None
        value = page.pop(number & _PLACES, None)
        if value is not None:
            self.count -= 1
            if not page:
                self._drop_page(number >> _BITS)
        return value

    def first(self) -> int:
        """Return the lowest number, or 0."""
        return self.after(0)

    def after(self, number: int) -> int:
        """Return the lowest number above `number`, or 0."""
        if number >= self._highest or not self.count:
            return 0
        page = self._page_of(number)
        if page is not None:
            place = number & _PLACES
            tries = _TRIES
            while tries and place < _PLACES:
                place += 1
                if place in page:
                    return number - (number & _PLACES) + place
                tries -= 1
            if place < _PLACES:
                place = _lowest(page, place, self._rising)
                if place >= 0:
                    return number - (number & _PLACES) + place
        for position in range(bisect_right(self._order, number >> _BITS), len(self._order)):
            page_number = self._order[position]
            page = self._pages.get(page_number)
            if page is not None:
                return (page_number << _BITS) + _lowest(page, -1, self._rising)
        return 0

    def __iter__(self) -> Iterator[int]:
        """Yield all numbers, rising; the map must not change meanwhile."""
        for page_number in self._order:
            page = self._pages.get(page_number)
            if page is not None:
                for place in sorted(page):
                    yield (page_number << _BITS) + place

    def keys(self) -> Iterator[int]:
        """Yield all numbers in rising order, so that ``dict`` accepts the map."""
        return iter(self)

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield numbers and values, rising; the map must not change meanwhile."""
        for page_number in self._order:
            page = self._pages.get(page_number)
            if page is not None:
                for place in sorted(page):
                    yield (page_number << _BITS) + place, page[place]

    def pages(self) -> list[Page]:
        """Return all pages, unordered; they change with the map, but not when it drops them."""
        return [(page_number << _BITS, page) for page_number, page in self._pages.items()]

    def drop_some(self) -> int:
        """Remove the entries of one page; return how many, 0 if there are none."""
        if not self._pages:
            return 0
        _, page = self._pages.popitem()
        count = len(page)
        self.count -= count
        self._last = _NO_PAGE
        self._page = None
        if not self._pages:
            self._order = []
        return count

    # -- pages ------------------------------------------------------------------------------------

    def _page_of(self, number: int) -> dict[int, Any] | None:
        page_number = number >> _BITS
        if page_number != self._last:
            self._last = page_number
            self._page = self._pages.get(page_number)
        return self._page

    def _add_page(self, page_number: int) -> dict[int, Any]:
        page: dict[int, Any] = {}
        self._pages[page_number] = page
        self._last = page_number
        self._page = page
        order = self._order
        if not order or order[-1] < page_number:
            order.append(page_number)
        else:
            position = bisect_left(order, page_number)
            if order[position] != page_number:
                order.insert(position, page_number)
        return page

    def _drop_page(self, page_number: int) -> None:
        del self._pages[page_number]
        self._page = None
        if len(self._order) > 2 * len(self._pages) + _SPARE:
            self._order = sorted(self._pages)


def _lowest(page: dict[int, Any], place: int, rising: bool) -> int:
    """Return the lowest place of a page above `place`, or -1."""
    found = -1
    for each in page:
        key: int = each
        if key > place and (found < 0 or key < found):
            found = key
            if rising:
                break
    return found
