"""One consumer on the server and the subscription it delivers to; its heartbeats; and its release.

A reading goes through one line after the other.  Each has an inbox and a name that nobody had before, so
what comes late from an old one can not be taken for something of the new one, and a consumer whose creation
was not answered can still be deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from millstream.client.api import Api
from millstream.client.core import OrderedCore
from millstream.client.errors import ClientClosed, ClientError, RequestRefused, ServerUnavailable
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkError

_PATIENCE: Final = 2.5  # intervals of silence: two heartbeats have not come, and the third is not due


class ReadingLine:
    """What arrives goes to `core`, until `hang_up`."""

    __slots__ = ("_api", "_core", "_end", "_stream", "inbox", "name")

    def __init__(self, api: Api, stream: str, name: str, core: OrderedCore) -> None:
        self.name = name
        self.inbox = api.carrier.new_inbox()
        self._api = api
        self._stream = stream
        self._core = core
        self._end: Callable[[], Awaitable[None]] | None = None

    async def open(self, config: ConsumerConfig) -> ConsumerInfo:
        """Subscribe and make the consumer; `config` gets its name and inbox."""
        config.name = self.name
        config.deliver_subject = self.inbox
        self._core.listen(self._stream, self.name, self.inbox)
        try:
            self._end = await self._api.carrier.receive(self.inbox, self._core)
        except LinkError as error:
            if self._api.carrier.is_closed:
                raise ClientClosed("the connection is closed") from error
            raise ServerUnavailable(str(error)) from error
        return await self._api.create_consumer(self._stream, config)

    async def hang_up(self) -> None:
        """Close the subscription."""
        self._core.deaf()
        end, self._end = self._end, None
        if end is not None:
            await end()

    async def release(self) -> bool:
        """Delete the consumer; returns whether it is certainly gone."""
        if not self._api.carrier.is_up:
            return False  # nobody would wait for the answer of a request that is sent later
        try:
            await self._api.delete_consumer(self._stream, self.name)
        except RequestRefused as refusal:
            return refusal.err in (Err.CONSUMER_NOT_FOUND, Err.STREAM_NOT_FOUND)
        except ClientError:
            return False
        return True


class Releases:
    """Consumers that were given up, until they are certainly deleted.

    Nobody waits for it while reading goes on.  What can not be deleted now, since the server is away, is
    tried again with the next consumer; what is left in the end expires on the server, as unused ones do.
    """

    __slots__ = ("_lines", "_tasks")

    def __init__(self) -> None:
        self._lines: dict[str, ReadingLine] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, line: ReadingLine) -> None:
        self._lines[line.name] = line

    def start(self) -> None:
        """Begin to delete all that are left."""
        for name, line in self._lines.items():
            if name not in self._tasks:
                self._tasks[name] = asyncio.get_running_loop().create_task(self._release(line))

    async def ended(self) -> None:
        """Return when every attempt under way has ended, well or not."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _release(self, line: ReadingLine) -> None:
        try:
            if await line.release():
                del self._lines[line.name]
        finally:
            del self._tasks[line.name]


class HeartbeatWatch:
    """Calls `missed` once when, after `start`, nothing was `heard` for too long.

    A consumer that has nothing to send gives a sign of life at every interval.  If two do not come it may be
    gone, and nobody would say so.
    """

    __slots__ = ("_heard_at", "_interval_s", "_loop", "_missed", "_timer")

    def __init__(self, interval_s: float, missed: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._missed = missed
        self._loop: asyncio.AbstractEventLoop
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch, as if something had been heard just now."""
        self.stop()
        self._loop = loop
        self._heard_at = loop.time()
        self._look_at(self._silence_ends)

    def heard(self) -> None:
        """Whatever comes from the consumer is a sign of life; may be called before `start`."""
        if self._timer is not None:
            self._heard_at = self._loop.time()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _silence_ends(self) -> float:
        return self._heard_at + _PATIENCE * self._interval_s

    def _look_at(self, when: float) -> None:
        self._timer = self._loop.call_later(when - self._loop.time(), self._look, when)

    def _look(self, due: float) -> None:
        now = self._loop.time()
        if now < self._silence_ends:
            self._look_at(self._silence_ends)
        elif now - due > self._interval_s / 2:
            # The loop was held up itself; what came meanwhile is yet to be read.
            self._look_at(now + self._interval_s)
        else:
            self._timer = None
            self._missed()
