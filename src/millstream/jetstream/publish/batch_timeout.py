"""The time-out of a batch that waits for its next message; for batches of both kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream

_NS: Final = 1_000_000_000
_TIMEOUT_S: Final = 10.0


class BatchTimeout:
    """The time-out of one batch.  A message only updates `heard_ns`, which the timer checks when it fires."""

    __slots__ = ("_timer", "heard_ns")

    def __init__(self) -> None:
        self.heard_ns = 0  # when the last message came
        self._timer: Cancel | None = None

    def begin(self, stream: Stream, give_up: Callable[[], None]) -> None:
        """Start or extend the time-out; `give_up` is called when it is over."""
        world = stream.world
        timeout_s = stream.account.resources.limits.batch_timeout_s or _TIMEOUT_S
        self.heard_ns = world.steady_ns()
        if self._timer is not None:
            return

        def fire() -> None:
            left_ns = self.heard_ns + round(timeout_s * _NS) - world.steady_ns()
            if left_ns > 0:
                self._timer = world.call_later(left_ns / _NS, fire)
            else:
                give_up()

        self._timer = world.call_later(timeout_s, fire)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
