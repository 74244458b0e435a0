"""Checks of requests, and their ASGI scope; httptools, h2 and wsproto check the rest.

HTTP/1.1   exactly one Host; no Transfer-Encoding but `chunked`, and none with HTTP/1.0: what one
           server takes for the end of a request, another must not take for its middle
targets    no fragment; `*` and absolute addresses become paths as ASGI wants them
"""

from __future__ import annotations

from typing import Any, Final

import httptools

from millstream.base.errors import MillstreamError
from millstream.http.asgi import Pair, Scope

_LOOKED_AT: Final = frozenset((b"host", b"transfer-encoding", b"expect", b"upgrade", b"http2-settings"))
_VERSIONS: Final = ("1.1", "1.0")
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class BadHttpRequest(MillstreamError):
    """Raised for a request that is refused with `status`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Wishes:
    """The requests of an HTTP/1.1 head to the connection: keep-alive, upgrade, continue."""

    __slots__ = ("expects_continue", "settings", "upgrade")

    def __init__(self) -> None:
        self.expects_continue = False
        self.upgrade = b""  # in lower case
        self.settings: bytes | None = None  # HTTP2-Settings of an upgrade to HTTP/2


def read_wishes(version: str, headers: list[Pair]) -> Wishes:
    """Read and check the headers that control the connection; raises BadHttpRequest."""
    if version not in _VERSIONS:
        raise BadHttpRequest(505, f"HTTP/{version} is not spoken here")
    wishes = Wishes()
    hosts = 0
    for name, value in headers:
        if name not in _LOOKED_AT:
            continue
        if name == b"host":
            hosts += 1
        elif name == b"expect":
            wishes.expects_continue = value.lower() == b"100-continue" and version == "1.1"
        elif name == b"upgrade":
            wishes.upgrade = value.lower()
        elif name == b"http2-settings":
            wishes.settings = value
        elif version == "1.0" or value.lower() != b"chunked":
            raise BadHttpRequest(400, "the only Transfer-Encoding is chunked, of HTTP/1.1")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise BadHttpRequest(400, "a request has one Host header")
    return wishes


def framing_of(headers: list[Pair]) -> bytes:
    """Return the header line that frames the body, or an empty one if there is no body."""
    for name, value in headers:
        if name in (b"content-length", b"transfer-encoding"):
            return b"%b: %b" % (name, value)
    return b""


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return path and query as they were sent; raises BadHttpRequest."""
    if b"#" in target:
        raise BadHttpRequest(400, "a target has no fragment")
    if not target.startswith(b"/") and b"://" in target:
        try:
            url = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError:
            raise BadHttpRequest(400, "the target cannot be read") from None
        return url.path or b"/", url.query or b""
    path, _, query = target.partition(b"?")
    return path, query


def make_scope(
    kind: str,
    version: str,
    method: str,
    scheme: str,
    target: bytes,
    headers: list[Pair],
    client: tuple[str, int] | None,
    server: tuple[str, int] | None,
    extensions: dict[str, Any],
) -> Scope:
    """Return the scope of a request; raises BadHttpRequest if its target is invalid."""
    raw, query = split_target(target)
    path = raw.decode("latin-1")
    if "%" in path:
        from urllib.parse import unquote  # not at the top: few paths need it, and a server starts without

        path = unquote(path)
    scope: Scope = {
        "type": kind,
        "asgi": _ASGI,
        "http_version": version,
        "server": server,
        "client": client,
        "scheme": scheme,
        "method": method,
        "root_path": "",
        "path": path,
        "raw_path": raw,
        "query_string": query,
        "headers": headers,
        "extensions": extensions,
    }
    if kind == "websocket":
        del scope["method"]
        scope["scheme"] = "wss" if scheme == "https" else "ws"
        scope["subprotocols"] = [
            word.strip()
            for name, value in headers
            if name == b"sec-websocket-protocol"
            for word in value.decode("latin-1").split(",")
        ]
    return scope
