"""The pause of a consumer, until the time in its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.ports import Cancel

_NS: Final = 1_000_000_000
_LONGEST_TIMER_S: Final = 60.0  # the clock may be set forward meanwhile


def pause_left_ns(consumer: Consumer) -> int:
    """Return the remaining time of a consumer's pause; 0 if there is none."""
    until = consumer.config.pause_until
    return max(int(until) - consumer.world.now_ns(), 0) if until is not None else 0


class PauseTimer:
    """The pause of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._timer: Cancel | None = None

    def start(self) -> None:
        """Set the timer for the end of the pause."""
        self.stop()
        left = pause_left_ns(self._consumer)
        if left > 0:
            delay_s = min(left / _NS, _LONGEST_TIMER_S)
            self._timer = self._consumer.world.call_later(delay_s, self._ended)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def changed(self) -> None:
        """Apply a changed end of the pause."""
        self.start()
        self._tell(paused=pause_left_ns(self._consumer) > 0)

    def _ended(self) -> None:
        self._timer = None
        self.start()
        if self._timer is None:  # else it goes on, or the clock was set back
            self._tell(paused=False)
            self._consumer.wake()

    def _tell(self, *, paused: bool) -> None:
        self._consumer.advisories.paused(self._consumer.config.pause_until, paused=paused)
