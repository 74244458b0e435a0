"""Messages as they come, in one answer without an end: of a stream in order, or of a consumer with acks.

A stream is read by an ordered consumer, without acks, and a reconnecting caller names its position.  A
consumer keeps the position itself, and its messages are acknowledged by separate calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from millstream.client import Client, ClientError, OrderedConsumer, OrderedMessage, StartAt
from millstream.gateway.errors import FAILURES, BadRequest, Stopping
from millstream.gateway.v2.bucket_errors import error_of_client
from millstream.gateway.v2.calls import AnswerHead, Call, Flow, Reply, begun
from millstream.gateway.v2.consume_routes import message_of
from millstream.gateway.v2.consumer_session import ConsumerSession, OnDisconnect
from millstream.gateway.v2.frames import Framing, framing_of
from millstream.gateway.v2.message_headers import to_json
from millstream.gateway.v2.messages import Payload, Sequence, Since
from millstream.gateway.v2.names import check_filter
from millstream.gateway.v2.operations import EVENTS, NDJSON, Answer, Section, Tag
from millstream.gateway.v2.payload import DeliveredMessage, Message, PayloadForm, fill_body
from millstream.gateway.v2.streams import stream_of
from millstream.golang.time import TimeError, format_time, parse_time

section: Final = Section(Tag.CONSUMING)

_AT_ONCE: Final = 256  # messages in one write
_STOP_LOOK_S: Final = 1.0
_HEARTBEAT_S: Final = 2.0  # of the ordered consumer: a deleted stream is noticed after two and a half
_MICROSECOND: Final = 1_000


class From(StrEnum):
    """The position to start at."""

    FIRST = "first"
    LAST = "last"
    NEW = "new"
    LAST_PER_SUBJECT = "last_per_subject"


Heartbeat = Annotated[
    float,
    msgspec.Meta(
        ge=0.1, le=3600, description="seconds between signs of life; else 15 for events, none for lines"
    ),
]


Leaving = Annotated[
    OnDisconnect,
    msgspec.Meta(
        description="when the caller leaves, what he was sent and did not acknowledge is delivered again"
        " after the consumer's `ack_wait`; with `nak` at once"
    ),
]


class StreamQuery(msgspec.Struct, frozen=True):
    subject: Annotated[list[str], msgspec.Meta(description="only these subjects, wildcards allowed")] = []
    start: Annotated[From, msgspec.Meta(description="unless `seq` or `since` is given")] | None = None
    seq: Sequence | None = None
    since: Since | None = None
    payload: Payload = PayloadForm.AUTO
    heartbeat: Heartbeat | None = None


class ConsumerQuery(msgspec.Struct, frozen=True):
    window: Annotated[
        int, msgspec.Meta(ge=1, le=10_000, description="how many messages to ask the consumer for at once")
    ] = 256
    on_disconnect: Leaving = OnDisconnect.WAIT
    payload: Payload = PayloadForm.AUTO
    heartbeat: Heartbeat | None = None


def _answers(kind: type) -> tuple[Answer, ...]:
    return (
        Answer(
            200,
            "messages, until the caller goes away; a `problem` at the end if something else ended it",
            {NDJSON: kind, EVENTS: {"type": "string"}},
        ),
    )


_ACCEPT: Final = {"Accept": "`text/event-stream` for Server-Sent Events, else NDJSON"}


@section.get(
    "/streams/{stream}/live",
    "Read a stream as it grows",
    query=StreamQuery,
    stream=True,
    headers=_ACCEPT | {"Last-Event-ID": "the id of the last event that arrived: go on behind it"},
    answers=_answers(Message),
    problems=(404, 406, 409, 422),
)
async def read_live(call: Call) -> Reply:
    """Every message once, in stream order, also after lost connections of the gateway. The id of an event is
    the sequence of its message, so `EventSource` continues after a reconnect. A slow reader slows its
    consumer and takes no memory of the gateway. Streams with work-queue retention are refused."""
    query: StreamQuery = call.query
    subjects = [check_filter(subject) for subject in query.subject]
    framing = framing_of(call.accepted(NDJSON, EVENTS), query.heartbeat)
    start = _start(call, query)
    if call.is_head:
        await call.link.api(f"STREAM.INFO.{stream_of(call)}")  # raises if it cannot be read
        return AnswerHead(framing.media_type)
    reading = _Reading(call, subjects, start, query.payload)
    await reading.open()
    return Flow(framing.media_type, await begun(_flow(call, framing, reading)))


@section.get(
    "/streams/{stream}/consumers/{consumer}/live",
    "Read a consumer as messages come",
    query=ConsumerQuery,
    stream=True,
    consumes=True,
    headers=_ACCEPT,
    answers=_answers(DeliveredMessage),
    problems=(404, 406, 409),
)
async def read_consumer_live(call: Call) -> Reply:
    """Messages of a pull consumer, each with its `ack_id` for the acks of this consumer, which may come after
    the caller has disconnected. Messages that were sent and not acknowledged are redelivered after
    `ack_wait`, or with `on_disconnect=nak` as soon as the caller disconnects. Many callers may read the same
    consumer: each message goes to one of them."""
    query: ConsumerQuery = call.query
    framing = framing_of(call.accepted(NDJSON, EVENTS), query.heartbeat)
    session = ConsumerSession(call, window=query.window, on_disconnect=query.on_disconnect)
    if call.is_head:
        await session.look()
        return AnswerHead(framing.media_type)
    await session.open()
    return Flow(
        framing.media_type,
        await begun(_consumer_flow(call, framing, session, query.payload)),
        sent=session.sent,
    )


async def _consumer_flow(
    call: Call, framing: Framing, session: ConsumerSession, form: PayloadForm
) -> AsyncGenerator[bytes, None]:
    delivered = call.core.metrics.delivered.labels("v2")
    try:
        yield b""  # for `begun`
        yield framing.opening()
        while True:
            taken = await session.take(framing.ping_s or 3600)
            if taken:
                yield framing.messages([message_of(message, form) for message in taken])
                delivered.inc(len(taken))
            elif framing.ping_s:
                yield framing.ping()
    except FAILURES as error:
        yield framing.ending(error)
    finally:
        await session.close()


async def _flow(call: Call, framing: Framing, reading: _Reading) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    delivered = call.core.metrics.delivered.labels("v2")
    try:
        yield b""  # for `begun`
        yield framing.opening()
        said = loop.time()
        while True:
            if call.core.stopping.is_set():
                raise Stopping("the gateway is being stopped")
            messages = await reading.take(_STOP_LOOK_S)
            if messages:
                yield framing.messages(messages)
                delivered.inc(len(messages))
            elif framing.ping_s and loop.time() - said >= framing.ping_s:
                yield framing.ping()
            else:
                continue
            said = loop.time()
    except FAILURES as error:
        yield framing.ending(error)
    finally:
        await reading.close()


class _Reading:
    """An ordered consumer whose messages are converted for the answer."""

    def __init__(self, call: Call, subjects: list[str], start: StartAt, form: PayloadForm) -> None:
        self._form = form
        try:
            self._consumer: OrderedConsumer = Client(call.link).ordered(
                stream_of(call),
                subjects=subjects or [">"],
                start=start,
                heartbeat_s=_HEARTBEAT_S,
                buffer_messages=_AT_ONCE * 16,
                buffer_bytes=call.settings.limits.stream_buffer or 256 * 1024,
            )
        except ClientError as error:
            raise error_of_client(error) from error

    async def open(self) -> None:
        """Start; raises errors of the gateway."""
        try:
            await self._consumer.open()
        except ClientError as error:
            raise error_of_client(error) from error

    async def take(self, timeout_s: float) -> list[Message]:
        """Return messages, or none if none came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                messages = await self._consumer.take(_AT_ONCE)
        except TimeoutError:
            return []
        except ClientError as error:
            raise error_of_client(error) from error
        return [self._message(message) for message in messages]

    def _message(self, message: OrderedMessage) -> Message:
        made = Message(
            message.stream,
            message.stream_seq,
            message.subject,
            format_time(message.timestamp_ns),
            to_json(message.headers.items()) if message.headers else {},
        )
        fill_body(made, message.data, self._form)
        return made

    async def close(self) -> None:
        await self._consumer.close()


def _start(call: Call, query: StreamQuery) -> StartAt:
    """Return the start: after the Last-Event-ID, if the caller sent one, or else as the query says."""
    last = call.header("last-event-id")
    if last:
        if not (last.isascii() and last.isdigit() and len(last) < 20):
            raise BadRequest("Last-Event-ID is no sequence")
        return StartAt.by_sequence(int(last) + 1)
    if sum(given is not None for given in (query.start, query.seq, query.since)) > 1:
        raise BadRequest("give one of `start`, `seq` and `since`")
    if query.seq is not None:
        return StartAt.by_sequence(query.seq)
    if query.since is not None:
        return StartAt.by_time(_time(query.since))
    starts: dict[From | None, Any] = {
        From.LAST: StartAt.LAST,
        From.NEW: StartAt.NEW,
        From.LAST_PER_SUBJECT: StartAt.LAST_PER_SUBJECT,
    }
    chosen: StartAt = starts.get(query.start, StartAt.FIRST)
    return chosen


def _time(text: str) -> datetime:
    try:
        microseconds = parse_time(text) // _MICROSECOND
        return datetime.fromtimestamp(0, UTC) + (datetime.resolution * microseconds)
    except (TimeError, ValueError, OverflowError) as error:
        raise BadRequest(f"`since`: {error}") from None
