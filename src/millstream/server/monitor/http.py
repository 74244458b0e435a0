"""Documents over HTTP/1.1; one handler answers every request, whatever its method, as in nats-server.

A body is read and ignored.  `millstream.http` has the protocol, the limits and the clock.

Invariant:  a client holds a bounded amount of memory (the head of a request, one response) for a bounded
time (to send a head, to take a response, to stay idle).
``routes`` maps paths to documents.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from millstream.http.asgi import CALLER, Receive, Scope, Send, WaitingCaller
from millstream.http.limits import HttpLimits
from millstream.http.listener import HttpListener, plain_refusal

_log = logging.getLogger("millstream.monitor")

MAX_CLIENTS: Final = 1024  # leaves file descriptors for NATS clients
MAX_HEAD: Final = 64 * 1024  # bytes of a request line and its headers
_MAX_BODY: Final = 256 * 1024  # bytes read and ignored; a longer body ends the connection
_WRITTEN_AT_ONCE: Final = 8  # parts of a body


class MonitorRequest(msgspec.Struct, frozen=True):
    method: str
    path: str  # as sent, before the question mark
    query: str  # as sent, after it
    wanted: Callable[[], bool] = lambda: True  # False when the client is known to have gone


class MonitorResponse(msgspec.Struct, frozen=True):
    """A response; `body` is in parts of some ten kilobytes, so that a long one is never joined."""

    status: int
    content_type: str
    body: Sequence[bytes]
    headers: Sequence[tuple[str, str]] = ()


class Timeouts(msgspec.Struct, frozen=True):
    """The time limits of a client, in seconds."""

    head: float = 5.0  # from the first byte of a request to the last of its head
    idle: float = 120.0  # between requests
    write: float = 60.0  # to take a response
    close: float = 2.0  # to take the rest when we close the connection


Handler = Callable[[MonitorRequest], Awaitable[MonitorResponse]]


class HttpServer:
    """Serves until it is stopped."""

    def __init__(self, handle: Handler, timeouts: Timeouts | None = None) -> None:
        timeouts = Timeouts() if timeouts is None else timeouts
        limits = HttpLimits(
            connections=MAX_CLIENTS,
            max_head=MAX_HEAD,
            max_discarded=_MAX_BODY,
            head_timeout_s=timeouts.head,
            body_timeout_s=timeouts.head,
            idle_timeout_s=timeouts.idle,
            write_timeout_s=timeouts.write,
            linger_s=timeouts.close,
            answers_after_eof=True,
            keeps_descriptors=True,
        )
        self._handle = handle
        self._listener = HttpListener(
            self._serve, limits, refusal=_refusal, http2=False, websockets=False, log=_log
        )

    async def start(
        self,
        sockets: Sequence[socket.socket],
        context: ssl.SSLContext | None,
        handshake_timeout_s: float | None = None,
    ) -> None:
        """Listen on bound sockets, which this server then owns."""
        await self._listener.start(sockets, context, handshake_timeout_s)

    async def stop(self) -> None:
        """Stop listening and disconnect all clients."""
        await self._listener.stop(0)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: WaitingCaller = scope["extensions"][CALLER]
        path = scope["raw_path"].decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        try:
            response = await self._handle(
                MonitorRequest(scope["method"], path, query, lambda: not caller.is_gone)
            )
        except Exception:
            _log.exception("cannot answer a request for %s", path)
            response = plain(500, "Internal Server Error\n")
        await _send(response, send)


async def _send(response: MonitorResponse, send: Send) -> None:
    parts = response.body
    headers = [
        *response.headers,
        ("Content-Type", response.content_type),
        ("Content-Length", str(sum(len(part) for part in parts))),
    ]
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": response.status, "headers": pairs})
    at = 0
    while True:
        body = b"".join(parts[at : at + _WRITTEN_AT_ONCE])
        at += _WRITTEN_AT_ONCE
        more = at < len(parts)
        await send({"type": "http.response.body", "body": body, "more_body": more})
        if not more:
            return
        await asyncio.sleep(0)  # messages of other clients come before the rest of a long document


def _refusal(status: int, detail: str) -> bytes:
    """Return the answer to a malformed request, and nothing to clients that are late or too many."""
    return b"" if status in (408, 503) else plain_refusal(status, detail)


def plain(status: int, text: str, *headers: tuple[str, str]) -> MonitorResponse:
    """Return a response of one line of text."""
    return MonitorResponse(status, "text/plain; charset=utf-8", [text.encode()], headers)
