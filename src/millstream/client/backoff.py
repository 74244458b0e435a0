"""How long to wait before the next attempt: not at all, then longer each time, and never all at once.

Pure: the generator is handed in, and waiting is done by whoever asks.
"""

import random


class Backoff:
    """Delays of consecutive failures; `longest_s` bounds them."""

    def __init__(self, *, first_s: float, longest_s: float, generator: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = generator
        self._failures = 0

    def next_s(self) -> float:
        """How long to wait now: half of the delay for sure, the other half by chance."""
        self._failures += 1
        if self._failures == 1:
            return 0.0
        delay_s = min(self._first_s * 2.0 ** min(self._failures - 2, 32), self._longest_s)
        return delay_s * (0.5 + self._random.random() / 2)

    def succeeded(self) -> None:
        """The next failure is a first one again."""
        self._failures = 0
