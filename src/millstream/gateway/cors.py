"""Cross-origin requests: the headers of answers to pages of other origins."""

from __future__ import annotations

from typing import Final

from millstream.gateway.exchange import Exchange
from millstream.gateway.origins import parse_origin
from millstream.gateway.settings import Cors

_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_ALLOWED: Final = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "Idempotency-Key",
    "Last-Event-ID",
)
_EXPOSED: Final = ("ETag", "Retry-After", "Location")

Headers = list[tuple[bytes, bytes]]


class CrossOrigin:
    """Headers for callers whose `Origin` is in the settings; browsers block the others."""

    def __init__(self, settings: Cors, request_id_header: str) -> None:
        self.enabled = bool(settings.origins)
        self._any = "*" in settings.origins
        self._origins = frozenset(
            origin for text in settings.origins if (origin := parse_origin(text)) is not None
        )
        self._opaque = "null" in settings.origins
        self._credentials = settings.credentials
        self._max_age = str(settings.max_age_s).encode()
        self._allowed = ", ".join((*_ALLOWED, request_id_header, *settings.headers)).encode()
        self._exposed = ", ".join((*_EXPOSED, request_id_header)).encode()

    def headers_for(self, origin: str) -> Headers:
        """Return the CORS headers of an answer."""
        if not origin or not (self._any or self._is_named(origin)):
            return [(b"vary", b"Origin")]
        named = b"*" if self._any else origin.encode("latin-1")
        headers = [
            (b"access-control-allow-origin", named),
            (b"access-control-expose-headers", self._exposed),
            (b"vary", b"Origin"),
        ]
        if self._credentials:
            headers.append((b"access-control-allow-credentials", b"true"))
        return headers

    def _is_named(self, origin: str) -> bool:
        return parse_origin(origin) in self._origins or (self._opaque and origin == "null")

    def is_preflight(self, exchange: Exchange) -> bool:
        return exchange.method == "OPTIONS" and bool(exchange.header(b"access-control-request-method"))

    async def answer_preflight(self, exchange: Exchange) -> None:
        """Answer a browser's preflight request."""
        allowed = any(name == b"access-control-allow-origin" for name, _ in exchange.extra_headers)
        headers = (
            [
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", self._allowed),
                (b"access-control-max-age", self._max_age),
            ]
            if allowed
            else []
        )
        await exchange.send({"type": "http.response.start", "status": 204, "headers": headers})
        await exchange.send({"type": "http.response.body", "body": b""})
