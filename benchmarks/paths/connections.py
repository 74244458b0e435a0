"""Connections that come and go, plain, encrypted and over WebSockets."""

import socket
import ssl
import struct

from benchmarks.certificates import certificates
from benchmarks.paths.client import BODY, INBOX, Client, pub
from benchmarks.paths.run import Run, path
from benchmarks.wire import Address, dial
from tests.kits.websocket import WebSocketStream

_SOME = 50_000
_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'


@path(0, 2_000)
def short_connections(run: Run) -> None:
    """Connect, publish, flush, close, beside so many connections that stay."""
    address = Address("127.0.0.1", run.server.port)
    for _ in range(run.size):
        run.client()
    count = 1_000
    with run.timed("connect, publish, close", count):
        for _ in range(count):
            with dial(address, greeting=b"") as connection:
                connection.sendall(b"PUB x 128\r\n%b\r\nPING\r\n" % BODY)
                connection.recv(100)
    with run.timed("connect, subscribe, request, close", count):
        for _ in range(count):
            with Client(run.server.port) as client:
                client.send(b"PUB _INBOX.c.x 2\r\nhi\r\n")
                client.next()
    run.memory("memory")


def _tls() -> str:
    return f"tls {{ {certificates()[2]}, timeout: 10 }}\n"


def _encrypted(port: int, context: ssl.SSLContext) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.recv(1 << 16)
    connection = context.wrap_socket(plain, server_hostname="localhost")
    connection.sendall(_CONNECT)
    return connection


@path(0, 500, config=_tls)
def tls(run: Run) -> None:
    """Encrypted connections, beside so many that stay."""
    context = certificates()[1].client_context()
    stay = [_encrypted(run.server.port, context) for _ in range(run.size)]
    count = 200
    with run.timed("connect, publish, close", count):
        for _ in range(count):
            with _encrypted(run.server.port, context) as connection:
                connection.sendall(b"PUB x 128\r\n%b\r\nPING\r\n" % BODY)
                connection.recv(100)
    client = Client(run.server.port, _encrypted(run.server.port, context))
    listener = Client(run.server.port, _encrypted(run.server.port, context), b"_INBOX.d")
    _throughput(run, client, listener)
    for each in stay:
        each.close()


def _throughput(run: Run, client: Client, listener: Client) -> None:
    listener.send(b"SUB t 5\r\n")
    listener.flush()
    frame = b"PUB t 128\r\n%b\r\n" % BODY
    with run.timed("publish to one", _SOME):
        for _ in range(_SOME // 500):
            client.send(frame * 500)
        listener.receive(_SOME)
    large = b"PUB t 65536\r\n%b\r\n" % (b"x" * 65536)
    with run.timed("64 KiB to one", 500):
        for _ in range(500):
            client.send(large)
            listener.receive(1)
    client.stream("S", "s")
    with run.timed("publish to a stream", _SOME):
        client.exchange([pub(b"s")] * _SOME)
    client.consumer("S", "", deliver_subject=INBOX.decode(), ack_policy="none")
    with run.timed("push", _SOME):
        client.receive(_SOME)


class _WebSocket:
    """The bytes inside a WebSocket; masked with zeros, which a server cannot know."""

    def __init__(self, port: int) -> None:
        self._stream = WebSocketStream.open(port)
        self._socket: socket.socket = self._stream._connection
        self._rest = 0  # bytes of the frame that are still to come
        self._seen = bytes(self._stream._buffer)
        self._expect(b"INFO")

    def _expect(self, start: bytes) -> None:
        room = memoryview(bytearray(1 << 16))
        count = self.recv_into(room)
        if not bytes(room[:count]).startswith(start):
            raise AssertionError(bytes(room[:count]))
        self.sendall(_CONNECT)

    def sendall(self, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x82, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x82, 0xFE, size)
        else:
            head = struct.pack("!BBQ", 0x82, 0xFF, size)
        self._socket.sendall(head + b"\0\0\0\0" + data)

    def recv_into(self, room: memoryview) -> int:
        while True:
            if self._rest:
                if self._seen:
                    part = self._seen[: min(self._rest, len(room))]
                    self._seen = self._seen[len(part) :]
                    room[: len(part)] = part
                    count = len(part)
                else:
                    count = self._socket.recv_into(room[: self._rest])
                self._rest -= count
                return count
            while not self._take_head():
                data = self._socket.recv(1 << 16)
                if not data:
                    return 0
                self._seen += data

    def _take_head(self) -> bool:
        seen = self._seen
        if len(seen) < 2:
            return False
        size, head = seen[1] & 127, 2
        if size >= 126:
            head = 4 if size == 126 else 10
            if len(seen) < head:
                return False
            size = int.from_bytes(seen[2:head], "big")
        self._seen = seen[head:]
        self._rest = size
        return True

    def settimeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._socket.close()


@path(0, 500, config='websocket { listen: "127.0.0.1:-1", no_tls: true }\n')
def websocket(run: Run) -> None:
    """Connect over WebSockets, beside many connections that stay."""
    port = run.server.websocket_port
    stay = [_WebSocket(port) for _ in range(run.size)]
    count = 300
    with run.timed("connect, publish, close", count):
        for _ in range(count):
            connection = _WebSocket(port)
            connection.sendall(b"PUB x 128\r\n%b\r\nPING\r\n" % BODY)
            connection.recv_into(memoryview(bytearray(100)))
            connection.close()
    client, listener = (Client(port, _WebSocket(port), inbox) for inbox in (INBOX, b"_INBOX.d"))  # type: ignore[arg-type]
    _throughput(run, client, listener)
    for each in stay:
        each.close()
