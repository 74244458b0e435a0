"""Reading the messages of a stream without a consumer, and deleting one."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final

import msgspec

from millstream.gateway.errors import BadRequest
from millstream.gateway.v2.calls import Call, Reply, Whole, answer, nothing
from millstream.gateway.v2.message_headers import to_http, to_json
from millstream.gateway.v2.names import check_filter
from millstream.gateway.v2.operations import BYTES, JSON, Answer, Section, Tag, json_answer
from millstream.gateway.v2.payload import Message, PayloadForm, stored_message
from millstream.gateway.v2.search import find_messages
from millstream.gateway.v2.streams import Filter, stream_of
from millstream.golang.time import TimeError, format_time, parse_time
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError
from millstream.protocol.headers import Pairs, read_pairs

section: Final = Section(Tag.READING)

_MOST_MESSAGES: Final = 1000
_MOST_BYTES: Final = 4 * 1024 * 1024
_BIGGEST: Final = 2**63 - 1

Sequence = Annotated[int, msgspec.Meta(ge=1, le=_BIGGEST, description="a stream sequence")]
Since = Annotated[str, msgspec.Meta(description="RFC 3339: messages stored then or later")]
Payload = Annotated[PayloadForm, msgspec.Meta(description="how bodies are written")]


class OneQuery(msgspec.Struct, frozen=True):
    payload: Payload = PayloadForm.AUTO


class LastQuery(msgspec.Struct, frozen=True):
    subject: Filter = ">"
    payload: Payload = PayloadForm.AUTO


class NextQuery(msgspec.Struct, frozen=True):
    subject: Filter = ">"
    seq: Sequence = 1
    payload: Payload = PayloadForm.AUTO


class PageQuery(msgspec.Struct, frozen=True):
    seq: Sequence | None = None
    since: Since | None = None
    subject: Filter = ">"
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_MESSAGES, description="how many at most")] = 100
    payload: Payload = PayloadForm.AUTO
    search: Annotated[
        str,
        msgspec.Meta(max_length=1024, description="only messages with this text in subject, headers or body"),
    ] = ""


class MessagePage(msgspec.Struct, omit_defaults=True):
    messages: list[Message]
    next_seq: int | None = None  # start of the next page; absent after the last one
    next: int | None = None  # start of the next page of a search


class DeleteQuery(msgspec.Struct, frozen=True):
    erase: Annotated[bool, msgspec.Meta(description="overwrite it too, so that nobody can restore it")] = True


class StoredAnswer(msgspec.Struct):
    """JetStream's answer to a request for a message."""

    subject: str
    seq: int
    time: str
    hdrs: str = ""
    data: str = ""

    @property
    def headers(self) -> Pairs:
        return read_pairs(base64.b64decode(self.hdrs)) if self.hdrs else []

    @property
    def body(self) -> bytes:
        return base64.b64decode(self.data)


_ANSWERS: Final = (
    Answer(
        200,
        "the message; or its body alone, if `application/octet-stream` is asked for",
        {JSON: Message, BYTES: {"type": "string", "format": "binary"}},
        {
            "Nats-Sequence": "its sequence, with a bare body",
            "Nats-Subject": "its subject, with a bare body",
            "Nats-Time-Stamp": "when it was stored, with a bare body",
        },
    ),
)
_ACCEPT: Final = {"Accept": "`application/octet-stream` for the body alone"}


async def read_stored(call: Call, stream: str, request: dict[str, Any]) -> StoredAnswer:
    """Return the message of a stream that JetStream finds for a request."""
    told = await call.link.api(f"STREAM.MSG.GET.{stream}", request)
    return msgspec.convert(told["message"], StoredAnswer)


async def _one(call: Call, request: dict[str, Any], form: PayloadForm) -> Reply:
    stream = stream_of(call)
    kind = call.accepted(JSON, BYTES)
    stored = await read_stored(call, stream, request)
    if kind == JSON:
        return answer(_message(stream, stored, form))
    headers = [
        ("Nats-Stream", stream),
        ("Nats-Sequence", str(stored.seq)),
        ("Nats-Subject", stored.subject),
        ("Nats-Time-Stamp", stored.time),
        *to_http(stored.headers),
    ]
    return Whole(200, stored.body, BYTES, headers)


def _message(stream: str, stored: StoredAnswer, form: PayloadForm) -> Message:
    return stored_message(
        stream, stored.seq, stored.subject, stored.time, to_json(stored.headers), stored.body, form
    )


@section.get(
    "/streams/{stream}/messages/{seq}",
    "Read a message",
    query=OneQuery,
    headers=_ACCEPT,
    answers=_ANSWERS,
    problems=(404, 406),
)
async def read_message(call: Call) -> Reply:
    """The message with this sequence."""
    return await _one(call, {"seq": sequence_of(call)}, call.query.payload)


@section.delete(
    "/streams/{stream}/messages/{seq}",
    "Delete a message",
    query=DeleteQuery,
    answers=(Answer(204, "it is gone"),),
    problems=(404, 409, 422),
)
async def delete_message(call: Call) -> Reply:
    """Deletes the message and overwrites its bytes on disk; with `erase=false` it is only deleted."""
    request: dict[str, Any] = {"seq": sequence_of(call)}
    if not call.query.erase:
        request["no_erase"] = True
    stream = stream_of(call)
    try:
        await call.link.api(f"STREAM.MSG.DELETE.{stream}", request)
    except LinkApiError as error:
        if error.err is Err.STREAM_MESSAGE_DELETE_FAILED:
            await read_stored(call, stream, {"seq": request["seq"]})  # 404 if it does not exist
        raise
    return nothing()


@section.get(
    "/streams/{stream}/last",
    "Read the last message",
    query=LastQuery,
    headers=_ACCEPT,
    answers=_ANSWERS,
    problems=(404, 406),
)
async def read_last_message(call: Call) -> Reply:
    """The last message of a subject, or of all subjects that match it."""
    query: LastQuery = call.query
    return await _one(call, {"last_by_subj": check_filter(query.subject)}, query.payload)


@section.get(
    "/streams/{stream}/next",
    "Read the next message",
    query=NextQuery,
    headers=_ACCEPT,
    answers=_ANSWERS,
    problems=(404, 406),
)
async def read_next_message(call: Call) -> Reply:
    """The first message from a sequence on whose subject matches."""
    query: NextQuery = call.query
    return await _one(call, {"seq": query.seq, "next_by_subj": check_filter(query.subject)}, query.payload)


@section.get(
    "/streams/{stream}/messages",
    "Read a page of messages",
    query=PageQuery,
    answers=(json_answer(200, "messages in stream order", MessagePage),),
    problems=(404,),
)
async def list_messages(call: Call) -> Reply:
    """Messages from a sequence or a time on, in order; the next page begins at `next_seq`. A page ends early
    at 4 MiB of bodies. With `search`, it also ends after 5,000 messages, 32 MiB or two seconds of searching:
    it may be empty, and the search continues at `next`."""
    query: PageQuery = call.query
    stream = stream_of(call)
    if query.search:
        return await _search(call, stream, query)
    request: dict[str, Any] = {"seq": query.seq or 1, "next_by_subj": check_filter(query.subject)}
    if query.since is not None:
        if query.seq is not None:
            raise BadRequest("a page begins at one of `seq` and `since`")
        request = {"start_time": read_time(query.since), "next_by_subj": request["next_by_subj"]}
    messages: list[Message] = []
    size = 0
    while True:
        try:
            stored = await read_stored(call, stream, request)
        except LinkApiError as error:
            if error.err is not Err.NO_MESSAGE_FOUND:
                raise
            return answer(MessagePage(messages))
        if len(messages) == query.limit or (messages and size + len(stored.data) > _MOST_BYTES):
            return answer(MessagePage(messages, stored.seq))
        messages.append(_message(stream, stored, query.payload))
        size += len(stored.data)
        request = {"seq": stored.seq + 1, "next_by_subj": request["next_by_subj"]}


async def _search(call: Call, stream: str, query: PageQuery) -> Reply:
    seq = query.seq or 1
    subject = check_filter(query.subject)
    if query.since is not None:
        if query.seq is not None:
            raise BadRequest("a page begins at one of `seq` and `since`")
        try:
            request = {"start_time": read_time(query.since), "next_by_subj": subject}
            seq = (await read_stored(call, stream, request)).seq
        except LinkApiError as error:
            if error.err is not Err.NO_MESSAGE_FOUND:
                raise
            return answer(MessagePage([]))
    found, following = await find_messages(
        call.link, stream, subject, query.search, seq=seq, limit=query.limit
    )
    messages = [
        stored_message(
            stream,
            each.seq,
            each.subject,
            format_time(each.time),
            to_json(each.pairs),
            each.payload,
            query.payload,
        )
        for each in found
    ]
    return answer(MessagePage(messages, following, following))


def read_time(text: str) -> str:
    """Return a time in the form that JetStream reads; 400 if it is invalid."""
    try:
        return format_time(parse_time(text))
    except (TimeError, ValueError, OverflowError) as error:
        raise BadRequest(f"{error}") from None


def sequence_of(call: Call) -> int:
    """Return the sequence in the path; 400 if it is invalid."""
    text = call.path["seq"]
    if not text.isascii() or not text.isdigit() or len(text) > 19 or not 0 < int(text) <= _BIGGEST:
        raise BadRequest(f"{text!r} is no sequence")
    return int(text)
