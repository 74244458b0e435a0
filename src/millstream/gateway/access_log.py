"""One line for each request, for people or as JSON.

Neither bodies nor query strings are written, and of headers only those that the settings allow: credentials
do not get here.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from millstream.gateway.exchange import Exchange
from millstream.gateway.settings import Logging

_LOG: Final = logging.getLogger("millstream.gateway.access")


class AccessLog:
    """Writes when the settings ask for it."""

    def __init__(self, settings: Logging) -> None:
        self.enabled = settings.access
        self._json = settings.json
        self._headers = settings.headers
        self._secret = {name.lower().encode() for name in settings.do_not_log_headers} | {
            b"authorization",
            b"proxy-authorization",
            b"cookie",
        }

    def write(self, exchange: Exchange, route: str, seconds: float) -> None:
        scope = exchange.scope
        client = scope.get("client")
        entry: dict[str, Any] = {
            "request_id": exchange.request_id,
            "client": client[0] if client else "",
            "caller": exchange.caller.name,
            "method": scope.get("method", "GET"),
            "path": scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1"),
            "route": route,
            "http": scope.get("http_version", ""),
            "status": exchange.status,
            "bytes": exchange.sent_bytes,
            "ms": round(seconds * 1000, 3),
        }
        if self._headers:
            entry["headers"] = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in scope["headers"]
                if name not in self._secret
            }
        if self._json:
            _LOG.info("%s", msgspec.json.encode(entry).decode())
        else:
            _LOG.info("%s", " ".join(f"{key}={_quoted(value)}" for key, value in entry.items()))


def _quoted(value: object) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and not any(sign in text for sign in ' "=')
    return text if plain and text else ascii(text).replace("\n", "\\n")
