"""Publishing one message, with or without a stream, and sending a request.

The body of the HTTP request is the body of the message, byte for byte and with any content type.  The
exceptions are the media type of the envelope and `encoding=base64`.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from millstream.gateway.errors import BadRequest
from millstream.gateway.link import CallerLink
from millstream.gateway.tracing import HEADER, publishing
from millstream.gateway.v2.calls import Call, Reply, Whole, answer, decode
from millstream.gateway.v2.media_types import passive_type
from millstream.gateway.v2.message_headers import (
    from_http,
    from_json,
    refuse_batches,
    to_http,
)
from millstream.gateway.v2.names import check_header_reach, check_reach, check_subject
from millstream.gateway.v2.operations import ANY, BYTES, Answer, Body, Section, Tag, json_answer
from millstream.gateway.v2.payload import Outgoing, decode_base64
from millstream.jsapi import headers as jetstream
from millstream.link.errors import NoResponders, RequestTimeout
from millstream.link.publish_window import PubAck
from millstream.protocol.headers import Pairs, make_text

section: Final = Section(Tag.PUBLISHING)

ENVELOPE: Final = "application/vnd.millstream.message+json"
_LONGEST_S: Final = 300
_PATIENCE_S: Final = 2.0  # seconds for the server to confirm a message that is not stored

Timeout = Annotated[float, msgspec.Meta(gt=0, le=_LONGEST_S, description="how many seconds to wait")]


class Encoding(StrEnum):
    """The encoding of the body of the request."""

    RAW = "raw"
    BASE64 = "base64"


class Ack(StrEnum):
    """The confirmation that a publish waits for."""

    STREAM = "stream"
    NONE = "none"


class PublishQuery(msgspec.Struct, frozen=True):
    ack: Annotated[
        Ack, msgspec.Meta(description="`none` is plain NATS: sent to whoever listens, stored or not")
    ] = Ack.STREAM
    encoding: Annotated[Encoding, msgspec.Meta(description="of the body")] = Encoding.RAW
    timeout: Timeout | None = None


class RequestQuery(msgspec.Struct, frozen=True):
    encoding: Annotated[Encoding, msgspec.Meta(description="of the body")] = Encoding.RAW
    timeout: Timeout | None = None


_HEADERS: Final = {
    "Idempotency-Key": "the same as `Nats-Msg-Id`: a second message with it is stored only once",
    "Nats-Msg-Id": "identifies the message within the duplicate window of the stream",
    "Nats-Expected-Stream": "store it only in this stream; else 412",
    "Nats-Expected-Last-Sequence": "store it only behind this sequence; else 412",
    "Nats-Expected-Last-Subject-Sequence": "store it only if its subject's last sequence is this; else 412",
    "Nats-Expected-Last-Msg-Id": "store it only behind the message with this Nats-Msg-Id; else 412",
    "traceparent": "a W3C trace context: with `gateway.otel`, the message continues a sampled trace",
    "Nats-TTL": "how long the stream keeps it, `60s` for example; if the stream allows it",
}
_BODY: Final = Body(
    {ANY: {"type": "string", "format": "binary"}, ENVELOPE: Outgoing},
    "the bytes of the message, of any content type; or an envelope with body and headers",
    required=False,
)


@section.post(
    "/subjects/{subject}",
    "Publish a message",
    query=PublishQuery,
    headers=_HEADERS,
    body=_BODY,
    answers=(
        json_answer(200, "it is stored: the PubAck", PubAck),
        Answer(202, "it was sent to whoever listens (`ack=none`)"),
    ),
    problems=(404, 409, 412, 422),
)
async def publish(call: Call) -> Reply:
    """The body is stored unchanged. `Nats-*` headers are headers of the message, others are written as
    `Millstream-Header-<Name>`. 404 means that no stream stores this subject. 504 means that it is not known
    whether the message was stored: repeat it with the same `Idempotency-Key`."""
    query: PublishQuery = call.query
    subject, body, headers = await _message(call, query.encoding)
    refuse_batches(headers)
    with publishing(call.core.spans, call.header(HEADER), subject, headers, len(body)):
        if query.ack is Ack.NONE:
            await send(call.link, subject, body, headers)
            return Whole(202)
        try:
            ack = await call.link.store(subject, body, make_text(headers), query.timeout or 0)
        except NoResponders:
            raise NoResponders(f"no stream stores {subject}") from None
    call.core.published_v2.inc()
    return answer(ack)


@section.post(
    "/requests/{subject}",
    "Ask, and get the answer",
    query=RequestQuery,
    body=_BODY,
    answers=(
        Answer(
            200,
            "the body of the answer; its headers as `Nats-*` and `Millstream-Header-*`",
            {BYTES: {"type": "string", "format": "binary"}},
        ),
    ),
    problems=(404,),
)
async def request(call: Call) -> Reply:
    """Sends the message to the subscribers of the subject and waits for one answer: 404 if there is no
    subscriber, 504 if no answer came in time. An answer with a `Content-Type` header is sent with that type,
    unless browsers would run or render it: HTML, for example, is only named in
    `Millstream-Header-Content-Type`."""
    query: RequestQuery = call.query
    subject, body, headers = await _message(call, query.encoding)
    work = call.link.request(subject, body, headers, query.timeout)
    try:
        message = await call.while_there(work)
    except NoResponders:
        raise NoResponders(f"nobody listens on {subject}") from None
    told = message.headers
    media_type = passive_type(told.get("Content-Type", BYTES))
    if media_type == told.get("Content-Type"):
        del told["Content-Type"]
    return Whole(200, message.payload, media_type, to_http(told.items()))


async def _message(call: Call, encoding: Encoding) -> tuple[str, bytes, Pairs]:
    subject = check_subject(call.path["subject"])
    check_reach(subject, call.settings)
    headers = from_http(call.raw_headers)
    if key := call.header("idempotency-key"):
        present = [value for name, value in headers if name == jetstream.MSG_ID]
        if present and present != [key]:
            raise BadRequest("Idempotency-Key and Nats-Msg-Id are not the same")
        if not present:
            headers.append((jetstream.MSG_ID, key))
    body = await call.body()
    if call.media_type == ENVELOPE:
        envelope = decode(body, Outgoing)
        if encoding is not Encoding.RAW:
            raise BadRequest("an envelope says itself how its body is written")
        headers += from_json(envelope.headers)
        check_header_reach(headers, call.settings)
        return subject, envelope.body(), headers
    check_header_reach(headers, call.settings)
    if encoding is Encoding.BASE64:
        body = decode_base64(body)
    return subject, body, headers


async def send(link: CallerLink, subject: str, body: bytes, headers: Pairs) -> None:
    """Publish without waiting for a stream."""
    link.publish(subject, body, headers=headers)
    with contextlib.suppress(RequestTimeout):
        await link.flush(_PATIENCE_S)
