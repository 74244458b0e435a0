"""A message whose publisher wants to know what becomes of it: what a stream tells, in nats-server's words.

See ``broker.message_trace``.  That the message is stored does not mean that it is durable: the answer to the
publisher does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from millrace.jetstream.incoming import Incoming
from millrace.jsapi import headers as names
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.json_text import quoted
from millrace.protocol import headers
from millrace.store.errors import StoreError

if TYPE_CHECKING:
    from millrace.jetstream.stream import Stream
    from millrace.protocol.parser import Frame

_DUPLICATE: Final = "msgid is duplicate"
_TEXTS: Final = {
    Err.MESSAGE_EXCEEDS_MAXIMUM: "maximum payload exceeded",
    Err.MESSAGE_TTL_DISABLED: "message TTL disabled",
}


def trace_publish(stream: Stream, subject: bytes, frame: Frame, only: bool) -> dict[str, Any]:
    """Store a message, or `only` look whether that would be done; what there is to tell about it."""
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
            error = ApiError(Err.STREAM_STORE_FAILED, err=str(error))
        stream.publishing.refuse(message.reply, error)
        if error.err is Err.STREAM_STORE_FAILED:  # all but the room for it was there
            told["subject"] = message.subject.decode(errors="replace")
        return told | {"error": _words(error, message.block)}
    told["subject"] = message.subject.decode(errors="replace")
    return told | {"nointerest": not stream.has_interest(message.subject)}


def _words(error: ApiError, block: bytes) -> str:
    """Traces say some things more exactly than answers do."""
    found = error.description.rpartition(": ")[2]
    if error.err is Err.WRONG_LAST_SEQUENCE:
        expected = headers.find(block, names.EXPECTED_LAST_SUBJECT_SEQUENCE.encode())
        if expected and expected != found.encode():
            return f"last sequence by subject mismatch: {expected.decode()} vs {found}"
        expected = headers.find(block, names.EXPECTED_LAST_SEQUENCE.encode()) or b""
        return f"last sequence mismatch: {expected.decode(errors='replace')} vs {found}"
    if error.err is Err.WRONG_LAST_MSG_ID:
        expected = headers.find(block, names.EXPECTED_LAST_MSG_ID.encode()) or b""
        return f"last msgid mismatch: {quoted(expected.decode(errors='replace'))} vs {quoted(found)}"
    return _TEXTS.get(error.err, error.description)
