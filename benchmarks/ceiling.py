"""The ceiling of the load generators: their sockets are joined directly, without a server.

The same loops as in the workloads, on loopback TCP.  If a server's figure comes near its ceiling, the
harness is the limit and the ratio says little.  A ceiling is not a bound that a server could reach: a
server has to copy every byte twice more, on the same processors.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks import crew
from benchmarks.crew import Job, Share, Stage
from benchmarks.latency import Requesters, Responders, Subjects
from benchmarks.load import Progress, Publisher, Subscribers, drain, send_stream
from benchmarks.receive import Inlet, Ordered
from benchmarks.wire import Address, Batch, batch, prepare
from benchmarks.workloads import RATE, Figure, Outcome, outcome, round_trips

_NOWHERE: Final = Address("", 0)


def joined(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Pairs of connected loopback sockets, set up like those to a server."""
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        pairs = []
        for _ in range(count):
            near = prepare(socket.create_connection(listener.getsockname()))
            pairs.append((near, prepare(listener.accept()[0])))
        return pairs


def with_pairs(
    count: int, measure: Callable[[list[tuple[socket.socket, socket.socket]]], Outcome]
) -> Outcome:
    pairs = joined(count)
    try:
        return measure(pairs)
    finally:
        for near, far in pairs:
            near.close()
            far.close()


def as_delivered(source: Batch) -> Batch:
    """The batch as a server would send it on, in chunks of the same numbers of messages."""
    chunks = []
    start = 0
    for messages in source.chunk_messages:
        chunks.append(b"".join(source.frames[start : start + messages]))
        start += messages
    return replace(source, chunks=tuple(chunks))


def one_to_one(scale: float) -> Outcome:
    """The publisher of one-to-one-128 writes straight to its subscriber."""
    source = as_delivered(batch(["bench.one"], 128))
    messages = max(1, int(500_000 * scale))
    progress = Progress.among(1, 1)
    sending = Publisher(_NOWHERE, source, messages, 0, progress)
    taking = Subscribers(_NOWHERE, "", 1, (source,), messages, 0, progress)

    def measure(pairs: list[tuple[socket.socket, socket.socket]]) -> Outcome:
        ((near, far),) = pairs
        shares = crew.run(
            [
                Alone(lambda: send_stream(near, sending)),
                Alone(lambda: drain([Inlet(far, Ordered(source))], taking)),
            ]
        )
        return _rate(messages, shares)

    return with_pairs(1, measure)


def one_to_twenty(scale: float) -> Outcome:
    """The receivers of one-to-twenty, with a writer that only copies each chunk to all of them."""
    source = as_delivered(batch(["bench.one"], 128))
    rounds = max(1, int(60_000 * scale) // source.messages)
    messages = rounds * source.messages
    taking = Subscribers(_NOWHERE, "", 20, (source,), messages, 0, Progress.among(1, 1))

    def measure(pairs: list[tuple[socket.socket, socket.socket]]) -> Outcome:
        def write() -> None:
            for _ in range(rounds):
                for near, _ in pairs:
                    near.sendall(source.chunks[0])

        inlets = [Inlet(far, Ordered(source)) for _, far in pairs]
        shares = crew.run([Alone(write), Alone(lambda: drain(inlets, taking))])
        return _rate(messages * len(pairs), shares)

    return with_pairs(20, measure)


def request_reply(pairs: int, requests: int) -> Callable[[float], Outcome]:
    """Requesters joined straight to their responders: half of the hops, none of the routing."""

    def run(scale: float) -> Outcome:
        each = max(20, int(requests * scale) // pairs)
        subjects = [DirectSubjects.of(pair) for pair in range(pairs)]
        asking = Requesters(_NOWHERE, pairs, each, each // 10)
        answering = Responders(_NOWHERE, pairs, each, each // 10)

        def measure(links: list[tuple[socket.socket, socket.socket]]) -> Outcome:
            near, far = [link[0] for link in links], [link[1] for link in links]
            jobs: list[Job] = [
                lambda stage: asking.measure(near, subjects, stage),
                lambda stage: answering.measure(far, subjects, stage),
            ]
            return round_trips(crew.run(jobs))

        return with_pairs(pairs, measure)

    return run


@dataclass(frozen=True, slots=True)
class Alone:
    """A job that is only its measured part."""

    work: Callable[[], None]

    def __call__(self, stage: Stage) -> Share:
        started = stage.start()
        self.work()
        return stage.share(started)


class DirectSubjects(Subjects):
    """Both sides write frames as a server would deliver them."""

    __slots__ = ()

    @classmethod
    def of(cls, pair: int) -> "DirectSubjects":
        plain = Subjects.of(pair)
        return cls(plain.service, plain.inbox, b"MSG ", b" 1" + plain.reply_rest)

    def request(self, number: int) -> bytes:
        return self.request_delivered(number)


def _rate(messages: int, shares: Sequence[Share]) -> Outcome:
    seconds = (shares[-1].ended_ns - shares[0].started_ns) / 1e9
    return outcome({"": Figure(messages / seconds, RATE)}, shares, seconds)


CEILINGS: Final[dict[str, Callable[[float], Outcome]]] = {
    "one-to-one-128": one_to_one,
    "one-to-twenty": one_to_twenty,
    "request-1": request_reply(1, 3_000),
    "request-50": request_reply(50, 10_000),
}
