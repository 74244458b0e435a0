"""All callbacks of the event loop: each is a turn, which fails alone and leaves nothing unsent.

A callback that raises is reported and affects nobody else (see ``base.guard``); when it has ended, with or
without an error, every connection that it wrote to is flushed.  So output of a timer or of a job's end never
waits for other input, and callbacks need not flush.  The watchdog records the duration of each turn.

Long work is done in slices.  However many there are, the loop runs one slice in a round and polls its sockets
before the next, and each work waits for all others between two of its slices.

Nothing in the broker, JetStream or the server uses the loop's callbacks directly; a test checks that.  Calls
of transports arrive in ``Connection``, which behaves the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from millstream.base import guard
from millstream.base.lanes import Lane
from millstream.base.slices import Pieces, Sliced
from millstream.broker.connection import Tick
from millstream.broker.watchdog import Watchdog

Callback = Callable[..., object]

_SOON: Final = "turn"
_TIMER: Final = "timer"
_DONE: Final = "future"


class Turns:
    """The callbacks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Tick) -> None:
        self.watchdog: Watchdog = tick.watchdog
        self._now = tick.watchdog.began
        self._loop = loop
        self._tick = tick
        self._sliced: deque[tuple[str, Sliced[Any]]] = deque()  # long work; the first one has the next slice
        tick.in_slices = self.in_slices

    def run(self, kind: str, callback: Callback, *arguments: Any) -> None:
        """Call back now; the watchdog names the step by its kind and the callback's name."""
        began = self.watchdog.began()
        try:
            callback(*arguments)
        except Exception as error:
            guard.report(_name_of(callback), error)
        self._tick.flush()
        self.watchdog.ended(began, kind, callback)

    def soon(self, callback: Callback, *arguments: Any) -> asyncio.Handle:
        """Call back when the current work is done."""
        return self._loop.call_soon(self.run, _SOON, callback, *arguments)

    def later(self, delay_s: float, callback: Callback, *arguments: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self.run, _TIMER, callback, *arguments)

    def at(self, when: float, callback: Callback, *arguments: Any) -> asyncio.TimerHandle:
        """Call back at a time of the loop's clock."""
        return self._loop.call_at(when, self.run, _TIMER, callback, *arguments)

    def when_done(self, future: asyncio.Future[Any], callback: Callback) -> None:
        """Call back with the future when it is done."""
        future.add_done_callback(lambda done: self.run(_DONE, callback, done))

    # -- slices -----------------------------------------------------------------------------------

    @property
    def long_works(self) -> int:
        """Return the number of works with slices left."""
        return len(self._sliced)

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        """Run the work called `name` from the next round on, in turn with all other work.

        Work that raises is reported and ends; its result is dropped (see ``lane``).
        """
        self._sliced.append((name, Sliced(pieces, self._now)))
        if len(self._sliced) == 1:
            self._loop.call_soon(self._next_slice)

    def drop_slices(self) -> None:
        """Drop all work that is done in slices."""
        while self._sliced:
            self._sliced.popleft()[1].drop()

    def lane(self, *, width: int, most_waiting: int) -> Lane:
        """Return a lane for long work of one kind."""
        return Lane(self.in_slices, self._now, width=width, most_waiting=most_waiting)

    def _next_slice(self) -> None:
        if not self._sliced:
            return  # all was dropped
        name, work = self._sliced[0]
        began = self.watchdog.began()
        ended = True
        try:
            ended = work.step()
            self.watchdog.handled(name, work.items)
        except Exception as error:
            guard.report(name, error)
        self._tick.flush()
        self.watchdog.ended(began, name)
        if self._sliced:
            self._sliced.popleft()
        if not ended:
            self._sliced.append((name, work))
        if self._sliced:
            self._loop.call_soon(self._next_slice)


def _name_of(callback: Callback) -> str:
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__
