"""Which protocol a new connection speaks, from its first bytes: all of them share one port.

    "PRI * HTTP/2.0", or ALPN said h2        ──► HTTP/2 (hypercorn)
    a head with "Upgrade: h2c", if enabled   ──► HTTP/2 (hypercorn), which answers 101
    any other head                           ──► HTTP/1.1 (uvicorn)

What was received is handed over, and the sniffer is out of the way for the rest of the connection.

The upgrade is off by default: a proxy in front that forwards it does not see what comes after, so its rules
do not hold for that.  A head that asks for it is answered over HTTP/1.1, as HTTP allows.
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING, Final

from millstream.gateway.http1 import Http1, refusal
from millstream.gateway.web_socket import WebSocket

if TYPE_CHECKING:
    from millstream.gateway.listening import Listening

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"
_UPGRADE: Final = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*\r\n", re.IGNORECASE)


class Sniffer(asyncio.Protocol):
    """A connection until its protocol is known; `listening` counts it until its end."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        _watch_for_death(transport)
        if not self._listening.admit(transport):
            self._refuse(503, "Overloaded", "there are too many connections")
            return
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None and ssl_object.selected_alpn_protocol() == "h2":
            self._hand_to_http2()
            return
        patience_s = self._listening.limits.head_timeout_s
        if patience_s:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(
                patience_s, self._refuse, 408, "Request Timeout", "the request did not arrive in time"
            )

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        if received[: len(_PREFACE)] == _PREFACE:
            self._hand_to_http2()
        elif _PREFACE.startswith(received):
            return
        elif _END_OF_HEAD in received:
            head = received[: received.index(_END_OF_HEAD) + 2]
            if self._listening.h2c_upgrade and _UPGRADE.search(head) is not None:
                self._hand_to_http2()
            else:
                self._hand_to_http1()
        elif len(received) > (self._listening.limits.max_head or 2**20):
            self._refuse(431, "Request Header Fields Too Large", "the head of the request is too long")
        elif b"\n" in received and not received.split(b"\n", 1)[0].rstrip().endswith((b"/1.1", b"/1.0")):
            self._hand_to_http1()  # not HTTP at all, which is told by whoever parses it

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        if self._transport is not None:
            self._listening.forget(self._transport)
            self._transport = None

    def _hand_to_http1(self) -> None:
        transport = self._let_go()
        protocol = _CountedHttp1(self._listening)
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        protocol.data_received(self._received)

    def _hand_to_http2(self) -> None:
        listening = self._listening
        transport = self._let_go()
        task = listening.http2.take(transport, self._received)
        task.add_done_callback(lambda _: listening.forget(transport))

    def _let_go(self) -> asyncio.Transport:
        self._stop_timer()
        transport, self._transport = self._transport, None
        assert transport is not None
        return transport

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, title: str, detail: str) -> None:
        self._stop_timer()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(refusal(status, title, detail))
            self._transport.close()


class _CountedHttp1(Http1):
    def __init__(self, listening: Listening) -> None:
        super().__init__(listening.uvicorn_config, listening.uvicorn_state, listening.limits)
        self._listening = listening

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        protocol = self.raw_transport.get_protocol() if self.raw_transport is not None else None
        if isinstance(protocol, WebSocket):
            protocol.ended = self._forget

    def _forget(self) -> None:
        if self.raw_transport is not None:
            self._listening.forget(self.raw_transport)


def _watch_for_death(transport: asyncio.Transport) -> None:
    """Notice a peer that is gone without a word, although nothing is sent to it."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
