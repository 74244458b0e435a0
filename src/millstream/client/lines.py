"""A line: one consumer on the server with its subscription, its heartbeat watch, and its deletion.

A reading uses one line after the other.  Each has a new inbox and a new name, so late messages of an old line
cannot be mistaken for messages of the new one, and a consumer whose creation was never confirmed can still be
deleted.
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

_PATIENCE: Final = 2.5  # intervals of silence: two heartbeats are missing, and the third is not due


class ReadingLine:
    """One consumer and its subscription; its messages go to `core` until `hang_up`."""

    __slots__ = ("_api", "_core", "_end", "_stream", "inbox", "name")

    def __init__(self, api: Api, stream: str, name: str, core: OrderedCore) -> None:
        self.name = name
        self.inbox = api.carrier.new_inbox()
        self._api = api
        self._stream = stream
        self._core = core
        self._end: Callable[[], Awaitable[None]] | None = None

    async def open(self, config: ConsumerConfig) -> ConsumerInfo:
        """Subscribe and create the consumer; its name and inbox are added to `config`."""
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
        """Delete the consumer; return whether it is certainly gone."""
        if not self._api.carrier.is_up:
            return False  # the request would be sent later, when its answer is no longer awaited
        try:
            await self._api.delete_consumer(self._stream, self.name)
        except RequestRefused as refusal:
            return refusal.err in (Err.CONSUMER_NOT_FOUND, Err.STREAM_NOT_FOUND)
        except ClientError:
            return False
        return True


class Releases:
    """Deletes the consumers of lines that were given up.

    It works beside the reading.  A consumer that cannot be deleted because the server is away is tried again
    with the next one; what is left at the end expires on the server by its inactivity threshold.
    """

    __slots__ = ("_lines", "_tasks")

    def __init__(self) -> None:
        self._lines: dict[str, ReadingLine] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, line: ReadingLine) -> None:
        self._lines[line.name] = line

    def start(self) -> None:
        """Start to delete all consumers that are left."""
        for name, line in self._lines.items():
            if name not in self._tasks:
                self._tasks[name] = asyncio.get_running_loop().create_task(self._release(line))

    async def ended(self) -> None:
        """Wait until every attempt that was started has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _release(self, line: ReadingLine) -> None:
        try:
            if await line.release():
                del self._lines[line.name]
        finally:
            del self._tasks[line.name]


class HeartbeatWatch:
    """Calls `missed` once if, after `start`, nothing is `heard` for too long.

    An idle consumer sends a heartbeat at every interval.  If two are missing, the consumer may be gone, and
    the server does not report that.
    """

    __slots__ = ("_heard_at", "_interval_s", "_loop", "_missed", "_timer")

    def __init__(self, interval_s: float, missed: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._missed = missed
        self._loop: asyncio.AbstractEventLoop
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch, as if something had just been heard."""
        self.stop()
        self._loop = loop
        self._heard_at = loop.time()
        self._look_at(self._silence_ends)

    def heard(self) -> None:
        """Note that a message of the consumer came; may be called before `start`."""
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
            # The loop itself was late; messages that came meanwhile are not read yet.
            self._look_at(now + self._interval_s)
        else:
            self._timer = None
            self._missed()
