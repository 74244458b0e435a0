"""Publish a traced message and return what the stream did with it, in nats-server's words.

See ``broker.message_trace``.  A stored message need not be durable yet: the ack to the publisher means that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from millstream.golang.quote import quoted
from millstream.jetstream.publish.candidate import Incoming
from millstream.jsapi.errors import ApiError, Err
from millstream.store.errors import StoreError, client_text

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream
    from millstream.protocol.parser import Frame

_DUPLICATE: Final = "msgid is duplicate"
_TOO_LARGE: Final = "maximum payload exceeded"
_TEXTS: Final = {
    Err.MESSAGE_EXCEEDS_MAXIMUM: _TOO_LARGE,
    Err.HEADER_EXCEEDS_MAXIMUM: _TOO_LARGE,
    Err.MESSAGE_TTL_DISABLED: "message TTL disabled",
}
# Where the reference has a text, and not an error of the API with its number.
_PLAIN: Final = (Err.EXPECTED_STREAM_MISMATCH, Err.STREAM_ROLLUP_FAILED, Err.STREAM_STORE_FAILED)
# What is found out when it is clear under which subject the message would be stored.
_LATE: Final = (Err.STREAM_STORE_FAILED, Err.ACCOUNT_RESOURCES_EXCEEDED, Err.MESSAGE_TTL_INVALID)


def trace_publish(stream: Stream, subject: bytes, frame: Frame, only: bool) -> dict[str, Any]:
    """Store a message, or `only` check whether it would be stored; return the trace."""
    arrival = stream.spans.begin(subject, frame) if stream.spans is not None and not only else None
    try:
        return _publish(stream, subject, frame, only)
    finally:
        if arrival is not None and stream.spans is not None:
            stream.spans.end(arrival)


def _publish(stream: Stream, subject: bytes, frame: Frame, only: bool) -> dict[str, Any]:
    message = Incoming(subject, frame.reply(), frame.headers(), frame.payload())
    told: dict[str, Any] = {"stream": stream.name}
    if stream.backlogged:
        stream.publishing.publish(subject, message.reply, message.block, message.payload)  # refuses it
        return told | {"error": ApiError(Err.TOO_MANY_REQUESTS).description}
    try:
        if not stream.publishing.attempt(message, store=not only):
            return told | {"error": _DUPLICATE}
    except (ApiError, StoreError) as failure:
        error = failure
        if isinstance(error, StoreError):
            error = ApiError(Err.STREAM_STORE_FAILED, err=client_text(error))
        stream.publishing.refuse(message.reply, error)
        if error.err in _LATE:
            told["subject"] = message.subject.decode(errors="replace")
        return told | {"error": _words(error)}
    told["subject"] = message.subject.decode(errors="replace")
    return told | {"nointerest": not stream.has_interest(message.subject)}


def _words(error: ApiError) -> str:
    """Return the text of an error in traces, which differs from that in responses."""
    found = error.fields
    match error.err:
        case Err.WRONG_LAST_SEQUENCE if "of_subject" in found:
            return f"last sequence by subject mismatch: {found['of_subject']} vs {found['seq']}"
        case Err.WRONG_LAST_SEQUENCE:
            return f"last sequence mismatch: {found.get('of_stream')} vs {found['seq']}"
        case Err.WRONG_LAST_MSG_ID:
            return f"last msgid mismatch: {quoted(str(found['expected']))} vs {quoted(str(found['id']))}"
    if error.err in _TEXTS:
        return _TEXTS[error.err]
    return error.description if error.err in _PLAIN else f"{error.description} ({error.code})"
