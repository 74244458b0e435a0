"""Everything that the event loop calls: each call is a turn, which fails alone and leaves nothing unsent.

A callback that raises is reported and harms nobody else (see ``base.guard``); when it has ended, with or
without an error, every connection that it touched writes.  So no timer and no end of a job in another thread
can send something that waits for other input to leave, and none has to think of it.  The watchdog hears how
long each turn took.

Long work is done in slices.  However many there are, the loop runs one slice in a round and looks at its
sockets before the next, and each piece of work waits for all others between two of its slices.

Nobody in the broker, JetStream or the server asks the loop itself to call back; a test holds that.  Calls of
transports come in through ``Connection``, which keeps the same promises.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from millstream.base import guard
from millstream.base.lanes import Lane
from millstream.broker.connection import Tick

Callback = Callable[..., object]

_SOON: Final = "turn"
_TIMER: Final = "timer"
_DONE: Final = "future"


class Turns:
    """The calls of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Tick) -> None:
        self.watchdog = tick.watchdog
        self._loop = loop
        self._tick = tick
        self._slices: deque[tuple[str, Callable[[], int]]] = deque()

    def run(self, kind: str, callback: Callback, *arguments: Any) -> None:
        """Call back now; the watchdog calls the step by its kind and the name of the callback."""
        began = self.watchdog.began()
        guard.alone(_name_of(callback), callback, *arguments)
        self._tick.flush()
        self.watchdog.ended(began, kind, callback)

    def soon(self, callback: Callback, *arguments: Any) -> asyncio.Handle:
        """When the work at hand is done."""
        return self._loop.call_soon(self.run, _SOON, callback, *arguments)

    def later(self, delay_s: float, callback: Callback, *arguments: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self.run, _TIMER, callback, *arguments)

    def at(self, when: float, callback: Callback, *arguments: Any) -> asyncio.TimerHandle:
        """At a time of the loop's own clock."""
        return self._loop.call_at(when, self.run, _TIMER, callback, *arguments)

    def when_done(self, future: asyncio.Future[Any], callback: Callback) -> None:
        """With the future, when it has an outcome."""
        future.add_done_callback(lambda done: self.run(_DONE, callback, done))

    # -- slices -----------------------------------------------------------------------------------

    def in_turn(self, name: str, step: Callable[[], int]) -> None:
        """Call `step`, a slice of the work called `name`, when all slices that wait now have been called.

        It returns how many items it handled.
        """
        self._slices.append((name, step))
        if len(self._slices) == 1:
            self._loop.call_soon(self._next_slice)

    def lane(self, *, width: int, most_waiting: int) -> Lane:
        """For long work of one kind."""
        return Lane(self.in_turn, self.watchdog.began, width=width, most_waiting=most_waiting)

    def _next_slice(self) -> None:
        name, step = self._slices[0]
        began = self.watchdog.began()
        try:
            self.watchdog.handled(name, step())
        except Exception as error:
            guard.report(name, error)
        self._tick.flush()
        self.watchdog.ended(began, name)
        self._slices.popleft()
        if self._slices:
            self._loop.call_soon(self._next_slice)


def _name_of(callback: Callback) -> str:
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__
