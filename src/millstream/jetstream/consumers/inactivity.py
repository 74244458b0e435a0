"""Delete consumers that nobody uses for the configured time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.ports import Cancel

_NS: Final = 1_000_000_000
_DEFAULT_NS: Final = 5 * _NS
_LEAST_JITTER_S: Final = 0.1  # so that not all of them go at once
_MOST_JITTER_S: Final = 1.0


class Inactivity:
    """The inactivity timer of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._timer: Cancel | None = None

    def start(self) -> None:
        self.check()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Start the timer if the consumer may not be used any more."""
        threshold = self._consumer.config.inactive_threshold
        if threshold <= 0:
            self.stop()
        elif self._timer is None and not self._consumer.mode.in_use():
            idle = self._consumer.world.steady_ns() - self._consumer.mode.last_used_ns()
            self._plan(max(threshold - idle, 0))

    def _plan(self, wait_ns: int) -> None:
        delay_s = wait_ns / _NS
        if self._consumer.mode.polled or self._consumer.config.inactive_threshold == _DEFAULT_NS:
            delay_s += random.uniform(_LEAST_JITTER_S, _MOST_JITTER_S)
        self._timer = self._consumer.world.call_later(delay_s, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        consumer = self._consumer
        if consumer.mode.in_use():
            if consumer.mode.polled:
                self._plan(consumer.config.inactive_threshold)
            return
        left = consumer.config.inactive_threshold - (
            consumer.world.steady_ns() - consumer.mode.last_used_ns()
        )
        if left > 0:
            self._plan(left)
        else:
            consumer.stream.consumers.remove(consumer)
