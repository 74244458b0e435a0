"""The jobs around consumers: receiving what is pushed, pulling and acknowledging, publishing at a pace.

As everywhere here, each job is a process of its own, and what it sends is made before the clock starts
as far as it can be known.
"""

import re
import time
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.consumer_wire import Deliveries, acks_of, answer_flow_control, create_command, listening
from benchmarks.crew import Share, Stage
from benchmarks.wire import Address, WireError, dial

_STAMP_DIGITS: Final = 20
_STAMPED: Final = re.compile(rb"\r\n@(\d{20})")
_PULLS_AHEAD: Final = 2  # requests that wait at the server, so that it never waits for one


@dataclass(frozen=True, slots=True)
class PushReader:
    """Makes a push consumer and receives everything that is stored."""

    address: Address
    stream: str
    config: dict[str, Any]  # without the deliver subject
    payload: bytes
    count: int

    def __call__(self, stage: Stage) -> Share:
        config = {**self.config, "deliver_subject": "deliver.one"}
        with dial(self.address, greeting=b"SUB deliver.one 1\r\n") as connection:
            deliveries = Deliveries(connection, self.payload)
            started = stage.start()
            connection.sendall(create_command(self.stream, config))
            while deliveries.count < self.count:
                deliveries.receive()
            share = stage.share(started)
            deliveries.require_last(self.count)
            return share


@dataclass(frozen=True, slots=True)
class PullReader:
    """Asks a pull consumer that is there for everything, `batch` at a time."""

    address: Address
    stream: str
    consumer: str
    payload: bytes
    count: int
    batch: int
    acks: str  # "each", "last" of those that came together, or "none"

    def __call__(self, stage: Stage) -> Share:
        body = b'{"batch":%d}' % self.batch
        place = f"{self.stream}.{self.consumer}".encode()
        pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.%b _INBOX.pull %d\r\n%b\r\n" % (place, len(body), body)
        with dial(self.address, greeting=b"SUB _INBOX.pull 1\r\n") as connection:
            deliveries = Deliveries(connection, self.payload)
            receive = deliveries.receive if self.acks == "none" else deliveries.receive_replies
            started = stage.start()
            connection.sendall(pull * _PULLS_AHEAD)
            asked = _PULLS_AHEAD * self.batch
            while deliveries.count < self.count:
                came = receive()
                out = b""
                if came and self.acks == "each":
                    out = acks_of(deliveries.replies)
                elif came and self.acks == "last":
                    out = acks_of(deliveries.replies[-1:])
                while asked - deliveries.count <= (_PULLS_AHEAD - 1) * self.batch and asked < self.count:
                    out += pull
                    asked += self.batch
                if out:
                    connection.sendall(out)
            share = stage.share(started)
            deliveries.require_last(self.count)
            return share


@dataclass(frozen=True, slots=True)
class LiveReader:
    """Receives what consumers that are there push while others publish."""

    address: Address
    payload: bytes
    count: int
    consumers: int

    def __call__(self, stage: Stage) -> Share:
        with dial(self.address, greeting=listening(self.consumers)) as connection:
            deliveries = Deliveries(connection, self.payload)
            started = stage.start()
            while deliveries.count < self.count:
                deliveries.receive()
            return stage.share(started)


def stamped_payload(size: int) -> tuple[bytes, bytes]:
    """Return the parts of a paced message's payload before and after the time."""
    return b"@", b"x" * (size - 1 - _STAMP_DIGITS)


@dataclass(frozen=True, slots=True)
class PacedPublisher:
    """Publishes so many messages a second, each with the time it left; waits for no acknowledgement."""

    address: Address
    subject: bytes
    payload_bytes: int
    count: int
    rate: int

    def __call__(self, stage: Stage) -> Share:
        before, behind = stamped_payload(self.payload_bytes)
        head = b"PUB %b _INBOX.paced %d\r\n%b" % (self.subject, self.payload_bytes, before)
        end = behind + b"\r\n"
        pause_ns = 1_000_000_000 // self.rate
        clock = time.monotonic_ns
        with dial(self.address) as connection:
            due = started = stage.start()
            for _ in range(self.count):
                wait = due - clock()
                if wait > 0:
                    time.sleep(wait / 1e9)
                connection.send(head + b"%020d" % clock() + end)
                due += pause_ns
            return stage.share(started)


@dataclass(frozen=True, slots=True)
class StampReader:
    """Receives paced messages from a push consumer and brings home how long each was on its way."""

    address: Address
    count: int

    def __call__(self, stage: Stage) -> Share:
        latencies: list[int] = []
        tail = b""
        with dial(self.address, greeting=listening(1)) as connection:
            started = stage.start()
            while len(latencies) < self.count:
                data = tail + connection.recv(1 << 16)
                now = time.monotonic_ns()
                if b"-ERR" in data or data == tail:
                    raise WireError(f"not a delivery: {data[:200]!r}")
                end = 0
                for match in _STAMPED.finditer(data):
                    latencies.append(now - int(match[1]))
                    end = match.end()
                if b"HMSG" in data:
                    end = max(end, data.rfind(b"\r\n\r\n") + 4)
                    answer_flow_control(connection, data[:end])
                tail = data[end:]
            return stage.share(started, latencies)
