"""HTTP/1.1 by uvicorn's httptools protocol, with what it leaves to a proxy in front: limits on slow senders.

A peer that sends its head a byte at a time, or stops in the middle of a body, holds a connection and nothing
else, but connections are limited too.  `overdue` says who has been at it for too long; the server sweeps.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast
from uuid import uuid4

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from millstream.gateway.cork import CorkedTransport
from millstream.gateway.error_map import envelope
from millstream.gateway.settings import Limits

_STATUS_LINES: Final = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\n",
}


def refusal(status: int, title: str, detail: str) -> bytes:
    """A whole answer, for a connection on which no request was understood."""
    body = envelope(str(uuid4()), status, title, detail)
    head = (
        b"%scontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n"
    )
    return head % (_STATUS_LINES[status], len(body)) + body


class Http1(HttpToolsProtocol):
    """One connection; requests come one after the other."""

    def __init__(self, config: Config, server_state: ServerState, limits: Limits) -> None:
        super().__init__(config, server_state, {}, asyncio.get_running_loop())
        self._limits = limits
        self._in_head = False
        self._in_body = False
        self._head_bytes = 0
        self._progress = 0.0  # when the head began, or the body last grew
        self._unread = 0  # bytes of a finished answer that the peer did not take, and since when
        self._unread_since = 0.0
        self.raw_transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.raw_transport = transport
        super().connection_made(cast(asyncio.Transport, CorkedTransport(transport, self.loop)))

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._limits.max_head and self._head_bytes > self._limits.max_head:
                self._refuse(431, "Request Header Fields Too Large", "the head of the request is too long")
                return
        elif self._in_body:
            self._progress = self.loop.time()
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        self._progress = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Bad Request", msg)

    def overdue(self, now: float) -> bool:
        """Whether the peer lets us wait for longer than the limits allow."""
        limits = self._limits
        if self._in_head:
            return bool(limits.head_timeout_s) and now - self._progress > limits.head_timeout_s
        if self._in_body and not self.flow.read_paused:
            return bool(limits.body_timeout_s) and now - self._progress > limits.body_timeout_s
        return self._does_not_read(now)

    def _does_not_read(self, now: float) -> bool:
        """Whether answers wait for too long; a stream, whose length nobody knows, may wait for ever."""
        cycle = self.cycle
        is_stream = (
            cycle is not None
            and cycle.response_started
            and not cycle.response_complete
            and bool(cycle.chunked_encoding)
        )
        unread = 0 if is_stream else self.transport.get_write_buffer_size()
        if not unread or unread != self._unread:
            self._unread, self._unread_since = unread, now
            return False
        patience_s = self._limits.write_timeout_s
        return bool(patience_s) and now - self._unread_since > patience_s

    def expire(self) -> None:
        """End a connection that is overdue."""
        if self._unread:
            self.transport.abort()
        elif self._in_head or self.cycle is None or not self.cycle.response_started:
            self._refuse(408, "Request Timeout", "the request did not arrive in time")
        else:
            self.transport.abort()

    def _refuse(self, status: int, title: str, detail: str) -> None:
        if not self.transport.is_closing():
            self.transport.write(refusal(status, title, detail))
            self.transport.close()
