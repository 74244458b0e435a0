"""Reading a stream as Arrow: how fast, and what it costs those who publish meanwhile.

    python -m benchmarks arrow [--rounds 5] [--messages 1000000]

Reading: a million messages of 128 B into pyarrow in one request, against the same messages taken from a push
consumer and only counted, which is the most that NATS gives over one connection.  Disturbance: publishing
with 4,000 unacknowledged messages into another stream, alone, beside a reader of ranges, and beside a reader
of push consumers, each reading all the time.  Rounds take turns; figures are medians, ratios are of the same
round.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import urlopen

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import crew, machine
from benchmarks.consumer_load import PushReader
from benchmarks.crew import Share, Stage
from benchmarks.servers import streaming
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_wire import Messages, create, remove
from benchmarks.wire import Address, dial, payloads
from benchmarks.workloads import Target
from tests.kits.reference import ServerKind

_PAYLOAD: Final = 128
_BODY: Final = payloads(1, _PAYLOAD, seed=3)[0]
_PUSH: Final = {
    "ack_policy": "none",
    "flow_control": True,
    "idle_heartbeat": 5_000_000_000,
    "deliver_policy": "all",
    "replay_policy": "instant",
}


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """One range into pyarrow."""

    url: str
    count: int
    query: str = ""

    def __call__(self, stage: Stage) -> Share:
        started = stage.start()
        self.read()
        return stage.share(started)

    def read(self) -> int:
        with urlopen(self.url + self.query, timeout=120) as response:
            rows: int = sum(batch.num_rows for batch in pa.ipc.open_stream(response))
        if rows != self.count:
            raise ValueError(f"{rows} rows instead of {self.count}")
        return rows


@dataclass(frozen=True, slots=True)
class Publishing:
    """Publishes, and tells the reader beside it when that is done."""

    publisher: WindowPublisher
    counters: Any

    def __call__(self, stage: Stage) -> Share:
        share = self.publisher(stage)
        self.counters[0] = 1
        return share


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Reads over and over while somebody publishes."""

    read: Callable[[], int]
    counters: Any

    def __call__(self, stage: Stage) -> Share:
        started = stage.start()
        while not self.counters[0]:
            self.counters[1] += self.read()
        return stage.share(started)


def arrow_url(address: Address, stream: str) -> str:
    with dial(address, greeting=b"SUB _INBOX.a 1\r\n") as connection:
        connection.sendall(b"PUB $MILLSTREAM.ARROW.INFO _INBOX.a 0\r\n\r\n")
        seen = b""
        while seen.count(b"\r\n") < 2:
            seen += connection.recv(65536)
    info = json.loads(seen.partition(b"\r\n")[2].partition(b"\r\n")[0])
    return f"{info['urls'][0]}/arrow/v1/streams/{stream}"


def push_once(address: Address, count: int) -> int:
    """Take everything from a push consumer, within a job."""
    PushReader(address, "S", dict(_PUSH), _BODY, count)(_Alone())  # type: ignore[arg-type]
    return count


class _Alone:
    """A stage for a job inside another job."""

    def start(self) -> int:
        return 0

    def share(self, started_ns: int) -> None:
        return None


def reading(target: Target, count: int, rounds: int) -> Table:
    plain = Messages("S", _PAYLOAD, count, subjects=100, one_payload=_BODY)
    headed = Messages("H", _PAYLOAD, count, subjects=100, with_id=True)
    for messages in (plain, headed):
        create(target.address, messages, "file")
        crew.run([WindowPublisher(target.address, messages)])
    rows: dict[str, Any] = {
        "arrow": ArrowReader(arrow_url(target.address, "S"), count),
        "arrow, a header each": ArrowReader(arrow_url(target.address, "H"), count),
        "arrow, columns seq and data": ArrowReader(
            arrow_url(target.address, "S"), count, "?columns=seq,data"
        ),
        "push consumer, only counted": PushReader(target.address, "S", dict(_PUSH), _BODY, count),
    }
    shares: dict[str, list[Share]] = {name: [] for name in rows}
    for number in range(rounds):
        for name in sorted(rows, reverse=number % 2 == 1):
            shares[name] += crew.run([rows[name]], server_pid=target.pid)
    table = Table("reading", "rows/s", "best", "server, ns a row", "reader, ns a row")
    for name, taken in shares.items():
        rates = [count * 1e9 / (each.ended_ns - each.started_ns) for each in taken]
        server = statistics.median(each.server_cpu_s for each in taken) * 1e9 / count
        reader = statistics.median(each.cpu_s for each in taken) * 1e9 / count
        cells = f"{statistics.median(rates):,.0f}", f"{max(rates):,.0f}", f"{server:.0f}", f"{reader:.0f}"
        table.add_row(name, *cells)
    return table


def disturbance(target: Target, count: int, rounds: int) -> Table:
    reader = ArrowReader(arrow_url(target.address, "S"), count)
    beside: dict[str, Callable[[], int] | None] = {
        "nobody": None,
        "a reader of Arrow": reader.read,
        "a reader of push consumers": lambda: push_once(target.address, count),
    }
    rates: dict[str, list[float]] = {name: [] for name in beside}
    read: dict[str, list[float]] = {name: [] for name in beside}
    for number in range(rounds):
        for name in sorted(beside, reverse=number % 2 == 1):
            fresh = Messages("P", _PAYLOAD, count // 2)
            create(target.address, fresh, "file")
            counters = crew.shared_counters(2)
            jobs: list[Any] = [Publishing(WindowPublisher(target.address, fresh), counters)]
            meanwhile = beside[name]
            if meanwhile is not None:
                jobs.append(Meanwhile(meanwhile, counters))
            share = crew.run(jobs, server_pid=target.pid)[0]
            seconds = (share.ended_ns - share.started_ns) / 1e9
            rates[name].append(fresh.count / seconds)
            read[name].append(counters[1] / seconds)
            remove(target.address, "P")
    table = Table("publishing beside", "acknowledged/s", "ratio", "rows read/s")
    for name in beside:
        ratio = statistics.median(
            mine / alone for mine, alone in zip(rates[name], rates["nobody"], strict=True)
        )
        median = statistics.median(rates[name])
        table.add_row(name, f"{median:,.0f}", f"{ratio:.2f}", f"{statistics.median(read[name]):,.0f}")
    return table


def compare(rounds: int, messages: int, console: Console) -> None:
    """Measure the Arrow endpoint."""
    console.print(machine.describe())
    with streaming(ServerKind.MILLSTREAM) as target:
        console.print(reading(target, messages, rounds))
        console.print(disturbance(target, messages, rounds))
