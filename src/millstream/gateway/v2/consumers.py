"""Consumers: list, create, read, change, delete, pause, resume, reset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec

from millstream.gateway.errors import BadRequest
from millstream.gateway.v2.calls import Call, Reply, answer, nothing
from millstream.gateway.v2.etags import check_match, etag
from millstream.gateway.v2.names import check_name
from millstream.gateway.v2.operations import Answer, Section, Tag, json_answer, json_body
from millstream.gateway.v2.streams import (
    Limit,
    Locks,
    Offset,
    config_answer,
    next_offset,
    stream_of,
    without_type,
)
from millstream.gateway.v2.summaries import (
    ConsumerSort,
    ConsumerSummaries,
    Order,
    Search,
    consumer_summaries,
    no_summary,
)
from millstream.golang.time import TimeError, format_time, parse_time
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError

section: Final = Section(Tag.CONSUMERS)

_PAGE: Final = 256  # of JetStream
_CONSUMER: Final = "/streams/{stream}/consumers/{consumer}"


class ConsumersQuery(msgspec.Struct, frozen=True):
    offset: Offset = 0
    limit: Limit = _PAGE
    summary: Annotated[
        bool, msgspec.Meta(description="a line for each consumer; the parameters below need it")
    ] = False
    search: Search = ""
    sort: ConsumerSort | None = None
    order: Order = "asc"


class ConsumerPage(msgspec.Struct, omit_defaults=True):
    total: int
    consumers: list[ConsumerInfo]
    next_offset: int | None = None  # where the next page begins; absent on the last one


class Pause(msgspec.Struct, forbid_unknown_fields=True):
    """The end of a pause: exactly one of the two fields."""

    until: Annotated[str, msgspec.Meta(description="RFC 3339")] | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0, le=10**9, description="from now")] | None = None


class Paused(msgspec.Struct, omit_defaults=True):
    paused: bool
    pause_until: str = ""
    pause_remaining: int = 0  # nanoseconds


class Reset(msgspec.Struct, forbid_unknown_fields=True):
    """The position to continue at: `seq`, the first message at `time` or later, or after the ack floor."""

    seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    time: Annotated[str, msgspec.Meta(description="RFC 3339")] | None = None


class Unpin(msgspec.Struct, forbid_unknown_fields=True):
    """The priority group to unpin; by default every group that has a pinned client."""

    group: str = ""


class ResetConsumer(ConsumerInfo):
    """The consumer, and the sequence at which it continues."""

    reset_seq: int = 0


_locks: Final = Locks()


def consumer_of(call: Call) -> str:
    return check_name(call.path["consumer"], "consumer")


def both_of(call: Call) -> str:
    """Return stream and consumer, as subjects of the API contain them."""
    return f"{stream_of(call)}.{consumer_of(call)}"


@section.get(
    "/streams/{stream}/consumers",
    "List consumers",
    query=ConsumersQuery,
    answers=(json_answer(200, "a page of consumers", (ConsumerPage, ConsumerSummaries)),),
    problems=(404,),
)
async def list_consumers(call: Call) -> Reply:
    """Consumers by name. With `summary` the answer has a summary of each, from a list that is at most two
    seconds old."""
    query: ConsumersQuery = call.query
    if query.summary:
        return await consumer_summaries(call, stream_of(call))
    no_summary(query, "search", "sort", "order")
    told = await call.link.api(f"CONSUMER.LIST.{stream_of(call)}", {"offset": query.offset})
    consumers = (told.get("consumers") or [])[: query.limit]
    return answer(ConsumerPage(told["total"], consumers, next_offset(told, query.offset, len(consumers))))


@section.post(
    "/streams/{stream}/consumers",
    "Create a consumer",
    body=json_body(
        ConsumerConfig, "the configuration; with `durable_name` or `name`, or the server picks a name"
    ),
    answers=(
        json_answer(201, "it is there", ConsumerInfo, Location="the consumer", ETag="of its configuration"),
    ),
    problems=(404, 409, 415, 422),
)
async def create_consumer(call: Call) -> Reply:
    """Creating a consumer again with the same configuration is no error; another configuration gets 409."""
    stream = stream_of(call)
    config = await call.json(dict[str, Any])
    name = config.get("name") or config.get("durable_name") or ""
    if not isinstance(name, str):
        raise BadRequest("the name of a consumer is a string")
    subject = f"CONSUMER.CREATE.{stream}" + (f".{check_name(name, 'consumer')}" if name else "")
    request = {"stream_name": stream, "config": config, "action": "create"}
    told = await call.link.api(subject, request)
    location = call.url(f"/v2/streams/{quote(stream, safe='')}/consumers/{quote(told['name'], safe='')}")
    return answer(without_type(told), 201, [("Location", location), ("ETag", etag(told["config"]))])


@section.get(
    _CONSUMER,
    "Read a consumer",
    answers=(json_answer(200, "the consumer", ConsumerInfo),),
    problems=(404,),
)
async def read_consumer(call: Call) -> Reply:
    """The configuration and the state of a consumer."""
    return answer(without_type(await call.link.api(f"CONSUMER.INFO.{both_of(call)}")))


@section.delete(
    _CONSUMER,
    "Delete a consumer",
    answers=(Answer(204, "it is gone"),),
    problems=(404,),
)
async def delete_consumer(call: Call) -> Reply:
    """Deletes the consumer; its readers get an error."""
    await call.link.api(f"CONSUMER.DELETE.{both_of(call)}")
    return nothing()


@section.get(
    f"{_CONSUMER}/config",
    "Read the configuration of a consumer",
    headers={"If-None-Match": "an ETag: answer 304 if the configuration is still that one"},
    answers=(
        json_answer(200, "the configuration", ConsumerConfig, ETag="of the configuration"),
        Answer(304, "the caller has it already", headers={"ETag": "of the configuration"}),
    ),
    problems=(404,),
)
async def read_consumer_config(call: Call) -> Reply:
    """The configuration without the state, so that it can be changed and sent back."""
    told = await call.link.api(f"CONSUMER.INFO.{both_of(call)}")
    return config_answer(call, told["config"])


@section.put(
    f"{_CONSUMER}/config",
    "Change the configuration of a consumer",
    headers={"If-Match": "an ETag: answer 412 if the configuration is no longer that one"},
    body=json_body(ConsumerConfig, "the whole new configuration"),
    answers=(json_answer(200, "the new configuration", ConsumerConfig, ETag="of the new configuration"),),
    problems=(404, 409, 412, 415, 422),
)
async def update_consumer_config(call: Call) -> Reply:
    """Replaces the configuration. JetStream refuses changes of some fields."""
    stream, consumer = stream_of(call), consumer_of(call)
    config = await call.json(dict[str, Any])
    for key in ("name", "durable_name"):
        if config.get(key) not in (None, "", consumer):
            raise BadRequest(f"the `{key}` in the configuration is another one than in the path")
    config["name"] = consumer
    request = {"stream_name": stream, "config": config, "action": "update"}
    async with _locks.of(f"{stream}.{consumer}"):
        if condition := call.header("if-match"):
            present = await call.link.api(f"CONSUMER.INFO.{stream}.{consumer}")
            check_match(condition, present["config"])
        told = await call.link.api(f"CONSUMER.CREATE.{stream}.{consumer}", request)
    return answer(told["config"], headers=[("ETag", etag(told["config"]))])


@section.post(
    f"{_CONSUMER}/pause",
    "Pause a consumer",
    body=json_body(Pause),
    answers=(json_answer(200, "whether it is paused, and until when", Paused),),
    problems=(404, 415, 422),
)
async def pause_consumer(call: Call) -> Reply:
    """The consumer delivers nothing until the given time."""
    pause = await call.json(Pause)
    if (pause.until is None) == (pause.seconds is None):
        raise BadRequest("a pause has one of `until` and `seconds`")
    if pause.until is not None:
        try:
            until = format_time(parse_time(pause.until))
        except (TimeError, ValueError, OverflowError) as error:
            raise BadRequest(f"`until`: {error}") from None
    else:
        until = (datetime.now(UTC) + timedelta(seconds=pause.seconds or 0)).isoformat().replace("+00:00", "Z")
    return _paused(await call.link.api(f"CONSUMER.PAUSE.{both_of(call)}", {"pause_until": until}))


def _paused(told: dict[str, Any]) -> Reply:
    return answer(Paused(told["paused"], told.get("pause_until", ""), told.get("pause_remaining", 0)))


@section.post(
    f"{_CONSUMER}/resume",
    "Resume a consumer",
    answers=(json_answer(200, "that it is not paused", Paused),),
    problems=(404, 422),
)
async def resume_consumer(call: Call) -> Reply:
    """Ends a pause: the consumer delivers again."""
    return _paused(await call.link.api(f"CONSUMER.PAUSE.{both_of(call)}", b""))


@section.post(
    f"{_CONSUMER}/reset",
    "Reset a consumer",
    body=json_body(Reset, "without a body it goes back to its ack floor", required=False),
    answers=(json_answer(200, "the consumer", ResetConsumer),),
    problems=(404, 415, 422),
)
async def reset_consumer(call: Call) -> Reply:
    """Redelivers from a sequence or time on, or everything that is not acknowledged."""
    reset = await call.json(Reset)
    # JetStream does not answer the reset of a consumer that does not exist
    await call.link.api(f"CONSUMER.INFO.{both_of(call)}")
    seq = reset.seq
    if reset.time is not None:
        if reset.seq:
            raise BadRequest("a reset has one of `seq` and `time`")
        seq = await _sequence_at(call, reset.time)
    told = await call.link.api(f"CONSUMER.RESET.{both_of(call)}", {"seq": seq} if seq else b"")
    return answer(without_type(told))


async def _sequence_at(call: Call, text: str) -> int:
    """Return the sequence of the first message stored at or after a time, or of the next message."""
    try:
        start = format_time(parse_time(text))
    except (TimeError, ValueError, OverflowError) as error:
        raise BadRequest(f"`time`: {error}") from None
    stream = stream_of(call)
    try:
        request = {"start_time": start, "next_by_subj": ">"}
        return int((await call.link.api(f"STREAM.MSG.GET.{stream}", request))["message"]["seq"])
    except LinkApiError as error:
        if error.err is not Err.NO_MESSAGE_FOUND:
            raise
    return int((await call.link.api(f"STREAM.INFO.{stream}"))["state"]["last_seq"]) + 1


@section.post(
    f"{_CONSUMER}/unpin",
    "Unpin a consumer",
    body=json_body(Unpin, "without a body every pinned client is let go", required=False),
    answers=(json_answer(200, "it is done", {"type": "object"}),),
    problems=(404, 415, 422),
)
async def unpin_consumer(call: Call) -> Reply:
    """Releases the pinned client of a priority group; the next client that pulls is pinned."""
    unpin = await call.json(Unpin)
    groups = [unpin.group]
    if not unpin.group:
        told = await call.link.api(f"CONSUMER.INFO.{both_of(call)}")
        pins = told.get("priority_groups") or []
        groups = [each["group"] for each in pins if each.get("pinned_client_id")]
    for group in groups:
        await call.link.api(f"CONSUMER.UNPIN.{both_of(call)}", {"group": group})
    return answer({})
