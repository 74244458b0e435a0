"""The mapping of errors to HTTP answers.

Routes raise exceptions (`errors`); here each becomes a status and a body: problem details (RFC 9457) under
`/v2`, and httpmq's envelope everywhere else.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from millstream.gateway.errors import (
    GatewayError,
    MethodNotAllowed,
    Overloaded,
    RangeNotSatisfiable,
    Unauthorized,
)
from millstream.jsapi.errors import Err
from millstream.link.errors import (
    BadMessage,
    ConnectionLost,
    JetStreamOff,
    LinkApiError,
    LinkError,
    MessageTooLarge,
    NoResponders,
    NotConnected,
    PermissionViolation,
    RequestTimeout,
)

PROBLEM_TYPE: Final = b"application/problem+json"
JSON_TYPE: Final = b"application/json"

# JetStream uses 400 or 500 for nearly everything; HTTP has more specific statuses.
_STATUS_OF: Final = {
    Err.STREAM_NAME_IN_USE: 409,
    Err.STREAM_SUBJECT_OVERLAP: 409,
    Err.CONSUMER_NAME_IN_USE: 409,
    Err.CONSUMER_ALREADY_EXISTS: 409,
    Err.CONSUMER_EXISTING_ACTIVE: 409,
    Err.WRONG_LAST_SEQUENCE: 412,
    Err.MESSAGE_EXCEEDS_MAXIMUM: 413,
    Err.STREAM_STORE_FAILED: 507,
    Err.STORAGE_RESOURCES_EXCEEDED: 507,
}

# Errors between the gateway and NATS; the first matching type counts.
_LINK_ERRORS: Final[tuple[tuple[type[LinkError], int, str], ...]] = (
    (JetStreamOff, 503, "JetStream Is Off"),
    (NoResponders, 404, "No Responders"),
    (RequestTimeout, 504, "NATS Did Not Answer"),
    (PermissionViolation, 403, "Permissions Violation"),
    (MessageTooLarge, 413, "Payload Too Large"),
    (BadMessage, 400, "Bad Request"),
    (LinkError, 503, "No Connection To NATS"),
)

Headers = list[tuple[bytes, bytes]]


class Outcome(msgspec.Struct):
    """The status, title and detail of an error."""

    status: int
    title: str
    detail: str = ""
    err_code: int = 0
    headers: Headers = []


def outcome_of(error: BaseException, challenge: str = "") -> Outcome:
    """Return the outcome of an error; an unexpected error reveals no details."""
    if isinstance(error, LinkApiError):
        code = error.code if 400 <= error.code <= 599 else 500
        status = _STATUS_OF.get(error.err, code) if error.err is not None else code
        return Outcome(status, "Refused By JetStream", error.description, error.err_code)
    if isinstance(error, LinkError):
        status, title = next(each[1:] for each in _LINK_ERRORS if isinstance(error, each[0]))
        return Outcome(status, title, str(error) if isinstance(error, NoResponders) else text_of(error))
    if not isinstance(error, GatewayError):
        return Outcome(500, GatewayError.title)
    outcome = Outcome(error.status, error.title, str(error))
    if isinstance(error, MethodNotAllowed):
        outcome.headers = [(b"allow", ", ".join(error.allowed).encode())]
    elif isinstance(error, RangeNotSatisfiable):
        outcome.headers = [(b"content-range", b"bytes */%d" % error.size)]
    elif isinstance(error, Unauthorized) and challenge:
        outcome.headers = [(b"www-authenticate", challenge.encode())]
    elif isinstance(error, Overloaded):
        outcome.headers = [(b"retry-after", str(max(1, math.ceil(error.retry_after_s))).encode())]
    return outcome


def text_of(error: BaseException) -> str:
    """Return the text of a failure, in nats.go's words where httpmq has them; never the address of NATS."""
    match error:
        case LinkApiError():
            return error.description
        case JetStreamOff():
            return "nats: jetstream not enabled"
        case NoResponders():
            return "nats: no responders available for request"
        case MessageTooLarge():
            return "nats: maximum payload exceeded"
        case PermissionViolation():
            return f"nats: {error}"
        case ConnectionLost():
            return "the connection to NATS was lost before the answer came"
        case NotConnected():
            return "there is no connection to NATS"
    return str(error)


def envelope(request_id: str, code: int, message: str, detail: str) -> bytes:
    """Return httpmq's failure envelope; empty texts are left out."""
    error: dict[str, Any] = {"code": code}
    if message:
        error["message"] = message
    if detail:
        error["detail"] = detail
    return ascii_json({"success": False, "request_id": request_id, "error": error})


def problem(request_id: str, outcome: Outcome, instance: str) -> bytes:
    """Return problem details as one line, with JetStream's error code if JetStream refused."""
    members: dict[str, Any] = {
        "type": "about:blank",
        "title": outcome.title,
        "status": outcome.status,
        "detail": outcome.detail,
        "instance": instance,
        "request_id": request_id,
    }
    if outcome.err_code:
        members["err_code"] = outcome.err_code
    return msgspec.json.encode(members) + b"\n"


def ascii_json(value: object) -> bytes:
    """Return compact JSON in ASCII: httpmq's client fails on characters that are split between chunks."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii():
        return encoded
    return b"".join(
        character.encode() if character.isascii() else _escaped(character) for character in encoded.decode()
    )


def _escaped(character: str) -> bytes:
    units = character.encode("utf-16-be")
    return b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
