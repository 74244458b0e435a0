"""The workloads of consumers: reading what is stored in several ways, and reading while others publish.

Each kind of server is started once and filled; a round makes its consumers, uses them and removes them.
Beside a rate stands the server's processor time for each message, which says more than the rate on a
machine that does other things as well.
"""

import functools
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import crew
from benchmarks.consumer_idle import IDLE
from benchmarks.consumer_load import LiveReader, PacedPublisher, PullReader, PushReader, StampReader
from benchmarks.consumer_wire import Maker, create_command
from benchmarks.crew import Job, Share, Stage
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_store import MILLION, Prepared, StoreWorkload
from benchmarks.stream_wire import AckCounter, Messages, create, remove, request
from benchmarks.wire import Address, dial, payloads
from benchmarks.workloads import MICROSECONDS, RATE, Figure, Outcome, outcome
from tests.kits.reference import Server, ServerProcess

_STREAM: Final = "C"
_BATCH: Final = 256
_CONSUMERS: Final = 100
_PACE: Final = 10_000  # messages a second
_MATCHES: Final = 1_000
_SMALL: Final = 16  # bytes of payload where only their number counts
_FILL_STEP: Final = 1_000
_FILL_WINDOW: Final = 8_000
_PUSH: Final = {
    "ack_policy": "none",
    "flow_control": True,
    "idle_heartbeat": 5_000_000_000,
    "mem_storage": True,
    "max_deliver": 1,
}


@dataclass(frozen=True, slots=True)
class Filler:
    """Stores so many messages; every `sparse`-th has a subject of its own kind."""

    address: Address
    payload: bytes
    count: int
    sparse: int = 0

    def __call__(self, stage: Stage) -> Share:
        end = b" _INBOX.fill %d\r\n%b\r\n" % (len(self.payload), self.payload)
        usual = (b"PUB C.usual" + end) * _FILL_STEP
        with dial(self.address, greeting=b"SUB _INBOX.fill 1\r\n") as connection:
            acks = AckCounter(connection)
            started = stage.start()
            for sent in range(0, self.count, _FILL_STEP):
                while sent - acks.count > _FILL_WINDOW:
                    acks.receive()
                connection.sendall(self._with_rare(sent, end) if self.sparse else usual)
            while acks.count < self.count:
                acks.receive()
            return stage.share(started)

    def _with_rare(self, start: int, end: bytes) -> bytes:
        return b"".join(
            (b"PUB C.rare" if number % self.sparse == 0 else b"PUB C.usual") + end
            for number in range(start, start + _FILL_STEP)
        )


def _whole_steps(count: float) -> int:
    return max(1, round(count / _FILL_STEP)) * _FILL_STEP


class Filled(Prepared):
    """A server with stored messages; a round is one consumer that gets `expected` of them."""

    def __init__(
        self, kind: Server, scale: float, *, messages: int, payload_bytes: int = 128, sparse: int = 0
    ) -> None:
        self._count = _whole_steps(messages * scale)
        (self._payload,) = payloads(1, payload_bytes, seed=5)
        self._numbers = itertools.count(1)
        self._server = ServerProcess(kind, jetstream=True).start()
        try:
            self._address = Address(self._server.host, self._server.port)
            create(self._address, Messages(_STREAM, payload_bytes, 0), "file")
            sparse = self._count // sparse if sparse else 0
            crew.run([Filler(self._address, self._payload, self._count, sparse)])
        except BaseException:
            self._server.close()
            raise

    def _measure(self, job: Job, count: int) -> Outcome:
        shares = crew.run([job], server_pid=self._server.pid)
        return _rates(shares, count)

    def close(self) -> None:
        self._server.close()


class Pushed(Filled):
    """Ephemeral push consumers without acks."""

    def __init__(self, kind: Server, scale: float) -> None:
        super().__init__(kind, scale, messages=MILLION)

    def run(self) -> Outcome:
        reader = PushReader(self._address, _STREAM, dict(_PUSH), self._payload, self._count)
        return self._measure(reader, self._count)


class Needles(Filled):
    """A push consumer of the few messages with a subject that is rare."""

    def __init__(self, kind: Server, scale: float) -> None:
        super().__init__(kind, scale, messages=10 * MILLION, payload_bytes=_SMALL, sparse=_MATCHES)

    def run(self) -> Outcome:
        config = {**_PUSH, "filter_subject": "C.rare"}
        found = self._measure(PushReader(self._address, _STREAM, config, self._payload, _MATCHES), _MATCHES)
        seconds = _MATCHES / found.figures[""].value
        found.figures["time"] = Figure(seconds * 1000, "ms")
        return found


class Pulled(Filled):
    """Durable pull consumers."""

    def __init__(self, kind: Server, scale: float, *, policy: str, acks: str) -> None:
        super().__init__(kind, scale, messages=300_000)
        self._policy = policy
        self._acks = acks

    def run(self) -> Outcome:
        name = f"pull{next(self._numbers)}"
        config: dict[str, Any] = {"durable_name": name, "ack_policy": self._policy}
        if self._policy != "none":
            config["max_ack_pending"] = 10_000
        place = f"{_STREAM}.{name}"
        request(self._address, f"CONSUMER.DURABLE.CREATE.{place}", {"stream_name": _STREAM, "config": config})
        count = self._count - self._count % _BATCH
        reader = PullReader(self._address, _STREAM, name, self._payload, count, _BATCH, self._acks)
        found = self._measure(reader, count)
        request(self._address, f"CONSUMER.DELETE.{place}", {})
        return found


class Live(Prepared):
    """Consumers that push while a window of messages is published; a round has a stream of its own."""

    def __init__(self, kind: Server, scale: float, *, consumers: int, messages: int) -> None:
        self._count = max(consumers, int(messages * scale))
        self._consumers = consumers
        self._paced = max(500, int(_PACE * scale)) if consumers == 1 else 0
        self._server = ServerProcess(kind, jetstream=True).start()
        self._address = Address(self._server.host, self._server.port)
        self._numbers = itertools.count(1)

    def run(self) -> Outcome:
        (payload,) = payloads(1, 128, seed=3)
        stream = f"L{next(self._numbers):04d}"
        messages = Messages(stream, 128, self._count, subjects=self._consumers, one_payload=payload)
        self._prepare(messages)
        shares = crew.run(
            [
                WindowPublisher(self._address, messages),
                LiveReader(self._address, payload, self._count, self._consumers),
            ],
            server_pid=self._server.pid,
        )
        remove(self._address, stream)
        found = _rates(shares, self._count)
        if self._paced:
            found.figures["median"] = Figure(self._latency(), MICROSECONDS)
        return found

    def _prepare(self, messages: Messages) -> None:
        create(self._address, messages, "file")
        maker = Maker(self._address)
        commands = [
            create_command(
                messages.stream,
                {**_PUSH, "deliver_subject": f"deliver.{number}", "durable_name": f"live{number}"}
                | ({"filter_subject": f"{messages.stream}.{number:07d}"} if self._consumers > 1 else {}),
            )
            for number in range(self._consumers)
        ]
        maker.make(commands, at_once=1)
        maker.close()

    def _latency(self) -> float:
        """Return the latency of paced messages, from publishing to receiving, in µs."""
        stream = f"L{next(self._numbers):04d}"
        self._prepare(Messages(stream, 128, 1))
        publisher = PacedPublisher(self._address, f"{stream}.one".encode(), 128, self._paced, _PACE)
        shares = crew.run([publisher, StampReader(self._address, self._paced)])
        remove(self._address, stream)
        return statistics.median(shares[1].latencies_ns) / 1000

    def close(self) -> None:
        self._server.close()


def _rates(shares: Sequence[Share], count: int) -> Outcome:
    """The rate, and the processor time of the server for each message."""
    seconds = (shares[-1].ended_ns - min(share.started_ns for share in shares)) / 1e9
    busy_us = max(share.server_cpu_s for share in shares) * 1e6
    figures = {"": Figure(count / seconds, RATE), "cpu": Figure(busy_us / count, MICROSECONDS)}
    return outcome(figures, shares, seconds)


_RATE_AND_CPU: Final = ("", "cpu")

CONSUMERS: Final = (
    StoreWorkload("push-stored", "push, ack none, flow control, 128 B", _RATE_AND_CPU, Pushed, 9),
    StoreWorkload(
        "pull-explicit",
        f"pull, batch {_BATCH}, every message acked",
        _RATE_AND_CPU,
        functools.partial(Pulled, policy="explicit", acks="each"),
        9,
    ),
    StoreWorkload(
        "pull-all",
        f"pull, batch {_BATCH}, ack all",
        _RATE_AND_CPU,
        functools.partial(Pulled, policy="all", acks="last"),
        9,
    ),
    StoreWorkload(
        "pull-none",
        f"pull, batch {_BATCH}, ack none",
        _RATE_AND_CPU,
        functools.partial(Pulled, policy="none", acks="none"),
        9,
    ),
    StoreWorkload(
        "publish-and-push",
        "publish and push together",
        ("", "cpu", "median"),
        functools.partial(Live, consumers=1, messages=150_000),
        9,
    ),
    StoreWorkload(
        "hundred-filters",
        f"{_CONSUMERS} push consumers, a subject each",
        _RATE_AND_CPU,
        functools.partial(Live, consumers=_CONSUMERS, messages=100_000),
        9,
    ),
    *IDLE,
    StoreWorkload("needles", "1,000 matches in 10 M messages (x scale)", ("time", "cpu"), Needles, 5),
)
