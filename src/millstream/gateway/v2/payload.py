"""Messages in JSON, in one form for reading and publishing.

The body of a message is bytes.  In JSON it is exactly one of

    "data":   a string, the body in UTF-8
    "json":   any value, the body is its JSON
    "base64": a string, for bodies that are neither

so a message that was read can be published again unchanged.  Without any of them the body is empty.
"""

import base64
import binascii
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.gateway.errors import BadRequest
from millstream.gateway.v2.ack_ids import ack_id_of
from millstream.gateway.v2.message_headers import JsonHeaders
from millstream.golang.time import format_time
from millstream.protocol.ack_subject import AckSubject


class PayloadForm(StrEnum):
    """The form of bodies in answers."""

    AUTO = "auto"  # data if it is UTF-8, base64 otherwise
    JSON = "json"  # json if it is JSON, otherwise as AUTO
    TEXT = "text"  # data, with U+FFFD where it is not UTF-8
    BASE64 = "base64"
    NONE = "none"  # not at all


class Message(msgspec.Struct, omit_defaults=True):
    """A message of a stream."""

    stream: str
    seq: Annotated[int, msgspec.Meta(ge=0, description="stream sequence")]
    subject: str
    time: Annotated[str, msgspec.Meta(description="when it was stored, RFC 3339 with nanoseconds")]
    headers: JsonHeaders = msgspec.field(default_factory=dict)
    data: str | msgspec.UnsetType = msgspec.UNSET
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET


class DeliveredMessage(Message, omit_defaults=True):
    """A message as a consumer delivered it."""

    consumer: str = ""
    consumer_seq: int = 0
    delivered: Annotated[int, msgspec.Meta(description="how often, this time included")] = 0
    pending: Annotated[int, msgspec.Meta(description="messages after this one")] = 0
    ack_id: Annotated[str, msgspec.Meta(description="what it is acknowledged by, at any gateway")] = ""


class Outgoing(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The body and headers of a message to publish."""

    headers: JsonHeaders = msgspec.field(default_factory=dict)
    data: str | msgspec.UnsetType = msgspec.UNSET
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET

    def body(self) -> bytes:
        """Return the bytes of the body."""
        return body_of(self.data, self.json, self.base64)


class HasBody(Protocol):
    """A struct with a body in one of the three forms."""

    data: str | msgspec.UnsetType
    json: msgspec.Raw | msgspec.UnsetType
    base64: str | msgspec.UnsetType


_any_json: Final = msgspec.json.Decoder()


def body_of(
    data: str | msgspec.UnsetType, json: msgspec.Raw | msgspec.UnsetType, base64_text: str | msgspec.UnsetType
) -> bytes:
    """Return the bytes of a body in one of the three forms; 400 if it has more than one."""
    unset = msgspec.UNSET
    if data is not unset and json is unset and base64_text is unset:
        return data.encode(errors="surrogatepass")
    if json is not unset and data is unset and base64_text is unset:
        return bytes(json)
    if base64_text is not unset and data is unset and json is unset:
        return decode_base64(base64_text)
    if data is unset and json is unset and base64_text is unset:
        return b""
    raise BadRequest("a message has one of `data`, `json` and `base64`")


def decode_base64(text: str | bytes) -> bytes:
    """Return the bytes of standard base64, which may have line ends; 400 if it is invalid."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"not base64: {error}") from None


def fill_body(message: HasBody, body: bytes, form: PayloadForm) -> None:
    """Set the field of `message` for `body`."""
    if form is PayloadForm.NONE:
        return
    if form is PayloadForm.JSON and body and _is_json(body):
        message.json = msgspec.Raw(body)
        return
    if form is not PayloadForm.BASE64:
        try:
            message.data = body.decode()
            return
        except UnicodeDecodeError:
            if form is PayloadForm.TEXT:
                message.data = body.decode(errors="replace")
                return
    message.base64 = base64.b64encode(body).decode()


def _is_json(body: bytes) -> bool:
    try:
        _any_json.decode(body)
    except UNREADABLE_JSON:
        return False
    # NDJSON and SSE need one line; JSON itself allows ends of lines between values.
    return b"\n" not in body and b"\r" not in body


def stored_message(
    stream: str,
    seq: int,
    subject: str,
    time: str,
    headers: JsonHeaders,
    body: bytes,
    form: PayloadForm,
) -> Message:
    message = Message(stream, seq, subject, time, headers)
    fill_body(message, body, form)
    return message


def delivered_message(
    delivery: AckSubject, subject: str, headers: JsonHeaders, body: bytes, form: PayloadForm
) -> DeliveredMessage:
    message = DeliveredMessage(
        delivery.stream,
        delivery.stream_seq,
        subject,
        format_time(delivery.timestamp_ns),
        headers,
        consumer=delivery.consumer,
        consumer_seq=delivery.consumer_seq,
        delivered=delivery.delivered,
        pending=delivery.pending,
        ack_id=ack_id_of(delivery),
    )
    fill_body(message, body, form)
    return message


encode: Final = msgspec.json.Encoder().encode


def to_json(value: Any) -> bytes:
    """Return the JSON of an answer."""
    return encode(value)
