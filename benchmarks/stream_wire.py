"""The protocol of the load generators of streams: API requests, prepared publishes, counted acknowledgements.

A publish has a reply subject of its own, as the clients make it, and the acknowledgement is looked for by
what every one of them holds.  An error, a duplicate or one acknowledgement too many fails the run.
"""

import json
import socket
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.wire import PING, PONG, Address, WireError, dial, payloads

_API: Final = "$JS.API."
_SEQUENCE: Final = b'"seq":'
_KEEP: Final = len(_SEQUENCE) - 1  # a read may end within it
_READ_BYTES: Final = 1 << 20
_TROUBLE: Final = (b'"error"', b'"duplicate"', b"-ERR", b" 503")


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages to be published."""

    stream: str
    payload_bytes: int
    count: int
    subjects: int = 1  # different ones
    with_id: bool = False  # each has a Nats-Msg-Id
    one_payload: bytes = b""  # of all; without it they differ

    @property
    def pattern(self) -> str:
        return f"{self.stream}.*"

    def frame(self, number: int, body: bytes, inbox: bytes) -> bytes:
        subject = b"%b.%07d" % (self.stream.encode(), number % self.subjects)
        reply = b"%b.%07d" % (inbox, number)
        if not self.with_id:
            return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)
        block = b"NATS/1.0\r\nNats-Msg-Id: %b-%08d\r\n\r\n" % (self.stream.encode(), number)
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
            subject,
            reply,
            len(block),
            len(block) + len(body),
            block,
            body,
        )

    def chunks(self, step: int, inbox: bytes) -> list[bytes]:
        """All of them, `step` to a chunk."""
        bodies = [self.one_payload] * 64 if self.one_payload else payloads(64, self.payload_bytes, seed=3)
        return [
            b"".join(
                self.frame(number, bodies[number % 64], inbox)
                for number in range(start, min(start + step, self.count))
            )
            for start in range(0, self.count, step)
        ]


def request(address: Address, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the API; WireError if it answers with an error."""
    data = json.dumps(body).encode() if body else b""
    with dial(address, greeting=b"SUB _INBOX.api 1\r\n") as connection:
        connection.sendall(b"PUB %b _INBOX.api %d\r\n%b\r\n" % ((_API + subject).encode(), len(data), data))
        seen = b""
        while seen.count(b"\r\n") < 2:
            seen += _receive(connection)
    line, _, rest = seen.replace(PING, b"").partition(b"\r\n")
    if line.startswith(b"HMSG"):
        raise WireError(f"{subject}: nobody answers")
    answer: dict[str, Any] = json.loads(rest.partition(b"\r\n")[0])
    if "error" in answer:
        raise WireError(f"{subject}: {answer['error']}")
    return answer


def create(address: Address, messages: Messages, storage: str) -> None:
    config = {"name": messages.stream, "subjects": [messages.pattern], "storage": storage}
    request(address, f"STREAM.CREATE.{messages.stream}", config)


def remove(address: Address, stream: str) -> None:
    request(address, f"STREAM.DELETE.{stream}", {})


def stored(address: Address, stream: str) -> int:
    """Return the number of messages in the stream."""
    return int(request(address, f"STREAM.INFO.{stream}", {})["state"]["messages"])


class AckCounter:
    """Acknowledgements that come over one connection."""

    def __init__(self, connection: socket.socket, read_bytes: int = _READ_BYTES) -> None:
        self._connection = connection
        self._read_bytes = read_bytes
        self._tail = b""
        self.last = b""  # what came with the last read
        self.count = 0

    def receive(self) -> None:
        """Wait for more, and count them."""
        data = self._tail + _receive(self._connection, self._read_bytes)
        self.last = data
        self.count += data.count(_SEQUENCE)
        if any(word in data for word in _TROUBLE):
            raise WireError(f"a publish was not stored: {data[:400]!r}")
        if PING in data:
            self._connection.sendall(PONG)
            data = data.replace(PING, b"")
        self._tail = data[-_KEEP:]


def _receive(connection: socket.socket, most: int = _READ_BYTES) -> bytes:
    data = connection.recv(most)
    if not data:
        raise WireError("the server closed the connection")
    return data
