"""A queue of streams that wait for a commit, or of commits that have ended, in which publishers take turns.

An item belongs to the client that is served when the stream begins to wait.  Clients take turns with one item
each, so the many streams of one client do not delay those of others.  The items of one client leave in the
order in which they came.
"""

from __future__ import annotations

from collections import deque
from typing import Any


class FairQueue:
    """Items that wait; the cost of an operation does not depend on their number."""

    def __init__(self) -> None:
        self.publisher = 0  # of the item that was popped last
        self._publisher_of: dict[Any, int] = {}
        # An item that was discarded stays in here, and is passed over.
        self._items_of: dict[int, deque[Any]] = {}
        self._turns: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._publisher_of)

    def __contains__(self, item: Any) -> bool:
        return item in self._publisher_of

    def add(self, item: Any, publisher: int) -> None:
        """Append an item; one that already waits keeps its place."""
        if item in self._publisher_of:
            return
        self._publisher_of[item] = publisher
        items = self._items_of.get(publisher)
        if items is None:
            self._items_of[publisher] = deque((item,))
            self._turns.append(publisher)
        else:
            items.append(item)

    def discard(self, item: Any) -> None:
        self._publisher_of.pop(item, None)

    def pop(self) -> Any:
        """Remove and return the item whose turn it is, or None if none waits."""
        while self._turns:
            publisher = self._turns.popleft()
            items = self._items_of[publisher]
            item = items.popleft()
            if items:
                self._turns.append(publisher)
            else:
                del self._items_of[publisher]
            if self._publisher_of.pop(item, None) is not None:
                self.publisher = publisher
                return item
        return None
