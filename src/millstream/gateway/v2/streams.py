"""Streams: list, create, read, change, delete, purge.

Configurations are JetStream's own; they are passed on unchanged, and JetStream checks them.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec

from millstream.gateway.errors import BadRequest
from millstream.gateway.v2.calls import Call, Reply, Whole, answer, nothing
from millstream.gateway.v2.etags import check_match, etag, is_known
from millstream.gateway.v2.names import check_filter, check_name
from millstream.gateway.v2.operations import Answer, Section, Tag, json_answer, json_body
from millstream.gateway.v2.subject_tree import TreeLevel, tree_level
from millstream.gateway.v2.summaries import (
    Order,
    Search,
    StreamSort,
    StreamSummaries,
    no_summary,
    stream_summaries,
)
from millstream.gateway.v2.summary_types import Kind
from millstream.jsapi.account_types import AccountInfo
from millstream.jsapi.stream_types import StreamConfig, StreamInfo

section: Final = Section(Tag.STREAMS)

_PAGE: Final = 256  # of JetStream

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="how many to leave out")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=_PAGE, description="how many at most")]
Filter = Annotated[str, msgspec.Meta(description="a subject, perhaps with wildcards")]
Sequence = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class StreamsQuery(msgspec.Struct, frozen=True):
    offset: Offset = 0
    limit: Limit = _PAGE
    subject: Filter | None = None
    summary: Annotated[bool, msgspec.Meta(description="a line for each; the parameters below need it")] = (
        False
    )
    search: Search = ""
    sort: StreamSort | None = None
    order: Order = "asc"
    kind: Kind | None = None


class StreamPage(msgspec.Struct, omit_defaults=True):
    total: int
    streams: list[StreamInfo]
    next_offset: int | None = None  # where the next page begins; absent on the last one


class SubjectsQuery(msgspec.Struct, frozen=True):
    filter: Filter = ">"
    offset: Offset = 0
    depth: (
        Annotated[
            int,
            msgspec.Meta(ge=1, le=16, description="answer the tokens that follow `prefix`, so many together"),
        ]
        | None
    ) = None
    prefix: Annotated[str, msgspec.Meta(description="the tokens above; goes with `depth`")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="goes with `depth`")] = 1000


class SubjectPage(msgspec.Struct, omit_defaults=True):
    """The number of messages of each subject."""

    total: int
    subjects: dict[str, int]
    next_offset: int | None = None


class Purge(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The messages to remove: all, or those of `subject`, below `seq`, or all but the last `keep`."""

    subject: str = ""
    seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    keep: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0


class Purged(msgspec.Struct):
    purged: int


class Locks:
    """Locks that serialise changes of a configuration, so that If-Match is checked against the old one."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock


_locks: Final = Locks()


def stream_of(call: Call) -> str:
    return check_name(call.path["stream"], "stream")


def without_type(told: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of JetStream without the fields `type` and `did_create`."""
    return {key: value for key, value in told.items() if key not in ("type", "did_create")}


def next_offset(told: dict[str, Any], offset: int, shown: int) -> int | None:
    following = offset + shown
    return following if shown and following < int(told.get("total") or 0) else None


@section.get(
    "/account",
    "Usage and limits of the account",
    tag=Tag.ACCOUNT,
    answers=(json_answer(200, "the account", AccountInfo),),
    problems=(404,),
)
async def read_account(call: Call) -> Reply:
    """The account's usage of JetStream, and its limits; -1 is no limit."""
    return answer(without_type(await call.link.api("INFO")))


@section.get(
    "/streams",
    "List streams",
    query=StreamsQuery,
    answers=(json_answer(200, "a page of streams", (StreamPage, StreamSummaries)),),
    problems=(404,),
)
async def list_streams(call: Call) -> Reply:
    """Streams by name; with `subject` only those that store a matching subject. With `summary` the answer has
    a summary of each stream, from a list that is at most two seconds old."""
    query: StreamsQuery = call.query
    if query.summary:
        return await stream_summaries(call)
    no_summary(query, "search", "sort", "order", "kind")
    request: dict[str, Any] = {"offset": query.offset}
    if query.subject is not None:
        request["subject"] = check_filter(query.subject)
    told = await call.link.api("STREAM.LIST", request)
    streams = (told.get("streams") or [])[: query.limit]
    return answer(StreamPage(told["total"], streams, next_offset(told, query.offset, len(streams))))


@section.post(
    "/streams",
    "Create a stream",
    body=json_body(StreamConfig, "the configuration; `name` is needed"),
    answers=(
        json_answer(
            201, "it is there, as configured", StreamInfo, Location="the stream", ETag="of its configuration"
        ),
    ),
    problems=(404, 409, 415, 422),
)
async def create_stream(call: Call) -> Reply:
    """Creating a stream again with the same configuration changes nothing and is no error."""
    config = await call.json(dict[str, Any])
    name = config.get("name")
    if not isinstance(name, str):
        raise BadRequest("the configuration has no `name`")
    check_name(name, "stream")
    told = await call.link.api(f"STREAM.CREATE.{name}", config)
    headers = [("Location", call.url(f"/v2/streams/{quote(name, safe='')}")), ("ETag", etag(told["config"]))]
    return answer(without_type(told), 201, headers)


@section.get(
    "/streams/{stream}",
    "Read a stream",
    answers=(json_answer(200, "the stream", StreamInfo),),
    problems=(404,),
)
async def read_stream(call: Call) -> Reply:
    """The configuration and the state of a stream."""
    return answer(without_type(await call.link.api(f"STREAM.INFO.{stream_of(call)}")))


@section.delete(
    "/streams/{stream}",
    "Delete a stream",
    answers=(Answer(204, "it is gone, with its messages and consumers"),),
    problems=(404, 409, 422),
)
async def delete_stream(call: Call) -> Reply:
    """Deletes the stream with its messages and consumers."""
    await call.link.api(f"STREAM.DELETE.{stream_of(call)}")
    return nothing()


@section.get(
    "/streams/{stream}/config",
    "Read the configuration of a stream",
    headers={"If-None-Match": "an ETag: answer 304 if the configuration is still that one"},
    answers=(
        json_answer(200, "the configuration", StreamConfig, ETag="of the configuration"),
        Answer(304, "the caller has it already", headers={"ETag": "of the configuration"}),
    ),
    problems=(404,),
)
async def read_stream_config(call: Call) -> Reply:
    """The configuration without the state, so that it can be changed and sent back."""
    told = await call.link.api(f"STREAM.INFO.{stream_of(call)}")
    return config_answer(call, told["config"])


def config_answer(call: Call, config: dict[str, Any]) -> Reply:
    headers = [("ETag", etag(config))]
    if is_known(call.header("if-none-match"), config):
        return Whole(304, headers=headers)
    return answer(config, headers=headers)


@section.put(
    "/streams/{stream}/config",
    "Change the configuration of a stream",
    headers={"If-Match": "an ETag: answer 412 if the configuration is no longer that one"},
    body=json_body(StreamConfig, "the whole new configuration; what is left out has its default"),
    answers=(json_answer(200, "the new configuration", StreamConfig, ETag="of the new configuration"),),
    problems=(404, 409, 412, 415, 422),
)
async def update_stream_config(call: Call) -> Reply:
    """Replaces the configuration; `"sealed": true` seals the stream for good. Changes through the same
    gateway are serialised, so `If-Match` holds. JetStream itself has no conditional update, so a simultaneous
    change through another gateway is not detected."""
    stream = stream_of(call)
    config = await call.json(dict[str, Any])
    if config.setdefault("name", stream) != stream:
        raise BadRequest("the `name` in the configuration is another one than in the path")
    async with _locks.of(stream):
        if condition := call.header("if-match"):
            present = await call.link.api(f"STREAM.INFO.{stream}")
            check_match(condition, present["config"])
        told = await call.link.api(f"STREAM.UPDATE.{stream}", config)
    return answer(told["config"], headers=[("ETag", etag(told["config"]))])


@section.get(
    "/streams/{stream}/subjects",
    "Subjects of a stream",
    query=SubjectsQuery,
    answers=(json_answer(200, "a page of subjects", (SubjectPage, TreeLevel)),),
    problems=(404, 422),
)
async def list_subjects(call: Call) -> Reply:
    """The subjects that match `filter`, each with the number of its messages. With `depth`, one level of the
    tree of subjects: the tokens after `prefix`, with the messages at and below each and the number of
    subjects below it, those with most messages first. `complete` is false if there are more than 100,000
    messages of as many subjects: then only the first 2,000 were counted."""
    query: SubjectsQuery = call.query
    if query.depth is not None:
        if query.filter != ">" or query.offset:
            raise BadRequest("`depth` goes with `prefix`, not with `filter` and `offset`")
        return answer(await tree_level(call.link, stream_of(call), query.prefix, query.depth, query.limit))
    if query.prefix:
        raise BadRequest("`prefix` goes with `depth`")
    request = {"subjects_filter": check_filter(query.filter), "offset": query.offset}
    told = await call.link.api(f"STREAM.INFO.{stream_of(call)}", request)
    subjects = told["state"].get("subjects") or {}
    return answer(
        SubjectPage(told.get("total") or 0, subjects, next_offset(told, query.offset, len(subjects)))
    )


@section.post(
    "/streams/{stream}/seal",
    "Seal a stream",
    answers=(json_answer(200, "the stream", StreamInfo),),
    problems=(404, 409, 422),
)
async def seal_stream(call: Call) -> Reply:
    """Makes the stream read-only. This cannot be undone."""
    stream = stream_of(call)
    async with _locks.of(stream):
        told = await call.link.api(f"STREAM.INFO.{stream}")
        told = await call.link.api(f"STREAM.UPDATE.{stream}", {**told["config"], "sealed": True})
    return answer(without_type(told))


@section.post(
    "/streams/{stream}/purge",
    "Remove messages",
    body=json_body(Purge, "without a body everything goes", required=False),
    answers=(json_answer(200, "how many went", Purged),),
    problems=(404, 409, 415, 422),
)
async def purge_stream(call: Call) -> Reply:
    """Removes all messages, or those of one subject; all of them, or those below `seq`, or all but the last
    `keep`."""
    purge = await call.json(Purge)
    request: dict[str, Any] = {}
    if purge.subject:
        request["filter"] = check_filter(purge.subject)
    if purge.seq:
        request["seq"] = purge.seq
    if purge.keep:
        request["keep"] = purge.keep
    told = await call.link.api(f"STREAM.PURGE.{stream_of(call)}", request or b"")
    return answer(Purged(told["purged"]))
