"""Whether a consumer is still there, by its heartbeats.

A consumer that has nothing to send gives a sign of life at every interval.  If two do not come it may be
gone, and nobody would say so.
"""

import asyncio
from collections.abc import Callable
from typing import Final

_PATIENCE: Final = 2.5  # intervals of silence: two heartbeats have not come, and the third is not due


class HeartbeatWatch:
    """Calls `missed` once when, after `start`, nothing was `heard` for too long."""

    def __init__(self, interval_s: float, missed: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._missed = missed
        self._loop: asyncio.AbstractEventLoop
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch, as if something had been heard just now."""
        self.stop()
        self._loop = loop
        self._heard_at = loop.time()
        self._look_at(self._silence_ends)

    def heard(self) -> None:
        """Whatever comes from the consumer is a sign of life; may be called before `start`."""
        if self._timer is not None:
            self._heard_at = self._loop.time()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _silence_ends(self) -> float:
        return self._heard_at + _PATIENCE * self._interval_s

    def _look_at(self, when: float) -> None:
        self._timer = self._loop.call_later(when - self._loop.time(), self._look, when)

    def _look(self, due: float) -> None:
        now = self._loop.time()
        if now < self._silence_ends:
            self._look_at(self._silence_ends)
        elif now - due > self._interval_s / 2:
            # The loop was held up itself; what came meanwhile is yet to be read.
            self._look_at(now + self._interval_s)
        else:
            self._timer = None
            self._missed()
