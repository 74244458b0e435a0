"""Log lines about a bound that was reached: the first at once, then one from time to time with a count."""

import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 10.0


class Rarely:
    """Counts events and says when they are worth a line."""

    def __init__(self, every_s: float = EVERY_S, now: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now = now
        self._count = 0
        self._last = float("-inf")

    def due(self) -> int:
        """Count one event; return how many there were since the last line if one is due, else 0."""
        self._count += 1
        now = self._now()
        if now - self._last < self._every_s:
            return 0
        self._last = now
        count, self._count = self._count, 0
        return count
