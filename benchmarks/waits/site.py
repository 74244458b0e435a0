"""A server that rows prepare and ask: requests, streams, messages, consumers, connections.

A row is a function that prepares a server for things of a number and returns the operation, which is called
once, while another client waits.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.wire import PING, Address, WireError, dial, prepare
from tests.kits.reference import ServerKind, ServerProcess

ANSWER_S: Final = 120
BATCH: Final = 5_000  # messages between two acknowledgements
BODY: Final = b"x" * 128

Operation = Callable[[], object]
Prepare = Callable[["Site", int, contextlib.ExitStack], Operation]


@dataclass(frozen=True, slots=True)
class Row:
    """An operation at a size, on a server with a configuration; `both`: nats-server can do it, too."""

    prepare: Prepare
    size: int  # at scale 1
    config: str | Callable[[], str] | None = None
    both: bool = True


class Site:
    """A running server."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.address = Address(server.host, server.port)
        self.monitor_url = server.monitor_url

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.server.kill()
        self.server.start()
        self.address = Address(self.server.host, self.server.port)
        self.monitor_url = self.server.monitor_url

    @property
    def ours(self) -> bool:
        return self.server.kind is ServerKind.MILLSTREAM

    def ask(self, endpoint: str, body: Any = None) -> dict[str, Any]:
        """Return the answer of the JetStream API; WireError if it is a refusal."""
        answer = json.loads(self.request(f"$JS.API.{endpoint}", body))
        if "error" in answer:
            raise WireError(f"{endpoint}: {answer['error']}")
        found: dict[str, Any] = answer
        return found

    def request(self, subject: str, body: Any = None, *, user: str = "") -> bytes:
        """Return the first answer to a request."""
        data = json.dumps(body).encode() if body is not None else b""
        with self.dial(b"SUB _INBOX.w 1\r\n", user=user) as connection:
            connection.sendall(b"PUB %b _INBOX.w %d\r\n%b\r\n" % (subject.encode(), len(data), data))
            return next_message(connection)

    def dial(self, greeting: bytes = b"", *, user: str = "") -> socket.socket:
        """Connect; with a user, whose password is his name."""
        if not user:
            return dial(self.address, greeting=greeting)
        connection = prepare(socket.create_connection((self.address.host, self.address.port)))
        login = json.dumps({"verbose": False, "user": user, "pass": user, "headers": True})
        connection.sendall(b"CONNECT %b\r\n%b" % (login.encode(), greeting + PING))
        seen = b""
        while b"PONG\r\n" not in seen:
            seen = more(connection, seen)
            if b"-ERR" in seen:
                raise WireError(f"cannot connect: {seen[-200:]!r}")
        return connection

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.monitor_url + path, timeout=ANSWER_S) as response:
            body: bytes = response.read()
        return body

    # -- what it holds ----------------------------------------------------------------------------

    def stream(self, name: str, subjects: list[str], storage: str = "file", **more: Any) -> None:
        """Create a stream."""
        body = {"name": name, "subjects": subjects, "storage": storage, **more}
        self.ask(f"STREAM.CREATE.{name}", body)

    def consumer(self, name: str, stream: str = "S", **config: Any) -> None:
        """Create a durable consumer that wants explicit acks, or update one."""
        body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit", **config}}
        self.ask(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)

    def fill(
        self, count: int, subject: Callable[[int], str], headers: Callable[[int], str] | None = None
    ) -> None:
        """Publish so many messages and return when the last one is acknowledged."""
        with dial(self.address, greeting=b"SUB _INBOX.f 1\r\n") as connection:
            for start in range(0, count, BATCH):
                end = min(start + BATCH, count)
                frames = [
                    frame(subject(number), headers(number) if headers else "", number == end - 1)
                    for number in range(start, end)
                ]
                connection.sendall(b"".join(frames))
                answer = next_message(connection)
                if b'"error"' in answer:
                    raise WireError(f"cannot publish: {answer!r}")

    def subjects(self, size: int, **config: Any) -> None:
        """Make a stream with one message for each of so many subjects."""
        self.stream("S", ["s.*"], **config)
        self.fill(size, lambda number: f"s.{number}")

    def take(self, count: int, **config: Any) -> socket.socket:
        """Have a consumer deliver so many messages; returns the connection that got them."""
        self.consumer("d", max_ack_pending=-1, **config)
        self.fill(count, lambda number: f"s.{number % 10}")
        connection = dial(self.address, greeting=b"SUB _INBOX.n 1\r\n")
        pull(connection, count)
        return connection

    def connect(self, size: int, lines: bytes = b"SUB conn 1\r\n") -> list[socket.socket]:
        """Connections that have said who they are; each is there when this returns."""
        hello = b'CONNECT {"verbose":false,"protocol":1}\r\n' + lines + PING
        found = []
        for _ in range(size):
            connection = prepare(socket.create_connection((self.address.host, self.address.port)))
            connection.sendall(hello)
            found.append(connection)
        for connection in found:
            seen = b""
            while b"PONG" not in seen:
                seen = more(connection, seen)
        return found


def subscribe(site: Site, size: int) -> socket.socket:
    """Connect a client with so many subscriptions."""
    lines = b"".join(b"SUB waits.%d.x %d\r\n" % (number, number) for number in range(1, size + 1))
    return dial(site.address, greeting=lines)


def frame(subject: str, header: str = "", wants_answer: bool = False) -> bytes:
    """Return a publish of the usual body."""
    reply = b" _INBOX.f" if wants_answer else b""
    if not header:
        return b"PUB %b%b %d\r\n%b\r\n" % (subject.encode(), reply, len(BODY), BODY)
    block = f"NATS/1.0\r\n{header}\r\n\r\n".encode()
    sizes = (len(block), len(block) + len(BODY))
    return b"HPUB %b%b %d %d\r\n%b%b\r\n" % (subject.encode(), reply, *sizes, block, BODY)


def pull(connection: socket.socket, count: int) -> None:
    """Ask the consumer `d` for so many messages and return when they are there."""
    body = json.dumps({"batch": count, "expires": ANSWER_S * 1_000_000_000}).encode()
    connection.sendall(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.n %d\r\n%b\r\n" % (len(body), body))
    receive(connection, count)


def receive(connection: socket.socket, count: int, mark: bytes = b"$JS.ACK.") -> None:
    """Read until a mark came so many times."""
    tail = b""
    while count > 0:
        data = more(connection, tail)
        count -= data.count(mark)
        tail = data[-len(mark) + 1 :]


def answers(count: int, payload: bytes) -> bytes:
    """Answers to the first deliveries of the consumer `d`."""
    size = len(payload)
    return b"".join(
        b"PUB $JS.ACK.S.d.1.%d.%d.0.0 %d\r\n%b\r\n" % (number, number, size, payload)
        for number in range(1, count + 1)
    )


def next_message(connection: socket.socket) -> bytes:
    """Return the payload of the next message."""
    seen = b""
    while b"\r\n" not in seen or seen == PING:
        seen = more(connection, seen).removeprefix(PING)
    line, _, rest = seen.partition(b"\r\n")
    words = line.split(b" ")
    if words[0] not in (b"MSG", b"HMSG"):
        raise WireError(f"expected a message, got {line!r}")
    size = int(words[-1])
    parts, got = [rest], len(rest)
    while got < size:
        parts.append(more(connection, b""))
        got += len(parts[-1])
    return b"".join(parts)[:size]


def more(connection: socket.socket, seen: bytes) -> bytes:
    """Return what was seen and what came."""
    data = connection.recv(1 << 20)
    if not data:
        raise WireError("the server closed the connection")
    return seen + data


def wait_until(moment: float) -> None:
    """Return at a time of the steady clock."""
    time.sleep(max(moment - time.monotonic(), 0.0))


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when a condition holds, which is looked at ten times a second."""
    end = time.monotonic() + ANSWER_S
    while not condition():
        if time.monotonic() > end:
            raise WireError("the operation did not end")
        time.sleep(0.1)
