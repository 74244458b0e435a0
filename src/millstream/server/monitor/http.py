"""Documents over HTTP/1.1: every request is answered by one handler, whatever its method.

The reference does so too; a body is read and forgotten.  Protocol, limits and clock are `millstream.http`'s.

Always true:  a client can hold a bounded amount of memory (head of the request, one response) and
              a bounded time (to send a head, to take a response, to stay idle).
Not here:     which path gives which document (``routes``).
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

MAX_CLIENTS: Final = 1024  # file descriptors are for those who bring messages
MAX_HEAD: Final = 64 * 1024  # bytes of a request line and its headers
_MAX_BODY: Final = 256 * 1024  # bytes read and forgotten; a longer body ends the connection
_WRITTEN_AT_ONCE: Final = 8  # parts of a body


class MonitorRequest(msgspec.Struct, frozen=True):
    method: str
    path: str  # as sent, before the question mark
    query: str  # as sent, after it
    wanted: Callable[[], bool] = lambda: True  # False when the client is known to have gone


class MonitorResponse(msgspec.Struct, frozen=True):
    """`body` is in parts of some ten kilobytes, so that a long one need not be joined."""

    status: int
    content_type: str
    body: Sequence[bytes]
    headers: Sequence[tuple[str, str]] = ()


class Timeouts(msgspec.Struct, frozen=True):
    """How long a client may take, in seconds."""

    head: float = 5.0  # from the first byte of a request to the last of its head
    idle: float = 120.0  # between requests
    write: float = 60.0  # to take a response
    close: float = 2.0  # to take the rest when we hang up


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
        """Listen on bound sockets, which belong to this server from now on."""
        await self._listener.start(sockets, context, handshake_timeout_s)

    async def stop(self) -> None:
        """Stop listening and cut off whoever is connected."""
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
        await asyncio.sleep(0)  # the rest of a long one waits for the messages of others


def _refusal(status: int, detail: str) -> bytes:
    """Tell what is no request, and nothing to those who are late or too many."""
    return b"" if status in (408, 503) else plain_refusal(status, detail)


def plain(status: int, text: str, *headers: tuple[str, str]) -> MonitorResponse:
    """A line of text for people."""
    return MonitorResponse(status, "text/plain; charset=utf-8", [text.encode()], headers)
