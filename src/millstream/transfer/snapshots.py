"""Receive a snapshot of a stream: chunks from the server, in a window that acks keep open.

    async with Snapshot(api, "ORDERS") as snapshot:
        snapshot.config, snapshot.state
        async for chunk in snapshot: …

A chunk is acknowledged when the next one is requested, so a slow disk slows the server down instead of
filling memory: at most one window is in memory.  Servers give up after some seconds without an ack, which is
more than a disk should take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from millstream.link.errors import LinkError
from millstream.link.subscriptions import LinkSubscription
from millstream.transfer.answers import NotBelieved, checked_stream, shown
from millstream.transfer.api import JetStreamApi
from millstream.transfer.archive import ArchiveReading, ArchiveSummary
from millstream.transfer.errors import ServerLost, TransferError

DEFAULT_CHUNK: Final = 128 * 1024
_WINDOW: Final = 4 * 1024 * 1024
_DONE: Final = 204
_TRIES: Final = 6
_AGAIN_S: Final = 1.0
_SILENCE_S: Final = 30.0  # for the next chunk: the server may still search for it
_WINDOW_S: Final = 120.0  # how often the speed is checked
_LEAST_IN_WINDOW: Final = 64 * 1024  # bytes
_SPARE: Final = 256 * 1024 * 1024  # bytes of an archive beyond its messages, mostly consumers
_CHECK_S: Final = 600.0  # for the response, if the server reads all of a large stream first


class SnapshotBroken(TransferError):
    """The server ended the snapshot early."""


class Snapshot:
    """A snapshot; see the module.

    With `check`, the server checks every message before it sends the first.
    """

    def __init__(
        self,
        api: JetStreamApi,
        stream: str,
        *,
        consumers: bool = True,
        check: bool = False,
        chunk_size: int = DEFAULT_CHUNK,
        silence_s: float = _SILENCE_S,
    ) -> None:
        self.config: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self._api = api
        self._stream = stream
        self._request = {
            "no_consumers": not consumers,
            "jsck": check,
            "chunk_size": chunk_size,
            "window_size": _WINDOW,
        }
        self._silence_s = silence_s
        self._stack: Final = ExitStack()
        self._subscription: LinkSubscription | None = None
        self._unanswered = ""  # ack subject of the last chunk
        self._ended = False
        self._received = 0
        self._most = 0  # bytes
        self._in_window = 0  # bytes since the last check of the speed
        self._window_ends = 0.0

    async def __aenter__(self) -> Self:
        inbox, self._subscription = self._stack.enter_context(self._api.inbox())
        try:
            answer = await self._api.ask(
                f"STREAM.SNAPSHOT.{self._stream}",
                {"deliver_subject": inbox, **self._request},
                timeout_s=max(_CHECK_S, self._api.timeout_s) if self._request["jsck"] else None,
            )
            self.config, self.state = checked_stream(answer, self._stream)
        except BaseException:
            self._stack.close()
            raise
        self._most = 2 * self.state["bytes"] + _SPARE
        self._window_ends = time.monotonic() + _WINDOW_S
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._ended or self._subscription is None:
            raise StopAsyncIteration
        try:
            if self._unanswered:
                self._api.link.publish(self._unanswered)
            message = await self._subscription.next(self._silence_s)
        except (LinkError, TimeoutError) as error:
            reason = str(error) or f"nothing came for {self._silence_s:g} s"
            raise ServerLost(f"snapshot of stream {self._stream}: {reason}") from error
        self._unanswered = message.reply
        if message.payload:
            self._count(len(message.payload))
            return message.payload
        self._ended = True
        if message.status not in (0, _DONE):
            reason = f"{message.status} {message.headers.get('Description', message.description)}"
            raise SnapshotBroken(f"snapshot of stream {self._stream}: the server gave up: {shown(reason)}")
        raise StopAsyncIteration

    def _count(self, size: int) -> None:
        """Raise an error if the archive exceeds its expected size or comes too slowly."""
        self._received += size
        if self._received > self._most:
            raise NotBelieved(
                f"snapshot of stream {self._stream}: the server told of {self.state['bytes']} bytes "
                f"and sends more than {self._most}"
            )
        self._in_window += size
        now = time.monotonic()
        if now >= self._window_ends:
            if self._in_window < _LEAST_IN_WINDOW:
                raise ServerLost(
                    f"snapshot of stream {self._stream}: {self._in_window} bytes in {_WINDOW_S:g} s"
                )
            self._in_window, self._window_ends = 0, now + _WINDOW_S

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening; the server notices it and stops sending."""
        self._stack.close()


async def peek(api: JetStreamApi, stream: str) -> ArchiveSummary:
    """Return exact state and consumers of a stream at one moment, without its messages.

    They come first in an archive, so the snapshot is dropped once they are read.
    """

    async def read() -> ArchiveSummary:
        reading = ArchiveReading()
        async with Snapshot(api, stream, chunk_size=16 * 1024) as snapshot:
            async for chunk in snapshot:
                await asyncio.to_thread(reading.feed, chunk)
                if reading.has_consumers:
                    return reading.summary
        return reading.finish()

    return await _when_ready(read)


async def digest(api: JetStreamApi, stream: str, *, upto: int | None = None) -> ArchiveSummary:
    """Return the summary of a stream's messages, up to one sequence, from a snapshot that is not kept."""

    async def read() -> ArchiveSummary:
        reading = ArchiveReading() if upto is None else ArchiveReading(upto=upto)
        async with Snapshot(api, stream) as snapshot:
            async for chunk in snapshot:
                await asyncio.to_thread(reading.feed, chunk)
        return reading.finish()

    return await _when_ready(read)


async def _when_ready(read: Callable[[], Awaitable[ArchiveSummary]]) -> ArchiveSummary:
    """Retry `read`: a cluster that has just restored a stream cannot send a snapshot of it at once."""
    for _ in range(_TRIES - 1):
        try:
            return await read()
        except SnapshotBroken:
            await asyncio.sleep(_AGAIN_S)
    return await read()
