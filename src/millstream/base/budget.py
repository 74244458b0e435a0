"""The memory that the process may use for caches: one budget, divided into shares.

A share counts bytes and reports when its limit is exceeded; whoever holds the bytes frees them.  Memory that
a server needs in any case (connections, subscriptions, subjects of streams, messages under way) is not
counted.
"""

from __future__ import annotations

import threading
from typing import Final

DEFAULT_BUDGET: Final = 64 * 1024 * 1024  # suits a machine with 512 MiB
LEAST_BUDGET: Final = 8 * 1024 * 1024


class Share:
    """The bytes that one cache uses, over all threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Add `count` bytes, which may be negative."""
        with self._lock:
            self.used += count

    def is_exceeded(self) -> bool:
        return self.used > self.limit


class Budget:
    """The shares of one process."""

    def __init__(self) -> None:
        self.tables = Share(0)  # tables of sealed segments, for reading many messages
        self.spares = Share(0)  # memory of finished commits, reused by the next ones
        self.ids = Share(0)  # ids of duplicate windows that are in no file yet
        self.set(DEFAULT_BUDGET)

    def set(self, limit: int) -> None:
        """Divide `limit` bytes among the shares; a cache above its new limit shrinks gradually."""
        self.tables.limit = limit // 8
        self.spares.limit = limit * 3 // 8
        self.ids.limit = limit // 8


BUDGET: Final = Budget()
