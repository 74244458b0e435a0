"""httpmq's envelope: how its routes say yes and no."""

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
    """As JSON; ids and names seldom need more than quotes."""
    return f'"{text}"' if _PLAIN.fullmatch(text) else ascii_json(text).decode()


async def succeed(exchange: Exchange, **extra: Any) -> None:
    body: dict[str, Any] = {"success": True, "request_id": exchange.request_id, **extra}
    await exchange.answer(200, ascii_json(body))


async def refuse(exchange: Exchange, status: int, message: str, detail: str, code: int = 0) -> None:
    """`code` is the one in the body, where httpmq has another there."""
    body = envelope(exchange.request_id, code or status, message, detail)
    await exchange.answer(status, body, JSON_TYPE)


async def refuse_for(
    exchange: Exchange, core: Core, message: str, error: Exception, status: int = 500, code: int = 0
) -> None:
    """What httpmq says to any failure of its backend, or with relaxed statuses what HTTP has for it.

    What httpmq does not know (credentials, limits, bodies that are too large) is told in HTTP's words.
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
