"""The one loop of a simulation: simulated time, callbacks of server and clients, and tasks of clients.

Nothing here waits.  Time jumps to the next callback, and each callback takes a moment drawn from the seed.
Callbacks of one server life share an ``Owner``: when the machine loses power, the rest of them is dropped.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any

START_NS = 1_700_000_000_000_000_000  # the wall clock at simulated time 0
SECOND_NS = 1_000_000_000


class Owner:
    """A life of the server, or all clients; the callbacks of a dead one are dropped."""

    def __init__(self) -> None:
        self.alive = True


class SimHandle:
    """A scheduled callback."""

    __slots__ = ("arguments", "callback", "owner")

    def __init__(self, owner: Owner, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.owner = owner
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None
        self.arguments = ()

    def run(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None and self.owner.alive:
            callback(*self.arguments)


class SimLoop:
    """Runs callbacks in the order of their times; those that are due at once, in the order of their calls."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.steps = 0
        self.clients = Owner()
        self._order = itertools.count()
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._ready: deque[SimHandle] = deque()

    def at(self, owner: Owner, when: float, callback: Callable[..., object], *arguments: Any) -> SimHandle:
        handle = SimHandle(owner, callback, arguments)
        heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def after(
        self, owner: Owner, delay: float, callback: Callable[..., object], *arguments: Any
    ) -> SimHandle:
        return self.at(owner, self.now + delay, callback, *arguments)

    def soon(self, owner: Owner, callback: Callable[..., object], *arguments: Any) -> SimHandle:
        handle = SimHandle(owner, callback, arguments)
        self._ready.append(handle)
        return handle

    def step(self) -> bool:
        """Run one callback; return False if none is left."""
        timers, ready = self._timers, self._ready
        while timers and (timers[0][0] <= self.now or not ready):
            when, _, handle = heapq.heappop(timers)
            if handle.callback is not None and handle.owner.alive:
                self.now = max(self.now, when)
                ready.append(handle)
        if not ready:
            return False
        self.steps += 1
        self.now += 0.000_02 * self.random.random()
        ready.popleft().run()
        return True

    # -- tasks of clients -------------------------------------------------------------------------

    def spawn(self, work: Coroutine[SimFuture, None, None]) -> SimTask:
        task = SimTask(self, work)
        self.soon(self.clients, task.step, None)
        return task

    def future(self) -> SimFuture:
        return SimFuture(self)

    async def sleep(self, seconds: float) -> None:
        future = self.future()
        self.after(self.clients, seconds, future.set, None)
        await future


class SimFuture:
    """A value that a task waits for; the first one set counts."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.done = False
        self.value: Any = None
        self._task: SimTask | None = None

    def set(self, value: Any) -> None:
        if not self.done:
            self.done = True
            self.value = value
            if self._task is not None:
                self._loop.soon(self._loop.clients, self._task.step, None)

    def wait(self, task: SimTask) -> None:
        self._task = task
        if self.done:
            self._loop.soon(self._loop.clients, task.step, None)

    def __await__(self) -> Generator[SimFuture, None, Any]:
        if not self.done:
            yield self
        return self.value


class SimTask:
    """A coroutine that waits for ``SimFuture``s only."""

    def __init__(self, loop: SimLoop, work: Coroutine[SimFuture, None, None]) -> None:
        self._loop = loop
        self._work = work
        self.done = False

    def step(self, _: object) -> None:
        try:
            future = self._work.send(None)
        except StopIteration:
            self.done = True
            return
        future.wait(self)


class ServerLoop:
    """The methods of an event loop that the server uses, for one of its lives."""

    def __init__(self, loop: SimLoop) -> None:
        self.owner = Owner()
        self._loop = loop
        self._readers: dict[int, Callable[[], object]] = {}

    def add_reader(self, number: int, callback: Callable[[], object]) -> None:
        self._readers[number] = callback

    def remove_reader(self, number: int) -> None:
        del self._readers[number]

    def readable(self, number: int) -> None:
        """Call whoever waits for this descriptor."""
        callback = self._readers.get(number)
        if callback is not None:
            callback()

    def time(self) -> float:
        return self._loop.now

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> SimHandle:
        return self._loop.soon(self.owner, callback, *arguments)

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: Any) -> SimHandle:
        return self._loop.after(self.owner, delay, callback, *arguments)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: Any) -> SimHandle:
        return self._loop.at(self.owner, when, callback, *arguments)


class SimClock:
    """Implements ``base.clock.Clock`` on simulated time; a fault may set the wall clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.was_set_ns = 0

    def monotonic(self) -> float:
        return self._loop.now

    def wall_ns(self) -> int:
        return START_NS + round(self._loop.now * SECOND_NS) + self.was_set_ns

    def steady_ns(self) -> int:
        return START_NS + round(self._loop.now * SECOND_NS)


class BusyClock:
    """A clock for durations: now and then a step seems to take long, so that work is cut into slices."""

    def __init__(self, loop: SimLoop, random: Random, slow: float) -> None:
        self._loop = loop
        self._random = random
        self._slow = slow  # how often
        self._more = 0.0

    def __call__(self) -> float:
        if self._random.random() < self._slow:
            self._more += 0.002
        return self._loop.now + self._more
