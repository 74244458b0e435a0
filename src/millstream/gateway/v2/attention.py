"""Findings for an operator: limits that are near, consumers that are stuck, messages that are lost.

All streams are checked at once, from the list that is read anyway.  Consumers have to be listed stream by
stream, so each look lists those of the next few streams and keeps its findings about the others.  With some
thousands of streams a problem is found within a minute of watching, and no look takes long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

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
_LOOK_S: Final = 0.5
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
        self._found: dict[str, list[Attention]] = {}  # by stream, as of the last look into it
        self._next = ""

    @classmethod
    def of(cls, link: CallerLink) -> Watchman:
        """Return the watchman of a link."""
        found = link.companions.get(_NAME)
        if not isinstance(found, Watchman):
            found = link.companions[_NAME] = cls(link)
        return found

    def close(self) -> None:
        """Called when the link is closed."""

    async def look(self, streams: list[StreamSummary]) -> tuple[list[Attention], ScanProgress]:
        """Scan the next few streams, and return the findings about all."""
        with_consumers = sorted(stream.name for stream in streams if stream.consumers)
        wanted = [name for name in with_consumers if name > self._next][:_STREAMS_AT_ONCE]
        wanted += with_consumers[: _STREAMS_AT_ONCE - len(wanted)]
        await self._look_into(list(dict.fromkeys(wanted)))
        there = set(with_consumers)
        self._found = {name: found for name, found in self._found.items() if name in there}
        items = [item for stream in streams for item in about_stream(stream)]
        items += [item for found in self._found.values() for item in found]
        items.sort(key=lambda item: (_ORDER[item.severity], item.stream, item.consumer))
        return items[:_MOST_ITEMS], ScanProgress(len(self._found), len(with_consumers))

    async def _look_into(self, names: list[str]) -> None:
        snapshot = SharedLists.of(self._link)
        deadline = time.monotonic() + _LOOK_S
        now = time.time()
        for start in range(0, len(names), _REQUESTS_AT_ONCE):
            group = names[start : start + _REQUESTS_AT_ONCE]
            found = await asyncio.gather(
                *(snapshot.consumers(name) for name in group), return_exceptions=True
            )
            for name, listed in zip(group, found, strict=True):
                if isinstance(listed, LinkError):
                    self._found[name] = []
                elif isinstance(listed, BaseException):
                    raise listed
                else:
                    self._found[name] = [
                        item for consumer in listed.items for item in about_consumer(consumer, now)
                    ]
            self._next = group[-1]
            if time.monotonic() > deadline:
                return


def about_stream(stream: StreamSummary) -> Iterable[Attention]:
    """Yield the findings about a stream."""
    if stream.leader == "":
        yield Attention("error", "leader_missing", f"no server leads the stream {stream.name}", stream.name)
    if stream.lost:
        text = f"the stream {stream.name} has lost {stream.lost} messages"
        yield Attention("error", "stream_damaged", text, stream.name)
    if stream.messages and is_about_letters(stream):
        text = f"{stream.messages} dead letters are in {stream.name}"
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
    left = f"{consumer.pending} messages are left"
    if consumer.paused:
        yield Attention("warning", "paused", f"{consumer.name} is paused, {left}", *names)
    elif 0 < consumer.max_ack_pending <= consumer.ack_pending:
        text = f"{consumer.name} waits for {consumer.ack_pending} acknowledgements, {left}"
        yield Attention("warning", "max_ack_pending", text, *names)
    elif consumer.kind == "push" and not consumer.push_bound:
        text = f"nobody listens to {consumer.name}, {left}"
        yield Attention("warning", "no_interest", text, *names)
    elif consumer.kind == "pull" and not consumer.waiting and _is_stale(consumer.last_delivery, now):
        text = f"nobody pulls from {consumer.name}, {left}"
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
