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
from millstream.base.slices import Pieces, Sliced
from millstream.broker.connection import Tick
from millstream.broker.watchdog import Watchdog

Callback = Callable[..., object]

_SOON: Final = "turn"
_TIMER: Final = "timer"
_DONE: Final = "future"


class Turns:
    """The calls of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Tick) -> None:
        self.watchdog: Watchdog = tick.watchdog
        self._now = tick.watchdog.began
        self._loop = loop
        self._tick = tick
        self._sliced: deque[tuple[str, Sliced[Any]]] = deque()  # long work; the first one has the next slice

    def run(self, kind: str, callback: Callback, *arguments: Any) -> None:
        """Call back now; the watchdog calls the step by its kind and the name of the callback."""
        began = self.watchdog.began()
        try:
            callback(*arguments)
        except Exception as error:
            guard.report(_name_of(callback), error)
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

    @property
    def long_works(self) -> int:
        """How many have slices left."""
        return len(self._sliced)

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        """Do the work called `name` from the next round on, in turn with all other work.

        Work that raises is reported and ends; nobody gets its result (see ``lane``).
        """
        self._sliced.append((name, Sliced(pieces, self._now)))
        if len(self._sliced) == 1:
            self._loop.call_soon(self._next_slice)

    def drop_slices(self) -> None:
        """Give up all work that is done in slices."""
        while self._sliced:
            self._sliced.popleft()[1].drop()

    def lane(self, *, width: int, most_waiting: int) -> Lane:
        """For long work of one kind."""
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
