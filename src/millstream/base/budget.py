"""How much memory the process spends on what it could do without: one budget, of which each use has a share.

A share counts bytes and says when there are too many; whoever holds them gives them back.  What a server
needs in any case, for connections, subscriptions, subjects of streams and messages under way, is not counted.
"""

from __future__ import annotations

import threading
from typing import Final

DEFAULT_BUDGET: Final = 64 * 1024 * 1024  # for a machine with 512 MiB
LEAST_BUDGET: Final = 8 * 1024 * 1024


class Share:
    """Bytes that one use of memory takes, of all threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Count more bytes, or fewer if `count` is negative."""
        with self._lock:
            self.used += count

    def is_exceeded(self) -> bool:
        return self.used > self.limit


class Budget:
    """The shares of one process."""

    def __init__(self) -> None:
        self.tables = Share(0)  # of sealed segments, for reading many messages
        self.spares = Share(0)  # memory of commits that were written, for the next ones
        self.set(DEFAULT_BUDGET)

    def set(self, limit: int) -> None:
        """Divide `limit` bytes; what is in use shrinks by and by."""
        self.tables.limit = limit // 8
        self.spares.limit = limit * 3 // 8


BUDGET: Final = Budget()
