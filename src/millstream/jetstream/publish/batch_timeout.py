"""The time-out of a batch that waits for its next message; for batches of both kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.jetstream.ports import Cancel, World
    from millstream.jetstream.stream.stream import Stream

_NS: Final = 1_000_000_000
_TIMEOUT_S: Final = 10.0


class BatchTimeout:
    """The time-out of one batch.  A message only updates `heard_ns`, which the timer checks when it fires."""

    __slots__ = ("_give_up", "_timeout_ns", "_timer", "_world", "heard_ns")

    def __init__(self) -> None:
        self.heard_ns = 0  # when the last message came
        self._timer: Cancel | None = None
        self._timeout_ns = 0
        self._world: World
        self._give_up: Callable[[], None]

    def begin(self, stream: Stream, give_up: Callable[[], None]) -> None:
        """Start or extend the time-out; `give_up` is called when it is over."""
        self.heard_ns = stream.world.steady_ns()
        if self._timer is None:
            timeout_s = stream.account.resources.limits.batch_timeout_s or _TIMEOUT_S
            self._world, self._timeout_ns, self._give_up = stream.world, round(timeout_s * _NS), give_up
            self._timer = self._world.call_later(timeout_s, self._fire)

    def _fire(self) -> None:
        left_ns = self.heard_ns + self._timeout_ns - self._world.steady_ns()
        if left_ns > 0:
            self._timer = self._world.call_later(left_ns / _NS, self._fire)
        else:
            self._give_up()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
