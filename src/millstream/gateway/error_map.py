"""The one place that says what the HTTP caller sees of an error.

Routes raise what went wrong (`errors`); here it becomes a status and a body: httpmq's envelope under `/v1`
and everywhere else but `/v2`, whose answers are problem details (RFC 9457).
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from millstream.gateway.errors import (
    GatewayError,
    JetStreamOff,
    JetStreamRefused,
    MethodNotAllowed,
    Overloaded,
    Unauthorized,
)

PROBLEM_TYPE: Final = b"application/problem+json"
JSON_TYPE: Final = b"application/json"

# JetStream says 400 or 500 to nearly everything; HTTP can say more.
_STATUS_OF: Final = {
    10058: 409,  # stream name in use
    10065: 409,  # subjects overlap
    10013: 409,  # consumer name in use
    10148: 409,  # consumer already exists
    10105: 409,  # consumer exists as another kind
    10071: 412,  # wrong last sequence
    10054: 413,  # message size exceeds maximum allowed
    10077: 507,  # maximum messages, bytes or consumers reached
    10047: 507,  # insufficient storage resources
}

Headers = list[tuple[bytes, bytes]]


class Outcome(msgspec.Struct):
    """An error as HTTP tells it."""

    status: int
    title: str
    detail: str = ""
    err_code: int = 0
    headers: Headers = []


def outcome_of(error: BaseException, challenge: str = "") -> Outcome:
    """What to tell; of an error that nobody expected, nothing but that it happened."""
    if isinstance(error, JetStreamRefused):
        status = _STATUS_OF.get(error.err_code, error.code if 400 <= error.code <= 599 else 500)
        return Outcome(status, error.title, error.description, error.err_code)
    if not isinstance(error, GatewayError):
        return Outcome(500, GatewayError.title)
    detail = error.advice if isinstance(error, JetStreamOff) else str(error)
    outcome = Outcome(error.status, error.title, detail)
    if isinstance(error, MethodNotAllowed):
        outcome.headers = [(b"allow", ", ".join(error.allowed).encode())]
    elif isinstance(error, Unauthorized) and challenge:
        outcome.headers = [(b"www-authenticate", challenge.encode())]
    elif isinstance(error, Overloaded):
        outcome.headers = [(b"retry-after", str(max(1, math.ceil(error.retry_after_s))).encode())]
    return outcome


def envelope(request_id: str, code: int, message: str, detail: str) -> bytes:
    """httpmq's failure; empty texts are left out."""
    error: dict[str, Any] = {"code": code}
    if message:
        error["message"] = message
    if detail:
        error["detail"] = detail
    return ascii_json({"success": False, "request_id": request_id, "error": error})


def problem(request_id: str, outcome: Outcome, instance: str) -> bytes:
    """Problem details as one line, with JetStream's number when it was JetStream that refused."""
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
    """Compact, and ASCII only: httpmq's client breaks on characters that a chunk's end cuts in two."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii():
        return encoded
    return b"".join(
        character.encode() if character.isascii() else _escaped(character) for character in encoded.decode()
    )


def _escaped(character: str) -> bytes:
    units = character.encode("utf-16-be")
    return b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
