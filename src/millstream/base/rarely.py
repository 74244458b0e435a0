"""Rate limits for log lines: the first at once, then one from time to time with a count."""

import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 10.0


class Rarely:
    """Counts events and decides when one is logged."""

    def __init__(self, every_s: float = EVERY_S, now: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now = now
        self._count = 0
        self._last = float("-inf")

    def due(self) -> int:
        """Count one event; return the number since the last line if a line is due, otherwise 0."""
        self._count += 1
        now = self._now()
        if now - self._last < self._every_s:
            return 0
        self._last = now
        count, self._count = self._count, 0
        return count


class Sparingly:
    """Lets a number of lines pass per second and counts the others."""

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now = now
        self._began = float("-inf")
        self._passed = 0
        self._held_back = 0

    def admit(self) -> int:
        """Return 0 to suppress a line, otherwise 1 plus the number suppressed since the last one."""
        now = self._now()
        if now - self._began >= 1.0:
            self._began = now
            self._passed = 0
        if self._passed >= self._most:
            self._held_back += 1
            return 0
        self._passed += 1
        held_back, self._held_back = self._held_back, 0
        return 1 + held_back
