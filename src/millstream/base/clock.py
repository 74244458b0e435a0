"""Time as a port: code gets a `Clock`, so that a test can control time.

Monotonic seconds measure durations and deadlines; wall-clock nanoseconds say when something happened.
Nothing here waits or schedules.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The clock that the rest of the project uses."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never goes back."""

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970 in UTC; jumps when the machine's clock is set."""

    def steady_ns(self) -> int:
        """Return ``wall_ns`` as if the clock had not been set since this object was created."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._start_ns = time.time_ns() - time.monotonic_ns()

    monotonic = staticmethod(time.monotonic)
    wall_ns = staticmethod(time.time_ns)  # called for every stored message

    def steady_ns(self) -> int:
        return self._start_ns + time.monotonic_ns()


class ManualClock:
    """A clock that moves only when told to."""

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
        """Advance both clocks by `seconds`."""
        if seconds < 0:
            raise ValueError("time does not run backwards; use set_wall_ns for a clock that was set")
        self._monotonic += seconds
        self._wall_ns += round(seconds * 1_000_000_000)

    def set_wall_ns(self, wall_ns: int) -> None:
        """Set the wall clock, as an operator or a time daemon would; monotonic time is unchanged."""
        self._was_set_ns += wall_ns - self._wall_ns
        self._wall_ns = wall_ns
