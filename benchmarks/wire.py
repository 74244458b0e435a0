"""The load generators' own view of the NATS wire: dial, frames made in advance, nothing parsed.

Everything a workload sends is encoded before the clock starts, and everything it will receive is
known byte for byte.  Subjects, queue names and payloads hold no capital ``P``: the servers' keep-alive
``PING`` is then the only place in a delivered stream where that letter can stand (see ``receive``).
Not here: processes and clocks (``crew``), checking what arrived (``receive``).
"""

import random
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
CHUNK_BYTES: Final = 64 * 1024  # one write of a publisher; about what a server takes in one read
SILENCE_S: Final = 30  # a socket without a byte for so long has failed
_CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"echo":true,"headers":true,"no_responders":true,'
    b'"protocol":0,"lang":"python","version":"0","name":"bench"}\r\n'
)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


class WireError(Exception):
    """The server said or did something the workload does not expect."""


def prepare(connection: socket.socket) -> socket.socket:
    """Set what every load connection has: no delay, and a time limit that costs no system call."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # `settimeout` would add a poll() before every recv(); the kernel's own limit is free.
    limit = struct.pack("ll", SILENCE_S, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return connection


def dial(address: Address, *, greeting: bytes = b"") -> socket.socket:
    """Connect, introduce ourselves, send `greeting` (SUB lines) and return once the server took it all."""
    connection = prepare(socket.create_connection((address.host, address.port)))
    try:
        seen = b""
        while not seen.endswith(b"\r\n"):
            seen += _some(connection)
        if not seen.startswith(b"INFO "):
            raise WireError(f"expected INFO, got {seen[:80]!r}")
        connection.sendall(_CONNECT + greeting)
        flush(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def flush(connection: socket.socket) -> None:
    """Return when the server has worked through everything sent so far; nothing else may arrive."""
    connection.sendall(PING)
    seen = b""
    while (rest := seen.replace(PING, b"")) != PONG:
        if b"-ERR" in rest or len(rest) >= len(PING) + len(PONG):
            raise WireError(f"expected PONG, got {rest[:200]!r}")
        seen += _some(connection)


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(4096)
    if not data:
        raise WireError("the server closed the connection")
    return data


def payloads(count: int, size: int, *, seed: int) -> list[bytes]:
    """`count` different payloads, the same in every run: a shifted or swapped one is noticed."""
    source = random.Random(seed)
    return ["".join(source.choices(_LETTERS, k=size)).encode() for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Batch:
    """A run of messages that a publisher sends over and over, and how each looks when delivered."""

    chunks: tuple[bytes, ...]  # PUB frames, each chunk whole frames
    chunk_messages: tuple[int, ...]  # messages in each chunk
    frames: tuple[bytes, ...]  # the MSG frames of one pass over the chunks, all of one size

    @property
    def messages(self) -> int:
        return len(self.frames)

    @property
    def frame_bytes(self) -> int:
        return len(self.frames[0])


def batch(subjects: Sequence[str], payload_bytes: int, *, seed: int = 1, sid: int = 1) -> Batch:
    """One message to each of `subjects` in turn, repeated until at least one chunk is full."""
    head = f"PUB {subjects[0]} {payload_bytes}\r\n"
    fits = max(1, CHUNK_BYTES // (len(head) + payload_bytes + 2))
    rounds = -(-fits // len(subjects)) if len(subjects) < fits else 1
    order = list(subjects) * rounds
    if len(subjects) == 1:
        order = order[:fits]
    bodies = payloads(len(order), payload_bytes, seed=seed)
    published = [
        f"PUB {subject} {payload_bytes}\r\n".encode() + body + b"\r\n"
        for subject, body in zip(order, bodies, strict=True)
    ]
    delivered = tuple(
        f"MSG {subject} {sid} {payload_bytes}\r\n".encode() + body + b"\r\n"
        for subject, body in zip(order, bodies, strict=True)
    )
    if len({len(frame) for frame in delivered}) != 1 or any(b"P" in frame for frame in delivered):
        raise ValueError("frames must have one size and no capital P")
    groups = [published[start : start + fits] for start in range(0, len(published), fits)]
    return Batch(
        chunks=tuple(b"".join(group) for group in groups),
        chunk_messages=tuple(len(group) for group in groups),
        frames=delivered,
    )
