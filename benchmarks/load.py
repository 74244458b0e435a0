"""Streams of messages: publishers, subscribers and idle connections, each a job for a crew.

A publisher writes chunks of ready-made PUB frames and stays at most a window ahead of the slowest
subscriber: without that, both servers would cut the subscriber off as a slow consumer, and the figure
would be of a memory queue.  Subscribers count and check (``receive``) in one epoll loop for each process.
Time runs from the first publish to the last byte received.

Every job goes through the same steps: connect, meet, warm up (every message checked), meet, measure.
"""

import itertools
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks import crew
from benchmarks.crew import Job, Share, Stage
from benchmarks.receive import Check, Inlet, Mixed, Ordered, first, ready, require_all
from benchmarks.wire import Address, Batch, WireError, dial, flush

WINDOW_BYTES: Final = 8 * 1024 * 1024  # far below max_pending (64 MiB), far above the socket buffers
_NAP_S: Final = 0.0002
WARM_MESSAGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of all jobs, in shared memory.  Units are messages."""

    sent: Any  # by publisher
    received: Any  # by subscriber process: of its slowest connection, or of its group together

    @classmethod
    def among(cls, publishers: int, receivers: int) -> "Progress":
        return cls(crew.shared_counters(publishers), crew.shared_counters(receivers))

    def ahead(self) -> int:
        return int(sum(self.sent) - min(self.received))


@dataclass(frozen=True, slots=True)
class Publisher:
    address: Address
    source: Batch
    messages: int
    warm: int
    progress: Progress
    index: int = 0
    watched: bool = True  # somebody receives, so keep the window

    def __call__(self, stage: Stage) -> Share:
        with dial(self.address) as connection:
            stage.meet()
            connection.sendall(b"".join(first_published(self.source, self.warm)))
            flush(connection)
            started = stage.start()
            send_stream(connection, self)
            flush(connection)
            return stage.share(started)


def first_published(source: Batch, count: int) -> list[bytes]:
    """The PUB frames of the first `count` messages."""
    frames = []
    for chunk, messages in zip(source.chunks, source.chunk_messages, strict=True):
        size = len(chunk) // messages
        frames += [chunk[start : start + size] for start in range(0, len(chunk), size)]
    return list(itertools.islice(itertools.cycle(frames), count))


def send_stream(connection: socket.socket, plan: Publisher) -> None:
    """Send the publisher's messages from its batch, keeping the window."""
    source, sent, progress = plan.source, plan.progress.sent, plan.progress
    window = WINDOW_BYTES // source.frame_bytes
    left = plan.messages
    for chunk, messages in itertools.cycle(zip(source.chunks, source.chunk_messages, strict=True)):
        if messages >= left:
            connection.sendall(memoryview(chunk)[: len(chunk) // messages * left])
            return
        connection.sendall(chunk)
        left -= messages
        if plan.watched:
            sent[plan.index] += messages
            while progress.ahead() > window:
                time.sleep(_NAP_S)


@dataclass(frozen=True, slots=True)
class Subscribers:
    """Several subscriptions, each on its own connection, all in one process."""

    address: Address
    subscription: str  # what follows SUB, without the sid
    connections: int
    sources: tuple[Batch, ...]  # of every publisher that reaches them
    messages: int  # to each connection, or to the group together
    warm: int  # of each publisher
    progress: Progress
    index: int = 0
    grouped: bool = False  # a queue group: the messages are spread over the connections

    def __call__(self, stage: Stage) -> Share:
        greeting = f"SUB {self.subscription} 1\r\n".encode()
        sockets = [dial(self.address, greeting=greeting) for _ in range(self.connections)]
        try:
            inlets = [Inlet(connection, self._check()) for connection in sockets]
            stage.meet()
            self._warm_up(inlets)
            started = stage.start()
            drain(inlets, self)
            share = stage.share(started)
            self._require_exact(inlets)
            for connection in sockets:
                flush(connection)  # a message too many would show here
            return share
        finally:
            for connection in sockets:
                connection.close()

    @property
    def frame_bytes(self) -> int:
        return self.sources[0].frame_bytes

    def _require_exact(self, inlets: Sequence[Inlet]) -> None:
        goal = self.messages * self.frame_bytes
        counts = [sum(inlet.received for inlet in inlets)] if self.grouped else [i.received for i in inlets]
        if any(count != goal for count in counts):
            raise WireError(f"expected {goal} bytes, got {counts}")

    def _check(self) -> Check:
        return Mixed(self.sources) if self.grouped or len(self.sources) > 1 else Ordered(self.sources[0])

    def _warm_up(self, inlets: Sequence[Inlet]) -> None:
        frames = [frame for source in self.sources for frame in first(source, self.warm)]
        size = len(frames) * self.frame_bytes
        for group in [inlets] if self.grouped else [[inlet] for inlet in inlets]:
            require_all(gather(group, size), frames, self.frame_bytes)
        for inlet in inlets:
            inlet.restart()


def gather(inlets: Sequence[Inlet], size: int) -> bytes:
    """Read `size` bytes of whole frames from a group of connections together."""
    parts = {inlet: bytearray() for inlet in inlets}
    with select.epoll() as poller:
        by_number = _register(poller, inlets)
        while sum(map(len, parts.values())) < size:
            for number, _ in ready(poller):
                inlet = by_number[number]
                parts[inlet] += inlet.take()
    return b"".join(parts.values())


def drain(inlets: Sequence[Inlet], plan: Subscribers) -> None:
    """Read until everything expected has arrived, telling the publishers how far it is."""
    progress, index, frame_bytes = plan.progress.received, plan.index, plan.frame_bytes
    goal = plan.messages * frame_bytes
    if len(inlets) == 1:
        (inlet,) = inlets
        while inlet.received < goal:
            inlet.read()
            progress[index] = inlet.received // frame_bytes
        return
    level: Callable[[], int] = (
        (lambda: sum([inlet.received for inlet in inlets]))
        if plan.grouped
        else (lambda: min([inlet.received for inlet in inlets]))
    )
    with select.epoll() as poller:
        by_number = _register(poller, inlets)
        while (reached := level()) < goal:
            progress[index] = reached // frame_bytes
            for number, _ in ready(poller):
                by_number[number].read()


def _register(poller: select.epoll, inlets: Sequence[Inlet]) -> dict[int, Inlet]:
    for inlet in inlets:
        poller.register(inlet.connection, select.EPOLLIN)
    return {inlet.connection.fileno(): inlet for inlet in inlets}


@dataclass(frozen=True, slots=True)
class Idlers:
    """Connections with one subscription each that nothing is ever sent to."""

    address: Address
    connections: int
    sockets: list[socket.socket] = field(default_factory=list)

    def __call__(self, stage: Stage) -> Share:
        try:
            for number in range(self.connections):
                self.sockets.append(dial(self.address, greeting=f"SUB idle.{number} 1\r\n".encode()))
            stage.meet()
            started = stage.start()
            stage.meet()
            return stage.share(started)
        finally:
            for connection in self.sockets:
                connection.close()


def with_idlers(job: Job) -> Job:
    """Return the job with idle connections that stay open until it has ended."""

    def held(stage: Stage) -> Share:
        share = job(stage)
        stage.meet()
        return share

    return held
