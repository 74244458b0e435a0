"""Atomic batches: messages that a stream stores together or not at all.

Each batch is committed by its last message, the only one that is answered.  As a client that wants its rows
stored in order would, the publisher sends the next batch while one is stored, but not its last message.
"""

import itertools
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import crew
from benchmarks.crew import Share, Stage
from benchmarks.stream_wire import AckCounter, Messages, remove, request, stored
from benchmarks.wire import Address, WireError, dial, payloads
from benchmarks.workloads import RATE, Figure, Outcome, Target, Workload, outcome

BATCH: Final = 1_000  # messages; nats-server takes no more
_INBOX: Final = b"_INBOX.bench"
_names: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Batch:
    """One, ready to be sent."""

    rows: bytes
    end: bytes  # the message that commits it


def batches(what: Messages) -> list[Batch]:
    """All messages, in batches."""
    bodies = payloads(64, what.payload_bytes, seed=3)
    made = []
    for start in range(0, what.count, BATCH):
        frames = [_frame(what, start, number, bodies[number % 64]) for number in range(1, BATCH + 1)]
        made.append(Batch(b"".join(frames[:-1]), frames[-1]))
    return made


def _frame(what: Messages, start: int, number: int, body: bytes) -> bytes:
    subject = f"{what.stream}.{number % what.subjects:07d}".encode()
    last = number == BATCH
    block = b"NATS/1.0\r\nNats-Batch-Id: %b-%08d\r\nNats-Batch-Sequence: %d\r\n%b\r\n" % (
        what.stream.encode(),
        start,
        number,
        b"Nats-Batch-Commit: 1\r\n" if last else b"",
    )
    reply = b" %b.%d" % (_INBOX, start) if last else b""
    sizes = b"%d %d" % (len(block), len(block) + len(body))
    return b"HPUB %b%b %b\r\n%b%b\r\n" % (subject, reply, sizes, block, body)


@dataclass(frozen=True, slots=True)
class BatchPublisher:
    address: Address
    messages: Messages

    def __call__(self, stage: Stage) -> Share:
        made = batches(self.messages)
        with dial(self.address, greeting=b"SUB %b.* 1\r\n" % _INBOX) as connection:
            started = stage.start()
            _publish(connection, made)
            return stage.share(started)


def _publish(connection: socket.socket, made: Sequence[Batch]) -> None:
    acks = AckCounter(connection)
    for number, batch in enumerate(made):
        connection.sendall(batch.rows)
        while acks.count < number:
            acks.receive()
        connection.sendall(batch.end)
    while acks.count < len(made):
        acks.receive()


def batching(*, messages: int, payload_bytes: int = 128) -> Workload:
    """A workload without a name."""

    def run(target: Target, scale: float) -> Outcome:
        count = max(2, int(messages * scale) // BATCH) * BATCH
        what = Messages(f"A{next(_names):05d}", payload_bytes, count, subjects=10)
        config = {"name": what.stream, "subjects": [what.pattern], "allow_atomic": True}
        request(target.address, f"STREAM.CREATE.{what.stream}", config)
        shares = crew.run([BatchPublisher(target.address, what)], server_pid=target.pid)
        there = stored(target.address, what.stream)
        remove(target.address, what.stream)
        if there != count:
            raise WireError(f"{there} of {count} messages were stored")
        seconds = (shares[0].ended_ns - shares[0].started_ns) / 1e9
        return outcome({"": Figure(there / seconds, RATE)}, shares, seconds)

    return Workload("", "", run)
