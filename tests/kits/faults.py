"""A server in this process, watched from outside while something bad happens to it."""

import asyncio
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

from millstream.broker.broker import Broker
from millstream.broker.options import BrokerOptions
from millstream.config.options import ServerOptions
from millstream.server.blocking_server import BlockingServer
from tests.kits.patience import PATIENCE_S
from tests.kits.wire import WireClient, WireError

T = TypeVar("T")


class WatchedServer(BlockingServer):
    """A server on loopback whose broker can be asked things, always in its own thread."""

    def __init__(self, **options: Any) -> None:
        broker = BrokerOptions(host="127.0.0.1", port=-1, **options)
        super().__init__(options=ServerOptions(broker=broker))

    def ask(self, question: Callable[[Broker], T]) -> T:
        async def answer() -> T:
            return question(self._server.broker)

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(PATIENCE_S)

    def wait_until(self, claim: Callable[[Broker], bool], timeout_s: float = PATIENCE_S) -> None:
        """Return when `claim` has become true of the broker."""
        deadline = time.monotonic() + timeout_s
        while not self.ask(claim):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s: {self.ask(_describe)}")
            time.sleep(0.002)

    def wait_for_connections(self, count: int) -> None:
        self.wait_until(lambda broker: len(broker.connections) == count)

    def registered(self) -> int:
        """All in the tree of the global account, the server's own included."""
        return self.ask(lambda broker: broker.global_account.space.tree.count)

    @property
    def websocket_port(self) -> int:
        return int(self.websocket_url.rpartition(":")[2])


def _describe(broker: Broker) -> str:
    reasons = [str(record.session.reason) for record in broker.closed][-5:]
    return f"{len(broker.connections)} connections, last closed: {reasons}"


class Witness:
    """A well-behaved client that must not notice anything: each look at it is a timed round trip."""

    def __init__(self, server: WatchedServer, patience_s: float = 15.0) -> None:
        self._client = WireClient.connect(server.port, timeout_s=patience_s)
        self._client.handshake()
        self._client.send(b"SUB witness 1\r\n")
        self._count = 0

    def look(self) -> None:
        """Publish to oneself and read it back; WireError if that takes longer than the patience."""
        self._count += 1
        text = b"%d" % self._count
        answer = self._client.round_trip(b"PUB witness %d\r\n%b\r\n" % (len(text), text))
        assert answer == b"MSG witness 1 %d\r\n%b\r\n" % (len(text), text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()


def in_the_end(attempt: Callable[[], T]) -> T:
    """Try again what a machine that is busy was too slow for: a login or a handshake in the time it has."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return attempt()
        except (OSError, WireError):
            if time.monotonic() > deadline:
                raise


def dial(port: int, timeout_s: float = PATIENCE_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout_s)


def reset(connection: socket.socket) -> None:
    """Close with an RST, as a crashed peer does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the server closes; TimeoutError if it does not."""
    chunks = []
    try:
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    except ConnectionResetError:
        pass  # the server closed while bytes of ours were unread
    return b"".join(chunks)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
