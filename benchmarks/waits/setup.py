"""Rows about many clients that connect at once, in clear, over TLS and over WebSockets."""

from __future__ import annotations

import base64
import selectors
import socket
import ssl
import struct
from contextlib import ExitStack
from typing import Final

from benchmarks.certificates import certificates
from benchmarks.waits.site import ANSWER_S, Operation, Row, Site, more
from benchmarks.wire import PING, WireError, prepare

_HELLO: Final = b'CONNECT {"verbose":false,"protocol":1}\r\n' + PING
_UPGRADE: Final = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: %b\r\nSec-WebSocket-Version: 13\r\n\r\n" % base64.b64encode(bytes(16))
)


def connections_open(site: Site, size: int, kept: ExitStack) -> Operation:
    def connect() -> None:
        for each in site.connect(size):
            kept.enter_context(each)

    return connect


def tls_opens(site: Site, size: int, kept: ExitStack) -> Operation:
    """Clients connect over TLS; all handshakes are under way at once."""
    context = certificates()[1].client_context()

    def connect() -> None:
        sockets = _dial(site.address.port, size, kept)
        for each in sockets:
            _until(each, b"\r\n")
        for secured in _shake_hands([_begin(each, context, kept) for each in sockets]):
            secured.sendall(_HELLO)
            _until(secured, b"PONG")

    return connect


def websockets_open(site: Site, size: int, kept: ExitStack) -> Operation:
    """Clients upgrade to WebSockets and log in."""
    head = struct.pack("!BB", 0x82, 0x80 | len(_HELLO)) + bytes(4)  # masked with zeros

    def connect() -> None:
        sockets = _dial(site.server.websocket_port, size, kept)
        for each in sockets:
            each.sendall(_UPGRADE)
        for each in sockets:
            _until(each, b"INFO")
            each.sendall(head + _HELLO)
        for each in sockets:
            _until(each, b"PONG")

    return connect


def _dial(port: int, size: int, kept: ExitStack) -> list[socket.socket]:
    return [kept.enter_context(prepare(socket.create_connection(("127.0.0.1", port)))) for _ in range(size)]


def _until(connection: socket.socket, mark: bytes) -> None:
    """Read until a mark came."""
    seen = b""
    while mark not in seen:
        seen = more(connection, seen)


def _begin(connection: socket.socket, context: ssl.SSLContext, kept: ExitStack) -> ssl.SSLSocket:
    """Wrap a socket whose handshake has not begun."""
    connection.setblocking(False)
    wrapped = context.wrap_socket(connection, server_hostname="localhost", do_handshake_on_connect=False)
    return kept.enter_context(wrapped)


def _shake_hands(connections: list[ssl.SSLSocket]) -> list[ssl.SSLSocket]:
    """Finish all handshakes, which wait for the server together."""
    with selectors.DefaultSelector() as waiting:
        for each in connections:
            _go_on(each)
            waiting.register(each, selectors.EVENT_READ, each)
        while waiting.get_map():
            ready = waiting.select(ANSWER_S)
            if not ready:
                raise WireError("a handshake did not end")
            for key, _ in ready:
                if _go_on(key.data):
                    waiting.unregister(key.data)
    for each in connections:
        each.setblocking(True)
    return connections


def _go_on(connection: ssl.SSLSocket) -> bool:
    """Take the next step of a handshake; return True if it is done."""
    try:
        connection.do_handshake()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    return True


def _tls() -> str:
    return f"tls {{ {certificates()[2]}, timeout: 60 }}\nallow_non_tls: true\n"


ROWS: Final[dict[str, Row]] = {
    "connections-open": Row(connections_open, 5_000),
    "tls-opens": Row(tls_opens, 1_000, _tls),
    "websockets-open": Row(websockets_open, 1_000, 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'),
}
