"""httpmq's envelope for successes and failures."""

from __future__ import annotations

import re
from typing import Any, Final

from millstream.gateway.core import Core
from millstream.gateway.error_map import JSON_TYPE, ascii_json, envelope, outcome_of, text_of
from millstream.gateway.errors import (
    BodyTimeout,
    BodyTooLarge,
    Overloaded,
    Unauthorized,
)
from millstream.gateway.exchange import Exchange
from millstream.link.errors import JetStreamOff, PermissionViolation

_NOT_OF_HTTPMQ: Final = (Unauthorized, PermissionViolation, Overloaded, BodyTooLarge, BodyTimeout)
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/+-]*")


def quoted(text: str) -> str:
    """Return a JSON string; fast for texts that need no escapes, as most ids and names do not."""
    return f'"{text}"' if _PLAIN.fullmatch(text) else ascii_json(text).decode()


async def succeed(exchange: Exchange, **extra: Any) -> None:
    body: dict[str, Any] = {"success": True, "request_id": exchange.request_id, **extra}
    await exchange.answer(200, ascii_json(body))


async def refuse(exchange: Exchange, status: int, message: str, detail: str, code: int = 0) -> None:
    """Send a failure; `code` is the status in the body, if httpmq has another one there."""
    body = envelope(exchange.request_id, code or status, message, detail)
    await exchange.answer(status, body, JSON_TYPE)


async def refuse_for(
    exchange: Exchange, core: Core, message: str, error: Exception, status: int = 500, code: int = 0
) -> None:
    """Send httpmq's answer to a failure of its backend, or with relaxed statuses the specific HTTP status.

    Failures that httpmq does not have (credentials, limits, oversized bodies) get their HTTP status.
    """
    if isinstance(error, _NOT_OF_HTTPMQ):
        raise error
    if core.settings.strict:
        await refuse(exchange, status, message, text_of(error), code)
        return
    outcome = outcome_of(error)
    detail = outcome.detail if isinstance(error, JetStreamOff) else text_of(error)
    body = envelope(exchange.request_id, outcome.status, message, detail)
    await exchange.answer(outcome.status, body, JSON_TYPE, outcome.headers)
