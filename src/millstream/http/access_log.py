"""The access log: one line for each request, as text or as JSON.

Bodies and query strings are never logged, and headers only if the settings allow them, so credentials do not
reach the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from millstream.http.asgi import Scope

_ALWAYS_SECRET: Final = (b"authorization", b"proxy-authorization", b"cookie")


class AccessLog:
    """Writes access lines to `log`; with `headers`, includes the request headers that are not `secret`."""

    def __init__(
        self, log: logging.Logger, *, as_json: bool = False, headers: bool = False, secret: Iterable[str] = ()
    ) -> None:
        self._log = log
        self._json = as_json
        self._headers = headers
        self._secret = {*(name.lower().encode() for name in secret), *_ALWAYS_SECRET}

    def write(
        self,
        scope: Scope,
        status: int,
        sent: int,
        seconds: float,
        *,
        request_id: str,
        caller: str,
        route: str,
    ) -> None:
        """Log a request that was answered with `sent` bytes."""
        client = scope.get("client")
        entry: dict[str, Any] = {
            "request_id": request_id,
            "client": client[0] if client else "",
            "caller": caller,
            "method": scope.get("method", "GET"),
            "path": scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1"),
            "route": route,
            "http": scope.get("http_version", ""),
            "status": status,
            "bytes": sent,
            "ms": round(seconds * 1000, 3),
        }
        if self._headers:
            entry["headers"] = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in scope["headers"]
                if name not in self._secret
            }
        if self._json:
            self._log.info("%s", msgspec.json.encode(entry).decode())
        else:
            self._log.info("%s", " ".join(f"{key}={_quoted(value)}" for key, value in entry.items()))


def _quoted(value: object) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and not any(sign in text for sign in ' "=')
    return text if plain and text else ascii(text).replace("\n", "\\n")
