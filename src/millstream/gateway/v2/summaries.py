"""Lists of streams and consumers that can be searched, sorted and paged."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from millstream.gateway.errors import BadRequest
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.names import check_filter
from millstream.gateway.v2.snapshot import SharedLists
from millstream.gateway.v2.summary_types import ConsumerSummary, StreamSummary
from millstream.subjects.match import collide

Search = Annotated[str, msgspec.Meta(max_length=1024, description="only what has this text in it")]
Order = Annotated[Literal["asc", "desc"], msgspec.Meta(description="ascending or descending")]
StreamSort = Literal["name", "messages", "bytes", "consumers", "last"]
ConsumerSort = Literal["name", "pending", "ack_pending", "redelivered", "waiting", "last"]
_STREAM_KEYS: Final = {"last": "last_time"}
_CONSUMER_KEYS: Final = {"last": "last_delivery"}


class StreamSummaries(msgspec.Struct):
    """A page of a list; `total` is how many match."""

    streams: list[StreamSummary]
    total: int
    offset: int
    limit: int


class ConsumerSummaries(msgspec.Struct):
    """A page of a list; `total` is how many match."""

    consumers: list[ConsumerSummary]
    total: int
    offset: int
    limit: int


async def stream_summaries(call: Call) -> Reply:
    """Return a page of the streams for the query."""
    query = call.query
    listed = await SharedLists.of(call.link).streams()
    found = listed.items
    if query.search:
        wanted = query.search.lower()
        found = [each for each in found if _stream_matches(each, wanted)]
    if query.subject is not None:
        pattern = check_filter(query.subject).encode()
        found = [each for each in found if any(collide(pattern, own.encode()) for own in each.subjects)]
    if query.kind is not None:
        found = [each for each in found if each.kind == query.kind]
    key = query.sort or "name"
    return answer(
        page_of("streams", _sorted(found, _STREAM_KEYS.get(key, key), query.order), query.offset, query.limit)
    )


async def consumer_summaries(call: Call, stream: str) -> Reply:
    """Return a page of a stream's consumers for the query."""
    query = call.query
    listed = await SharedLists.of(call.link).consumers(stream)
    found = listed.items
    if query.search:
        wanted = query.search.lower()
        found = [each for each in found if _consumer_matches(each, wanted)]
    key = query.sort or "name"
    ordered = _sorted(found, _CONSUMER_KEYS.get(key, key), query.order)
    return answer(page_of("consumers", ordered, query.offset, query.limit))


def no_summary(query: Any, *names: str) -> None:
    """Refuse parameters that need `summary`."""
    for name in names:
        if getattr(query, name) not in (None, "", "asc"):
            raise BadRequest(f"`{name}` goes with `summary=true`")


def page_of(name: str, items: list[Any], offset: int, limit: int) -> dict[str, Any]:
    """Return a page of a complete list."""
    return {name: items[offset : offset + limit], "total": len(items), "offset": offset, "limit": limit}


def _stream_matches(stream: StreamSummary, wanted: str) -> bool:
    return (
        wanted in stream.name.lower()
        or wanted in stream.description.lower()
        or any(wanted in subject.lower() for subject in stream.subjects)
    )


def _consumer_matches(consumer: ConsumerSummary, wanted: str) -> bool:
    return wanted in consumer.name.lower() or any(
        wanted in subject.lower() for subject in consumer.filter_subjects
    )


def _sorted(items: list[Any], key: str, order: str) -> list[Any]:
    """Return the items sorted by a field, then by name; None comes first."""
    by_name = sorted(items, key=lambda item: item.name)
    if key == "name":
        return by_name if order == "asc" else by_name[::-1]
    return sorted(by_name, key=lambda item: getattr(item, key) or type_zero(key), reverse=order == "desc")


def type_zero(key: str) -> Any:
    """Return the value that sorts in place of a missing one."""
    return "" if key in ("last_time", "last_delivery") else 0
