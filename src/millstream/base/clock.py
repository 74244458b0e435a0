"""Time as a port: who needs it is handed a `Clock`, so that a test can hold time in its hand.

Two readings, because they answer different questions: monotonic seconds measure how long something
took or when it expires, wall-clock nanoseconds say when it happened.  Nothing here waits or schedules.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of the project may ask about time."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 in UTC; may jump when the machine's clock is set."""

    def steady_ns(self) -> int:
        """What ``wall_ns`` would be if nobody had set the clock since this object was made."""


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        self._start_ns = time.time_ns() - time.monotonic_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ns(self) -> int:
        return time.time_ns()

    def steady_ns(self) -> int:
        return self._start_ns + time.monotonic_ns()


class ManualClock:
    """A clock that moves only when it is told to."""

    def __init__(self, *, monotonic: float = 0.0, wall_ns: int = 0) -> None:
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._was_set_ns = 0

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ns(self) -> int:
        return self._wall_ns

    def steady_ns(self) -> int:
        return self._wall_ns - self._was_set_ns

    def advance(self, seconds: float) -> None:
        """Let both clocks run for `seconds`."""
        if seconds < 0:
            raise ValueError("time does not run backwards; use set_wall_ns for a clock that was set")
        self._monotonic += seconds
        self._wall_ns += round(seconds * 1_000_000_000)

    def set_wall_ns(self, wall_ns: int) -> None:
        """Set the wall clock, as an operator or a time daemon would; monotonic time does not move."""
        self._was_set_ns += wall_ns - self._wall_ns
        self._wall_ns = wall_ns
