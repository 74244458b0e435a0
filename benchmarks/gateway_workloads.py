"""The table of gateway workloads: what callers over HTTP get, and who spends the time for it.

Caller, gateway and broker share the machine, so the processor time that each of the three takes for a message
says more than the rate: the rate is at most the number of processors divided by their sum.
"""

import base64
import functools
import itertools
from collections.abc import Callable
from typing import Final

from benchmarks import crew
from benchmarks.compare import Row, row_of
from benchmarks.crew import Job
from benchmarks.gateway_load import BatchPoster, Posters, StreamReader, held
from benchmarks.gateway_process import OTHERS, OWN, GatewayProcess
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_store import Prepared, StoreWorkload
from benchmarks.stream_wire import Messages, create, remove, stored
from benchmarks.wire import Address, WireError, payloads
from benchmarks.workloads import MICROSECONDS, RATE, Figure, Outcome
from tests.kits.reference import Server, ServerProcess

_CONNECTIONS: Final = 32
_PAYLOAD: Final = 128
_POSTS: Final = 10_000
_BATCH: Final = 200_000
_READ: Final = 100_000
_WARM: Final = 0.1
KIBIBYTES: Final = "KiB"
_HELD_ROWS: Final = ("", "post beside")
_ROWS: Final = ("", "cpu of the caller", "cpu of the gateway", "cpu of the broker")


class _Behind(Prepared):
    """A broker with a gateway in front of it."""

    def __init__(self, kind: Server, on: str = OWN) -> None:
        self._broker = ServerProcess(kind, jetstream=True).start()
        self._broker_address = Address(self._broker.host, self._broker.port)
        try:
            self.gateway = GatewayProcess(self._broker.client_url, on)
        except BaseException:
            self._broker.close()
            raise
        self._numbers = itertools.count(1)

    def stream(self, count: int) -> Messages:
        """A stream that is empty yet."""
        messages = Messages(f"G{next(self._numbers)}", _PAYLOAD, count)
        create(self._broker_address, messages, "file")
        return messages

    def measure(self, job: Job, count: int) -> Outcome:
        broker = crew.process_cpu_s(self._broker.pid)
        gateway = self.gateway.cpu_s()
        (share,) = crew.run([job])
        gateway = self.gateway.cpu_s() - gateway
        broker = crew.process_cpu_s(self._broker.pid) - broker
        seconds = (share.ended_ns - share.started_ns) / 1e9
        used = (share.cpu_s, gateway, broker)
        figures = {"": Figure(count / seconds, RATE)}
        for row, spent_s in zip(_ROWS[1:], used, strict=True):
            figures[row] = Figure(spent_s * 1e6 / count, MICROSECONDS)
        cores = [spent_s / seconds for spent_s in used]
        return Outcome(figures, cores[1] + cores[2], cores[0], cores[0])

    def check_stored(self, messages: Messages) -> None:
        there = stored(self._broker_address, messages.stream)
        if there != messages.count:
            raise WireError(f"{there} of {messages.count} messages were stored")
        remove(self._broker_address, messages.stream)

    def close(self) -> None:
        self.gateway.close()
        self._broker.close()


class _Posts(_Behind):
    """One message a request, at 32 connections."""

    def __init__(self, kind: Server, scale: float, *, path: str, encoded: bool, on: str = OWN) -> None:
        super().__init__(kind, on)
        self._path = path
        (body,) = payloads(1, _PAYLOAD, seed=3)
        self._body = base64.b64encode(body) if encoded else body
        self._count = max(_CONNECTIONS, int(_POSTS * scale))
        self._post(max(_CONNECTIONS, int(self._count * _WARM)))

    def run(self) -> Outcome:
        return self._post(self._count)

    def _post(self, count: int) -> Outcome:
        messages = self.stream(count)
        path = f"{self._path}/{messages.stream}.a"
        posters = Posters(self.gateway.address, path, self._body, _CONNECTIONS, count)
        found = self.measure(posters, count)
        self.check_stored(messages)
        return found


class _Batches(_Behind):
    """All messages in one request."""

    def __init__(self, kind: Server, scale: float) -> None:
        super().__init__(kind)
        self._count = max(1000, int(_BATCH * scale))
        self._post(int(self._count * _WARM))

    def run(self) -> Outcome:
        return self._post(self._count)

    def _post(self, count: int) -> Outcome:
        messages = self.stream(count)
        poster = BatchPoster(self.gateway.address, f"{messages.stream}.a", _PAYLOAD, count)
        found = self.measure(poster, count)
        self.check_stored(messages)
        return found


class _Reads(_Behind):
    """A stream from its first message to the last, by an answer that does not end."""

    def __init__(self, kind: Server, scale: float, *, accept: str, marker: bytes) -> None:
        super().__init__(kind)
        self._messages = self.stream(max(1000, int(_READ * scale)))
        crew.run([WindowPublisher(self._broker_address, self._messages)])
        path = f"/v2/streams/{self._messages.stream}/live"
        self._reader = StreamReader(self.gateway.address, path, accept, marker, self._messages.count)

    def run(self) -> Outcome:
        return self.measure(self._reader, self._messages.count)


class _Held(_Behind):
    """Connections that stay: what each costs the gateway, and that others are served beside them."""

    def __init__(self, kind: Server, scale: float, *, connections: int, live: bool) -> None:
        super().__init__(kind)
        self._connections = max(100, int(connections * scale))
        self._live = live

    def run(self) -> Outcome:
        messages = self.stream(1)
        path = f"/v2/streams/{messages.stream}/live" if self._live else "/v1/data/alive"
        before = self.gateway.memory_kib()
        with held(self.gateway.address, path, self._connections, stays=self._live):
            cost = (self.gateway.memory_kib() - before) / self._connections
            poster = Posters(self.gateway.address, f"/v2/subjects/{messages.stream}.a", b"x", 1, 100)
            (share,) = crew.run([poster])
        seconds = (share.ended_ns - share.started_ns) / 1e9
        remove(self._broker_address, messages.stream)
        figures = {"": Figure(cost, KIBIBYTES), "post beside": Figure(seconds * 1e6 / 100, MICROSECONDS)}
        return Outcome(figures, 0.0, 0.0, 0.0)


_FIRST: Final = functools.partial(_Posts, path="/v1/data/subject", encoded=True)
_SECOND: Final = functools.partial(_Posts, path="/v2/subjects", encoded=False)

GATEWAY: Final = (
    StoreWorkload("gateway-post", f"POST /v2/subjects, {_CONNECTIONS} connections", _ROWS, _SECOND, 9),
    StoreWorkload("gateway-post-v1", f"POST /v1/data, {_CONNECTIONS} connections", _ROWS, _FIRST, 9),
    StoreWorkload("gateway-batch", "POST /v2/messages, NDJSON", _ROWS, _Batches, 9),
    StoreWorkload(
        "gateway-lines",
        "GET …/live, NDJSON",
        _ROWS,
        functools.partial(_Reads, accept="application/x-ndjson", marker=b'"seq":'),
        9,
    ),
    StoreWorkload(
        "gateway-events",
        "GET …/live, Server-Sent Events",
        _ROWS,
        functools.partial(_Reads, accept="text/event-stream", marker=b"\ndata: {"),
        9,
    ),
    StoreWorkload(
        "gateway-idle",
        "memory of an idle connection",
        _HELD_ROWS,
        functools.partial(_Held, connections=9_900, live=False),
        1,
    ),
    StoreWorkload(
        "gateway-live",
        "memory of a live reader",
        _HELD_ROWS,
        functools.partial(_Held, connections=1_000, live=True),
        1,
    ),
)
HTTP_SERVERS: Final = tuple(f"gateway-on-{name}" for name in OTHERS)


def compare_servers(
    row: str, kind: Server, *, rounds: int, scale: float, progress: Callable[[str], None]
) -> list[Row]:
    """The gateway on its own HTTP server beside the same application on another one."""
    other = row.removeprefix("gateway-on-")
    title = f"POST /v1/data, theirs on {other}"
    sides: list[_Posts] = []
    outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
    try:
        for name in (OWN, other):
            sides.append(_FIRST(kind, scale, on=name))
        for number in range(rounds):
            progress(f"{title}: round {number + 1} of {rounds}")
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                outcomes[index].append(sides[index].run())
    finally:
        for side in sides:
            side.close()
    rows = ("", "cpu of the gateway")
    return [
        row_of(f"{row} {each}".strip(), f"{title}, {each}" if each else title, each, *outcomes)
        for each in rows
    ]
