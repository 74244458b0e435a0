"""All callbacks of the event loop: each is a turn, which fails alone and leaves nothing unsent.

A callback that raises is reported and affects nobody else (see ``base.guard``); when it has ended, with or
without an error, every connection that it wrote to is flushed.  So output of a timer or of a job's end never
waits for other input, and callbacks need not flush.  The watchdog records the duration of each turn.

Long work is done in slices.  However many there are, the loop runs one slice in a round and polls its sockets
before the next, and each work waits for all others between two of its slices.

Hundreds of short turns take as long as a long one.  So those that were asked for with ``soon`` run for 2 ms
of a round of the loop at most, in their order; the others follow in the next rounds.  Timers that are due
when others have taken as long in the same round join them.

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
_ROUND_S: Final = 0.002  # for short turns in one round of the loop


class Planned:
    """A turn that has not begun; drops its callback when it begins or is cancelled."""

    def __init__(self, kind: str, callback: Callback, arguments: tuple[Any, ...]) -> None:
        self.kind = kind
        self.callback: Callback | None = callback
        self.arguments = arguments
        self.timer: Any = None  # of the loop

    def cancel(self) -> None:
        self.callback = None
        self.arguments = ()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Turns:
    """The callbacks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Tick) -> None:
        self.watchdog: Watchdog = tick.watchdog
        self.timers = 0  # that were ever set
        self._now = tick.watchdog.began
        self._loop = loop
        self._tick = tick
        self._sliced: deque[tuple[str, Sliced[Any]]] = deque()  # long work; the first one has the next slice
        self._soon: deque[Planned] = deque()
        self._soon_planned = False  # the loop will call ``_run_soon``
        self._timers_s = 0.0  # that timers took in this round of the loop, or in several quiet ones
        tick.in_slices = tick.newcomers.in_slices = self.in_slices

    def run(self, kind: str, callback: Callback, *arguments: Any) -> None:
        """Call back now; the watchdog names the step by its kind and the callback's name."""
        self._run(kind, callback, arguments)

    def _run(self, kind: str, callback: Callback, arguments: tuple[Any, ...]) -> None:
        began = self.watchdog.began()
        try:
            callback(*arguments)
        except Exception as error:
            guard.report(_name_of(callback), error)
        self._tick.flush()
        self.watchdog.ended(began, kind, callback)

    def soon(self, callback: Callback, *arguments: Any) -> Planned:
        """Call back when the current work is done."""
        planned = Planned(_SOON, callback, arguments)
        self._line_up(planned)
        return planned

    def later(self, delay_s: float, callback: Callback, *arguments: Any) -> Planned:
        self.timers += 1
        planned = Planned(_TIMER, callback, arguments)
        planned.timer = self._loop.call_later(delay_s, self._due, planned)
        return planned

    def at(self, when: float, callback: Callback, *arguments: Any) -> Planned:
        """Call back at a time of the loop's clock."""
        self.timers += 1
        planned = Planned(_TIMER, callback, arguments)
        planned.timer = self._loop.call_at(when, self._due, planned)
        return planned

    def _due(self, planned: Planned) -> None:
        """Run a timer, or let it follow other turns if timers took long in this round already."""
        planned.timer = None
        if self._timers_s >= _ROUND_S:
            self._line_up(planned)
            return
        began: float = self._tick.clock()
        self._begin(planned)
        self._timers_s += self._tick.clock() - began
        if self._timers_s >= _ROUND_S:
            self._plan_soon()

    def _line_up(self, planned: Planned) -> None:
        self._soon.append(planned)
        self._plan_soon()

    def _plan_soon(self) -> None:
        if not self._soon_planned:
            self._soon_planned = True
            self._loop.call_soon(self._run_soon)

    def _run_soon(self) -> None:
        """Run the turns that were asked for before this round of the loop, for a while."""
        self._soon_planned = False
        self._timers_s = 0.0
        left = len(self._soon)
        end: float = self._tick.clock() + _ROUND_S
        while left > 0:
            self._begin(self._soon.popleft())
            left -= 1
            if left > 0 and self._tick.clock() >= end:
                break
        if self._soon:
            self._plan_soon()

    def _begin(self, planned: Planned) -> None:
        callback = planned.callback
        if callback is not None:
            arguments = planned.arguments
            planned.callback = None
            planned.arguments = ()
            self._run(planned.kind, callback, arguments)

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
