"""Publishing into streams: a window of unacknowledged messages, or one at a time on some connections.

Everything that is sent is made before the clock starts.  Time runs from the first publish to the last
acknowledgement; the stream must then say that it has every message.
"""

import dataclasses
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.crew import Share, Stage
from benchmarks.receive import ready
from benchmarks.stream_wire import AckCounter, Messages
from benchmarks.wire import Address, WireError, dial

WINDOW: Final = 4_000
_STEP: Final = 500  # messages in one write
_SMALL_READ: Final = 4096  # bytes; where a single acknowledgement is all there is
_INBOX: Final = b"_INBOX.bench"


@dataclass(frozen=True, slots=True)
class WindowPublisher:
    """Publishes as fast as possible, with at most `WINDOW` unacknowledged messages."""

    address: Address
    messages: Messages

    def __call__(self, stage: Stage) -> Share:
        chunks = self.messages.chunks(_STEP, _INBOX)
        with dial(self.address, greeting=b"SUB %b.* 1\r\n" % _INBOX) as connection:
            started = stage.start()
            self._publish(connection, chunks)
            return stage.share(started)

    def _publish(self, connection: socket.socket, chunks: Sequence[bytes]) -> None:
        acks = AckCounter(connection)
        sent = 0
        for chunk in chunks:
            while sent - acks.count > WINDOW - _STEP:
                acks.receive()
            connection.sendall(chunk)
            sent += _STEP
        while acks.count < self.messages.count:
            acks.receive()


@dataclass(frozen=True, slots=True)
class PatientPublishers:
    """Some connections, each waiting for the acknowledgement of a message before it sends the next."""

    address: Address
    messages: Messages
    connections: int

    def __call__(self, stage: Stage) -> Share:
        inboxes = [b"%b%02d" % (_INBOX, number) for number in range(self.connections)]
        own = dataclasses.replace(self.messages, count=self.messages.count // self.connections)
        frames = [own.chunks(1, inbox) for inbox in inboxes]
        sockets = [dial(self.address, greeting=b"SUB %b.* 1\r\n" % inbox) for inbox in inboxes]
        publish = publish_alone if self.connections == 1 else publish_together
        try:
            started = stage.start()
            latencies = publish(sockets, frames)
            return stage.share(started, latencies)
        finally:
            for connection in sockets:
                connection.close()


def publish_alone(sockets: Sequence[socket.socket], frames: Sequence[Sequence[bytes]]) -> list[int]:
    ((connection,), (own,)) = (sockets, frames)
    acks = AckCounter(connection, _SMALL_READ)
    clock = time.perf_counter_ns
    latencies = []
    for number, frame in enumerate(own):
        began = clock()
        connection.send(frame)
        while acks.count <= number:
            acks.receive()
        latencies.append(clock() - began)
    return latencies


def publish_together(sockets: Sequence[socket.socket], frames: Sequence[Sequence[bytes]]) -> list[int]:
    acks = {connection.fileno(): AckCounter(connection, _SMALL_READ) for connection in sockets}
    by_number = {connection.fileno(): index for index, connection in enumerate(sockets)}
    sent = dict.fromkeys(acks, 1)
    busy = len(sockets)
    with select.epoll() as poller:
        for connection, own in zip(sockets, frames, strict=True):
            poller.register(connection, select.EPOLLIN)
            connection.send(own[0])
        while busy:
            for number, _ in ready(poller):
                counter, index = acks[number], by_number[number]
                counter.receive()
                if counter.count < sent[number]:
                    continue
                if counter.count > sent[number]:
                    raise WireError(f"{counter.count} answers to {sent[number]} messages: {counter.last!r}")
                if sent[number] == len(frames[index]):
                    poller.unregister(number)  # what still comes, the end of a read or a PING, does not count
                    busy -= 1
                    continue
                sockets[index].send(frames[index][sent[number]])
                sent[number] += 1
    return []
