"""Callers of a gateway: requests made in advance, answers counted; raw sockets, no HTTP library.

The machine is shared by callers, gateway and broker, so a caller must cost little: it looks for what every
good answer holds and counts that.  An answer that is none, or something else than a success, fails the run.
"""

import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.crew import Share, Stage
from benchmarks.wire import Address, WireError, payloads

_READ_BYTES: Final = 1 << 20
_AT_ONCE: Final = 50  # connections that are opened together
_SUCCESS: Final = b"HTTP/1.1 200 "
_STORED: Final = b'"ok":true'
_ANSWER_ENDS: Final = (b"}", b"}\n")
_BODY_END: Final = b"0\r\n\r\n"  # of an answer in chunks
_TROUBLE: Final = (b'"ok":false', b'"problem"', b"event: problem")


@dataclass(frozen=True, slots=True)
class Posters:
    """Connections that each post a message, wait for its answer and post the next."""

    address: Address
    path: str
    body: bytes
    connections: int
    requests: int  # of all of them together

    def __call__(self, stage: Stage) -> Share:
        request = b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%b" % (
            self.path.encode(),
            len(self.body),
            self.body,
        )
        lines = {line.fileno(): line for line in (_dial(self.address) for _ in range(self.connections))}
        poller = select.epoll()
        for number in lines:
            poller.register(number, select.EPOLLIN)
        started = stage.start()
        asked = answered = 0
        begun: dict[int, bytes] = {}  # answers that came in part
        for line in lines.values():
            line.send(request)
            asked += 1
        while answered < self.requests:
            for number, _ in poller.poll():
                line = lines[number]
                answer = line.recv(4096)
                if begun:
                    answer = begun.pop(number, b"") + answer
                if not answer.startswith(_SUCCESS):
                    raise WireError(f"a message was not stored: {answer!r}")
                if not answer.endswith(_ANSWER_ENDS):
                    begun[number] = answer
                    continue
                answered += 1
                if asked < self.requests:
                    line.send(request)
                    asked += 1
        share = stage.share(started)
        poller.close()
        for line in lines.values():
            line.close()
        return share


@dataclass(frozen=True, slots=True)
class BatchPoster:
    """One request with a message on each line, whose results are read while it is sent."""

    address: Address
    subject: str
    payload_bytes: int
    count: int

    def __call__(self, stage: Stage) -> Share:
        bodies = [body.decode("latin-1") for body in payloads(64, self.payload_bytes, seed=3)]
        lines = [json.dumps({"subject": self.subject, "data": body}).encode() + b"\n" for body in bodies]
        body = b"".join(lines[number % 64] for number in range(self.count))
        head = (
            b"POST /v2/messages HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        line = _dial(self.address)
        line.setblocking(False)
        poller = select.epoll()
        poller.register(line, select.EPOLLIN | select.EPOLLOUT)
        counter = _Counter(_STORED)
        waiting = memoryview(head + body)
        started = stage.start()
        while not counter.tail.endswith(_BODY_END):
            ((_, events),) = poller.poll()
            if events & select.EPOLLIN:
                counter.take(line)
            if events & select.EPOLLOUT:
                waiting = waiting[line.send(waiting) :]
                if not waiting:
                    poller.modify(line, select.EPOLLIN)
        share = stage.share(started)
        poller.close()
        line.close()
        counter.check(self.count)
        return share


@dataclass(frozen=True, slots=True)
class StreamReader:
    """Reads a stream or consumer over an answer that does not end, until as many messages came as it has."""

    address: Address
    path: str
    accept: str
    marker: bytes  # that stands once in each message
    count: int

    def __call__(self, stage: Stage) -> Share:
        request = f"GET {self.path} HTTP/1.1\r\nHost: bench\r\nAccept: {self.accept}\r\n\r\n".encode()
        line = _dial(self.address)
        counter = _Counter(self.marker)
        started = stage.start()
        line.sendall(request)
        while counter.count < self.count:
            counter.take(line)
        share = stage.share(started)
        line.close()
        counter.check(self.count)
        return share


@contextmanager
def held(address: Address, path: str, connections: int, *, stays: bool) -> Iterator[None]:
    """Connections that have sent a request and got its answer, or the head of one that `stays`."""
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    lines: list[socket.socket] = []
    try:
        for first in range(0, connections, _AT_ONCE):
            some = [_dial(address) for _ in range(min(_AT_ONCE, connections - first))]
            lines += some
            for line in some:
                line.sendall(request)
            for line in some:
                answer = b""
                while b"\r\n\r\n" not in answer or not (stays or answer.endswith(_ANSWER_ENDS)):
                    more = line.recv(4096)
                    if not more or not (answer + more).startswith(_SUCCESS):
                        raise WireError(f"a connection is not kept: {answer + more!r}")
                    answer += more
        yield
    finally:
        for line in lines:
            line.close()


class _Counter:
    """Counts a word in the bytes of a connection; a read may end within the word."""

    def __init__(self, word: bytes) -> None:
        self._word = word
        self._head = b""
        self.tail = b""
        self.count = 0

    def take(self, line: socket.socket) -> None:
        data = line.recv(_READ_BYTES)
        if not data:
            raise WireError("the gateway closed the connection")
        if len(self._head) < len(_SUCCESS):
            self._head += data[: len(_SUCCESS)]
            if not _SUCCESS.startswith(self._head[: len(_SUCCESS)]):
                raise WireError(f"the gateway refused: {data[:400]!r}")
        text = self.tail[-len(self._word) + 1 :] + data
        self.count += text.count(self._word)
        if any(word in text for word in _TROUBLE):
            raise WireError(f"a message was not stored, or a stream ended: {text[-400:]!r}")
        self.tail = text[-32:]

    def check(self, wanted: int) -> None:
        if self.count != wanted:
            raise WireError(f"{self.count} messages were told of, not {wanted}")


def _dial(address: Address) -> socket.socket:
    line = socket.create_connection((address.host, address.port), timeout=60)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line
