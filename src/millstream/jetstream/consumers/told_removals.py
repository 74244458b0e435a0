"""Removed messages as consumers have to know them: the highest sequence of those since any moment.

A consumer's count of what is left stays right if only messages were removed that it had passed.  So it asks
for the highest sequence among the removals since it last counted.  Telling each consumer of each removal
would cost a visit of thousands of consumers with each commit.

Only highest sequences that a later one does not exceed are kept, so they fall from the first to the last, and
those since a moment begin with the highest.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_MOST: Final = 1024  # kept; where every removal is below the one before, earlier moments are forgotten
_ANY: Final = 1 << 63  # above all sequences: nobody knows


class ToldRemovals:
    """The removals of one stream whose consumers were told; `total` is the number of all of them."""

    def __init__(self) -> None:
        self.total = -1  # unknown
        self._known_since = 0  # a total
        self._totals: list[int] = []  # rising
        self._highest: list[int] = []  # falling

    def add(self, sseqs: list[int], total: int) -> None:
        """Add messages with which the stream has lost `total`; without those before, they are a beginning."""
        before = total - len(sseqs)
        if before != self.total:
            self._totals.clear()
            self._highest.clear()
            self._known_since = before
        self.total = total
        if not sseqs:
            return
        highest = max(sseqs)
        while self._highest and self._highest[-1] <= highest:
            self._highest.pop()
            self._totals.pop()
        self._highest.append(highest)
        self._totals.append(total)
        if len(self._totals) > _MOST:
            half = len(self._totals) // 2
            self._known_since = self._totals[half - 1]
            del self._totals[:half]
            del self._highest[:half]

    def highest_since(self, total: int) -> int:
        """Return the highest sequence removed after the stream had lost `total` messages; or a higher one."""
        if total < self._known_since:
            return _ANY
        at = bisect_right(self._totals, total)
        return self._highest[at] if at < len(self._highest) else 0
