"""The workloads: what each row of the report does to a server.

A workload is a name and a function from a server to figures.  Sizes are chosen so that one round takes
about half a second on a fast server; `scale` makes all of them smaller or larger.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import crew
from benchmarks.crew import Job, Share
from benchmarks.latency import Requesters, Responders
from benchmarks.load import WARM_MESSAGES, Idlers, Progress, Publisher, Subscribers, with_idlers
from benchmarks.wire import Address, batch

RATE: Final = "msg/s"
MICROSECONDS: Final = "µs"


@dataclass(frozen=True, slots=True)
class Target:
    """A running server, as the load generators see it."""

    address: Address
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one round."""

    value: float
    unit: str

    @property
    def higher_is_better(self) -> bool:
        return self.unit == RATE


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one round of a workload: figures by the suffix of their row ("" for the only one)."""

    figures: dict[str, Figure]
    server_cores: float  # processors that the server kept busy
    loader_cores: float  # of the busiest load generator; near 1 means that it was the limit
    load_cores: float  # of all load generators together
    server_s: float = 0.0  # processor time of the server; 0 if only the cores are known


Run = Callable[[Target, float], Outcome]


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    run: Run
    rows: tuple[str, ...] = ("",)


def outcome(figures: dict[str, Figure], shares: Sequence[Share], seconds: float) -> Outcome:
    server_s = max(share.server_cpu_s for share in shares)
    return Outcome(
        figures,
        server_cores=server_s / seconds,
        loader_cores=max(share.cpu_s for share in shares) / seconds,
        load_cores=sum(share.cpu_s for share in shares) / seconds,
        server_s=server_s,
    )


def stream(
    *,
    payload_bytes: int = 128,
    messages: int,
    publishers: int = 1,
    receivers: int = 1,
    queue: str = "",
    subjects: int = 1,
    idle: int = 0,
) -> Run:
    """Publishers to receivers; the figure counts deliveries, or publishes when nobody receives."""

    def run(target: Target, scale: float) -> Outcome:
        each = max(1, int(messages * scale) // publishers)
        names = ["bench.one"] if subjects == 1 else [f"bench.{number:05d}" for number in range(subjects)]
        sources = tuple(batch(names, payload_bytes, seed=number) for number in range(publishers))
        warm = max(WARM_MESSAGES // publishers, subjects)
        progress = Progress.among(publishers, 1 if receivers else 0)
        jobs: list[Job] = [
            Publisher(target.address, source, each, warm, progress, index, watched=receivers > 0)
            for index, source in enumerate(sources)
        ]
        if receivers:
            pattern = names[0] if subjects == 1 else ">"
            jobs.append(
                Subscribers(
                    target.address,
                    subscription=f"{pattern} {queue}" if queue else pattern,
                    connections=receivers,
                    sources=sources,
                    messages=each * publishers,
                    warm=warm,
                    progress=progress,
                    grouped=bool(queue),
                )
            )
        shares = _run(jobs, target, idle)
        seconds = (shares[-1].ended_ns - min(share.started_ns for share in shares[:publishers])) / 1e9
        delivered = each * publishers * (receivers if receivers and not queue else 1)
        return outcome({"": Figure(delivered / seconds, RATE)}, shares, seconds)

    return run


def _run(jobs: list[Job], target: Target, idle: int) -> list[Share]:
    if not idle:
        return crew.run(jobs, server_pid=target.pid)
    held = [with_idlers(job) for job in jobs]
    return crew.run([*held, Idlers(target.address, idle)], server_pid=target.pid)[: len(jobs)]


def request_reply(*, pairs: int, requests: int) -> Run:
    """Sequential requests on each of `pairs` connections; the figures are round trip times."""

    def run(target: Target, scale: float) -> Outcome:
        each = max(20, int(requests * scale) // pairs)
        warm = max(10, each // 10)
        shares = crew.run(
            [
                Requesters(target.address, pairs, each, warm),
                Responders(target.address, pairs, each, warm),
            ],
            server_pid=target.pid,
        )
        return round_trips(shares)

    return run


def round_trips(shares: Sequence[Share]) -> Outcome:
    asking = shares[0]
    cuts = statistics.quantiles(asking.latencies_ns, n=100)
    figures = {
        "median": Figure(cuts[49] / 1000, MICROSECONDS),
        "p99": Figure(cuts[98] / 1000, MICROSECONDS),
    }
    return outcome(figures, shares, (asking.ended_ns - asking.started_ns) / 1e9)


_TRIPS: Final = ("median", "p99")

CORE: Final = (
    Workload("one-to-one-128", "one to one, 128 B", stream(messages=500_000)),
    Workload("one-to-one-16", "one to one, 16 B", stream(payload_bytes=16, messages=500_000)),
    Workload("one-to-one-1024", "one to one, 1 KiB", stream(payload_bytes=1024, messages=150_000)),
    Workload("one-to-twenty", "one to twenty, 128 B", stream(messages=60_000, receivers=20)),
    Workload("four-to-one", "four to one, 128 B", stream(messages=400_000, publishers=4)),
    Workload("request-1", "request/reply, 1 connection", request_reply(pairs=1, requests=3_000), _TRIPS),
    Workload("request-50", "request/reply, 50 connections", request_reply(pairs=50, requests=10_000), _TRIPS),
    Workload("publish-only", "publish, nobody listens", stream(messages=1_000_000, receivers=0)),
    Workload("queue-of-4", "queue group of four", stream(messages=300_000, receivers=4, queue="workers")),
    Workload("subjects-10000", "10,000 subjects to >", stream(messages=300_000, subjects=10_000)),
    Workload("idle-1000", "one to one beside 1,000 idle", stream(messages=500_000, idle=1_000)),
)
