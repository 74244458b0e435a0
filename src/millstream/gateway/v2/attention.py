"""Findings for an operator: limits that are near, consumers that are stuck, messages that are lost.

All streams are checked at once, from the list that is read anyway.  Consumers have to be listed stream by
stream, so a scan in the background lists those of the next few streams and keeps its findings about the
others.  A look waits for the scan only briefly, and scans pause in proportion to their own length, so neither
the caller nor the server suffers from thousands of consumers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from millstream.base.words import counted
from millstream.gateway.link import CallerLink
from millstream.gateway.v2.snapshot import SharedLists
from millstream.gateway.v2.summary_types import ConsumerSummary, StreamSummary
from millstream.golang.time import TimeError, parse_time
from millstream.link.errors import LinkError

_NAME: Final = "attention"
_STREAMS_AT_ONCE: Final = 200  # streams whose consumers one look lists
_REQUESTS_AT_ONCE: Final = 16
_MOST_ITEMS: Final = 200
_NEAR: Final = 0.9
_STALE_S: Final = 60.0  # seconds without a delivery although messages wait
_SCAN_S: Final = 0.5  # length of a scan, except for its last list
_PATIENCE_S: Final = 0.2  # how long a look waits for a scan
_PAUSE: Final = 9  # the pause after a scan, as a multiple of its length
_ORDER: Final = {"error": 0, "warning": 1}


class Attention(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding."""

    severity: Literal["warning", "error"]
    kind: str
    text: str
    stream: str = ""
    consumer: str = ""


class ScanProgress(msgspec.Struct, frozen=True):
    """The number of streams with consumers, and of those that were scanned."""

    streams: int
    of: int


class Watchman:
    """Scans the streams of one link, some at a time."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link
        self._found: dict[str, list[Attention]] = {}  # by stream, as of the last scan of it
        self._next = ""
        self._scan: asyncio.Task[None] | None = None
        self._not_before = 0.0

    @classmethod
    def of(cls, link: CallerLink) -> Watchman:
        """Return the watchman of a link."""
        found = link.companions.get(_NAME)
        if not isinstance(found, Watchman):
            found = link.companions[_NAME] = cls(link)
        return found

    def close(self) -> None:
        """Called when the link is closed."""
        if self._scan is not None:
            self._scan.cancel()

    async def look(self, streams: list[StreamSummary]) -> tuple[list[Attention], ScanProgress]:
        """Return the findings about all streams so far, and continue the scan."""
        with_consumers = sorted(stream.name for stream in streams if stream.consumers)
        await self._continue(with_consumers)
        there = set(with_consumers)
        self._found = {name: found for name, found in self._found.items() if name in there}
        items = [item for stream in streams for item in about_stream(stream)]
        items += [item for found in self._found.values() for item in found]
        items.sort(key=lambda item: (_ORDER[item.severity], item.stream, item.consumer))
        return items[:_MOST_ITEMS], ScanProgress(len(self._found), len(with_consumers))

    async def _continue(self, names: list[str]) -> None:
        """Scan the next few streams unless a scan is running or was just done, and wait for it briefly."""
        if self._scan is None and time.monotonic() >= self._not_before:
            wanted = [name for name in names if name > self._next][:_STREAMS_AT_ONCE]
            wanted += names[: _STREAMS_AT_ONCE - len(wanted)]
            self._scan = asyncio.get_running_loop().create_task(self._look_into(list(dict.fromkeys(wanted))))
        if self._scan is not None:
            done, _ = await asyncio.wait((self._scan,), timeout=_PATIENCE_S)
            for task in done:
                task.result()  # an error that no server causes

    async def _look_into(self, names: list[str]) -> None:
        began = time.monotonic()
        try:
            for start in range(0, len(names), _REQUESTS_AT_ONCE):
                await self._look_into_group(names[start : start + _REQUESTS_AT_ONCE])
                if time.monotonic() > began + _SCAN_S:
                    return
        finally:
            now = time.monotonic()
            self._not_before = now + _PAUSE * (now - began)
            self._scan = None

    async def _look_into_group(self, names: list[str]) -> None:
        lists = SharedLists.of(self._link)
        now = time.time()
        answers = await asyncio.gather(*(lists.consumers(name) for name in names), return_exceptions=True)
        for name, listed in zip(names, answers, strict=True):
            if isinstance(listed, LinkError):
                self._found[name] = []
            elif isinstance(listed, BaseException):
                raise listed
            else:
                self._found[name] = [
                    item for consumer in listed.items for item in about_consumer(consumer, now)
                ]
        self._next = names[-1]


def about_stream(stream: StreamSummary) -> Iterable[Attention]:
    """Yield the findings about a stream."""
    if stream.leader == "":
        yield Attention("error", "leader_missing", f"no server leads the stream {stream.name}", stream.name)
    if stream.lost:
        text = f"the stream {stream.name} has lost {counted(stream.lost, 'message')}"
        yield Attention("error", "stream_damaged", text, stream.name)
    if stream.messages and is_about_letters(stream):
        text = f"{counted(stream.messages, 'dead letter')} in {stream.name}"
        yield Attention("warning", "dead_letters", text, stream.name)


def is_about_letters(stream: StreamSummary) -> bool:
    """Return whether the name or a subject of a stream suggests dead letters."""
    words = (stream.name, *stream.subjects)
    return any("dlq" in word.lower() or "dead" in word.lower() for word in words)


def about_consumer(consumer: ConsumerSummary, now: float) -> Iterable[Attention]:
    """Yield the findings about a consumer, from its summary."""
    names = (consumer.stream, consumer.name)
    if consumer.leader == "":
        yield Attention("error", "leader_missing", f"no server leads the consumer {consumer.name}", *names)
    if not consumer.pending:
        return
    left = f"{counted(consumer.pending, 'message')} left"
    if consumer.paused:
        yield Attention("warning", "paused", f"consumer {consumer.name} is paused: {left}", *names)
    elif 0 < consumer.max_ack_pending <= consumer.ack_pending:
        text = (
            f"consumer {consumer.name} waits for {counted(consumer.ack_pending, 'acknowledgement')}: {left}"
        )
        yield Attention("warning", "max_ack_pending", text, *names)
    elif consumer.kind == "push" and not consumer.push_bound:
        text = f"nobody listens to consumer {consumer.name}: {left}"
        yield Attention("warning", "no_interest", text, *names)
    elif consumer.kind == "pull" and not consumer.waiting and _is_stale(consumer.last_delivery, now):
        text = f"nobody pulls from consumer {consumer.name}: {left}"
        yield Attention("warning", "no_pulls", text, *names)


def _is_stale(time_text: str | None, now: float) -> bool:
    if time_text is None:
        return True
    try:
        return now - parse_time(time_text) / 1e9 > _STALE_S
    except (TimeError, ValueError):
        return False


def about_account(account: dict[str, Any]) -> Iterable[Attention]:
    """Yield the limits of the account that are nearly reached."""
    limits = account.get("limits") or {}
    for what, used, limit in (
        ("storage", account.get("storage"), limits.get("max_storage")),
        ("memory", account.get("memory"), limits.get("max_memory")),
        ("streams", account.get("streams"), limits.get("max_streams")),
        ("consumers", account.get("consumers"), limits.get("max_consumers")),
    ):
        if not isinstance(used, int) or not isinstance(limit, int) or limit <= 0 or used < _NEAR * limit:
            continue
        severity: Literal["warning", "error"] = "error" if used >= limit else "warning"
        yield Attention(
            severity, f"account_{what}", f"the account uses {used * 100 // limit} % of its {what} limit"
        )


def now_text() -> str:
    """Return the present moment as RFC 3339."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
