"""The streams and consumers that one set of credentials sees, read once for concurrent requests.

Searching and sorting need every stream, and a server lists 256 at a time.  So all of them are read and cached
for a moment: requests with the same credentials within that time share the list, and requests during the
reading wait for it.  The cached part of a stream is small, and is dropped when no request comes any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from millstream.gateway.link import CallerLink
from millstream.gateway.v2.summary_types import (
    ConsumerSummary,
    StreamSummary,
    consumer_summary,
    stream_summary,
)
from millstream.link.listing import consumer_page, stream_page

FRESH_S: Final = 2.0
_KEEP_S: Final = 10.0
MOST_ITEMS: Final = 20_000
_AHEAD: Final = 4  # pages that are requested at a time
_NAME: Final = "snapshot"

Item = TypeVar("Item")


class Listed(msgspec.Struct, Generic[Item]):
    """A list at one moment; `total` is larger than its length if some were left out."""

    items: list[Item]
    total: int
    time: float


class SharedLists:
    """The shared lists of one link."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link
        self._streams: Listed[StreamSummary] | None = None
        self._consumers: dict[str, Listed[ConsumerSummary]] = {}
        self._reading: dict[str, asyncio.Task[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._changes = 0

    @classmethod
    def of(cls, link: CallerLink) -> SharedLists:
        """Return the shared lists of a link."""
        found = link.companions.get(_NAME)
        if not isinstance(found, SharedLists):
            found = link.companions[_NAME] = cls(link)
        return found

    def close(self) -> None:
        """Called when the link is closed."""
        for task in self._reading.values():
            task.cancel()
        self._drop()

    async def streams(self) -> Listed[StreamSummary]:
        """Return all streams, at most two seconds old."""
        found = self._streams
        if found is None or not _is_fresh(found):
            changes = self._changes
            found = await self._once("", self._read_streams)
            if changes == self._changes:
                self._streams = found
                self._keep()
        return found

    async def consumers(self, stream: str) -> Listed[ConsumerSummary]:
        """Return all consumers of a stream, at most two seconds old."""
        found = self._consumers.get(stream)
        if found is None or not _is_fresh(found):
            changes = self._changes
            found = await self._once(stream, lambda: self._read_consumers(stream))
            if changes == self._changes:
                self._consumers[stream] = found
                self._keep()
        return found

    @staticmethod
    def forget(link: CallerLink) -> None:
        """Drop the cached lists of a link, because something was changed."""
        found = link.companions.get(_NAME)
        if isinstance(found, SharedLists):
            found._changes += 1
            found._reading.clear()
            found._drop()

    async def _once(self, name: str, read: Any) -> Any:
        task = self._reading.get(name)
        if task is None:
            task = self._reading[name] = asyncio.get_running_loop().create_task(read())
            task.add_done_callback(lambda done: self._read_done(name, done))
        return await asyncio.shield(task)

    def _read_done(self, name: str, task: asyncio.Task[Any]) -> None:
        if self._reading.get(name) is task:
            del self._reading[name]

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_KEEP_S, self._drop)

    def _drop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._streams = None
        self._consumers.clear()

    async def _read_streams(self) -> Listed[StreamSummary]:
        async def page(offset: int) -> tuple[list[StreamSummary], int]:
            found = await stream_page(self._link, offset=offset)
            return [stream_summary(each) for each in found.streams or ()], found.total

        return await _read(page)

    async def _read_consumers(self, stream: str) -> Listed[ConsumerSummary]:
        async def page(offset: int) -> tuple[list[ConsumerSummary], int]:
            found = await consumer_page(self._link, stream, offset=offset)
            return [consumer_summary(each) for each in found.consumers or ()], found.total

        return await _read(page)


async def _read(page: Callable[[int], Awaitable[tuple[list[Item], int]]]) -> Listed[Item]:
    """Return all pages together."""
    items, total = await page(0)
    shown = len(items)
    offsets = list(range(shown, min(total, MOST_ITEMS), shown)) if shown else []
    for start in range(0, len(offsets), _AHEAD):
        for more, _ in await asyncio.gather(*(page(offset) for offset in offsets[start : start + _AHEAD])):
            items += more
    return Listed(items, max(total, len(items)), time.monotonic())


def _is_fresh(listed: Listed[Any]) -> bool:
    return time.monotonic() - listed.time < FRESH_S
