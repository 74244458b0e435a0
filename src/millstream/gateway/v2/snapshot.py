"""The streams and consumers that one set of credentials sees, read once for all who ask at the same time.

Lists that are searched and sorted need every stream, and a server gives 256 at a time.  So all of them are
read and kept for a moment: everybody with the same credentials who asks within that time gets the same, and
whoever asks while they are being read waits for that reading.  What is kept of a stream is small, and is
dropped when nobody asks any more.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Generic, TypeVar

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.gateway.link import CallerLink
from millstream.gateway.v2.summary_types import ConsumersAnswer, ConsumerSummary, StreamsAnswer, StreamSummary
from millstream.jsapi.errors import not_enabled
from millstream.link.errors import JetStreamOff, NoResponders, ProtocolViolation
from millstream.link.verbs import read_fields, request_body

FRESH_S: Final = 2.0
_KEEP_S: Final = 10.0
MOST_ITEMS: Final = 20_000
_AHEAD: Final = 4  # pages that are asked for at a time
_NAME: Final = "snapshot"
_STREAMS: Final = msgspec.json.Decoder(StreamsAnswer)
_CONSUMERS: Final = msgspec.json.Decoder(ConsumersAnswer)

Item = TypeVar("Item")


class Listed(msgspec.Struct, Generic[Item]):
    """Everything of a kind at one moment; `total` is larger than their number if some were left out."""

    items: list[Item]
    total: int
    time: float


class Snapshot:
    """The shared lists of one link."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link
        self._streams: Listed[StreamSummary] | None = None
        self._consumers: dict[str, Listed[ConsumerSummary]] = {}
        self._reading: dict[str, asyncio.Task[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._changes = 0

    @classmethod
    def of(cls, link: CallerLink) -> Snapshot:
        """Return the snapshot that goes with a link."""
        found = link.companions.get(_NAME)
        if not isinstance(found, Snapshot):
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
        """Read anew for whoever asks next with these credentials: something was changed."""
        found = link.companions.get(_NAME)
        if isinstance(found, Snapshot):
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
        return await self._read("STREAM.LIST", _STREAMS)

    async def _read_consumers(self, stream: str) -> Listed[ConsumerSummary]:
        return await self._read(f"CONSUMER.LIST.{stream}", _CONSUMERS)

    async def _read(self, name: str, decoder: Any) -> Listed[Any]:
        first = await self._page(name, decoder, 0)
        items = first.summaries()
        shown = len(items)
        offsets = list(range(shown, min(first.total, MOST_ITEMS), shown)) if shown else []
        for start in range(0, len(offsets), _AHEAD):
            pages = await asyncio.gather(
                *(self._page(name, decoder, offset) for offset in offsets[start : start + _AHEAD])
            )
            for page in pages:
                items += page.summaries()
                await asyncio.sleep(0)
        return Listed(items, max(first.total, len(items)), time.monotonic())

    async def _page(self, name: str, decoder: Any, offset: int) -> Any:
        subject = f"{self._link.options.api}.{name}"
        try:
            answer = await self._link.request(subject, request_body({"offset": offset}))
        except NoResponders:
            raise JetStreamOff(not_enabled(self._link.where, self._link.options.domain)) from None
        try:
            page = decoder.decode(answer.payload)
        except UNREADABLE_JSON as error:
            raise ProtocolViolation(f"the answer to {name} can not be read: {error}") from None
        if page.error is not None:
            read_fields(answer.payload, name)  # raises what it says
        return page


def _is_fresh(listed: Listed[Any]) -> bool:
    return time.monotonic() - listed.time < FRESH_S
