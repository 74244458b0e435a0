"""Everything that the event loop calls: each call is a turn, which fails alone and leaves nothing unsent.

A callback that raises is reported and harms nobody else (see ``base.guard``); when it has ended, with or
without an error, every connection that it touched writes.  So no timer and no end of a job in another thread
can send something that waits for other input to leave, and none has to think of it.

Nobody in the broker, JetStream or the server asks the loop itself to call back; a test holds that.  Calls of
transports come in through ``Connection``, which keeps the same two promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from millstream.base import guard
from millstream.broker.connection import Tick

Callback = Callable[..., object]


class Turns:
    """The calls of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Tick) -> None:
        self._loop = loop
        self._tick = tick

    def run(self, callback: Callback, *arguments: Any) -> None:
        """Call back now; see above."""
        guard.alone(_name_of(callback), callback, *arguments)
        self._tick.flush()

    def soon(self, callback: Callback, *arguments: Any) -> asyncio.Handle:
        """When the work at hand is done."""
        return self._loop.call_soon(self.run, callback, *arguments)

    def later(self, delay_s: float, callback: Callback, *arguments: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self.run, callback, *arguments)

    def at(self, when: float, callback: Callback, *arguments: Any) -> asyncio.TimerHandle:
        """At a time of the loop's own clock."""
        return self._loop.call_at(when, self.run, callback, *arguments)

    def when_done(self, future: asyncio.Future[Any], callback: Callback) -> None:
        """With the future, when it has an outcome."""
        future.add_done_callback(lambda done: self.run(callback, done))


def _name_of(callback: Callback) -> str:
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__
