"""Request/reply round trips: requesters and responders, each side one process.

Every requester has a connection and a responder of its own and keeps exactly one request under way, as a
service call in a program does.  The reply subject is new for each request, as the clients make it, so a
server that remembers routes by subject gets no help from repetition.  Each reply is compared whole.
"""

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.crew import Share, Stage
from benchmarks.receive import ready
from benchmarks.wire import PING, PONG, Address, WireError, dial, payloads

PAYLOAD_BYTES: Final = 16
_TOKEN: Final = b"%08d"
_BODY: Final = b" %d\r\n%b\r\n" % (PAYLOAD_BYTES, payloads(1, PAYLOAD_BYTES, seed=7)[0])


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of one pair, as the frames that carry them."""

    service: bytes
    inbox: bytes
    reply_head: bytes = b"PUB "  # what the responder puts before the reply subject
    reply_rest: bytes = _BODY  # and behind it

    @classmethod
    def of(cls, pair: int) -> "Subjects":
        return cls(b"svc.%04d" % pair, b"_INBOX.bench%04d." % pair)

    def request(self, number: int) -> bytes:
        return b"PUB %b %b%b%b" % (self.service, self.inbox, _TOKEN % number, _BODY)

    def request_delivered(self, number: int) -> bytes:
        return b"MSG %b 1 %b%b%b" % (self.service, self.inbox, _TOKEN % number, _BODY)

    def reply_delivered(self, number: int) -> bytes:
        return b"MSG %b%b 1%b" % (self.inbox, _TOKEN % number, _BODY)


def receive_frame(connection: socket.socket, size: int) -> bytes:
    """Wait for one frame of known size; empty if only the server's keep-alive was there (it is answered)."""
    data = connection.recv(4096)
    while len(data) != size:
        if not data or len(data) > size + len(PING) or b"-ERR" in data:
            raise WireError(f"expected a frame of {size} bytes, got {data[:120]!r}")
        if PING in data:
            connection.sendall(PONG)
            data = data.replace(PING, b"")
            if not data or len(data) == size:
                break
        data += connection.recv(4096)
    return data


@dataclass(frozen=True, slots=True)
class Requesters:
    address: Address
    pairs: int
    requests: int  # by each
    warm: int  # by each

    def __call__(self, stage: Stage) -> Share:
        subjects = [Subjects.of(pair) for pair in range(self.pairs)]
        sockets = [dial(self.address, greeting=b"SUB %b* 1\r\n" % one.inbox) for one in subjects]
        try:
            stage.meet()
            return self.measure(sockets, subjects, stage)
        finally:
            for connection in sockets:
                connection.close()

    def measure(self, sockets: Sequence[socket.socket], subjects: Sequence[Subjects], stage: Stage) -> Share:
        ask = ask_alone if len(sockets) == 1 else ask_together
        ask(sockets, subjects, range(self.warm))
        started = stage.start()
        latencies = ask(sockets, subjects, range(self.warm, self.warm + self.requests))
        return stage.share(started, latencies)


def ask_alone(sockets: Sequence[socket.socket], subjects: Sequence[Subjects], numbers: range) -> list[int]:
    """Requests on the only connection, one after the other, with nothing but send and recv timed."""
    ((connection,), (names,)) = (sockets, subjects)
    size = len(names.reply_delivered(0))
    clock = time.perf_counter_ns
    latencies = []
    for number in numbers:
        request = names.request(number)
        began = clock()
        connection.send(request)
        while not (reply := receive_frame(connection, size)):
            pass
        latencies.append(clock() - began)
        if reply != names.reply_delivered(number):
            raise WireError(f"not the reply to request {number}: {reply!r}")
    return latencies


def ask_together(sockets: Sequence[socket.socket], subjects: Sequence[Subjects], numbers: range) -> list[int]:
    """Send requests on many connections at once, each with one request in flight."""
    clock = time.perf_counter_ns
    size = len(subjects[0].reply_delivered(0))
    by_number = {connection.fileno(): index for index, connection in enumerate(sockets)}
    upcoming = [numbers.start] * len(sockets)
    began = [0] * len(sockets)
    latencies = []
    busy = len(sockets)
    with select.epoll() as poller:
        for index, connection in enumerate(sockets):
            poller.register(connection, select.EPOLLIN)
            began[index] = clock()
            connection.send(subjects[index].request(numbers.start))
        while busy:
            for number, _ in ready(poller):
                index = by_number[number]
                connection, names = sockets[index], subjects[index]
                reply = receive_frame(connection, size)
                if not reply:
                    continue
                latencies.append(clock() - began[index])
                if reply != names.reply_delivered(upcoming[index]):
                    raise WireError(f"not the reply to request {upcoming[index]}: {reply!r}")
                upcoming[index] += 1
                if upcoming[index] == numbers.stop:
                    busy -= 1
                    continue
                request = names.request(upcoming[index])
                began[index] = clock()
                connection.send(request)
    return latencies


@dataclass(frozen=True, slots=True)
class Responders:
    address: Address
    pairs: int
    requests: int
    warm: int

    def __call__(self, stage: Stage) -> Share:
        subjects = [Subjects.of(pair) for pair in range(self.pairs)]
        sockets = [dial(self.address, greeting=b"SUB %b 1\r\n" % one.service) for one in subjects]
        try:
            stage.meet()
            return self.measure(sockets, subjects, stage)
        finally:
            for connection in sockets:
                connection.close()

    def measure(self, sockets: Sequence[socket.socket], subjects: Sequence[Subjects], stage: Stage) -> Share:
        answer(sockets, subjects, self.warm * len(sockets))
        started = stage.start()
        answer(sockets, subjects, self.requests * len(sockets))
        return stage.share(started)


def answer(sockets: Sequence[socket.socket], subjects: Sequence[Subjects], count: int) -> None:
    """Answer `count` requests in all; the reply subject is cut out of the request by position."""
    first = subjects[0]
    size = len(first.request_delivered(0))
    start = size - len(_BODY) - len(first.inbox) - len(_TOKEN % 0)
    stop = size - len(_BODY)
    verb, rest = first.reply_head, first.reply_rest
    if len(sockets) == 1:
        (connection,) = sockets
        while count > 0:
            if request := receive_frame(connection, size):
                connection.send(verb + request[start:stop] + rest)
                count -= 1
        return
    by_number = {connection.fileno(): connection for connection in sockets}
    with select.epoll() as poller:
        for connection in sockets:
            poller.register(connection, select.EPOLLIN)
        while count > 0:
            for number, _ in ready(poller):
                connection = by_number[number]
                if request := receive_frame(connection, size):
                    connection.send(verb + request[start:stop] + rest)
                    count -= 1
