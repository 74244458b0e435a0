"""Rows a second into Spark: over the wire and as Arrow, beside plain Python, nats-py and the drain.

All read the same stream from the same server with the same columns, in one task where nothing else is said.
The drain is not in Spark: it is what one connection gives when nobody looks at what comes.  Before the first
round every way sums up what it read, and all must agree.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks import crew
from benchmarks.contest import Entrant, Measured
from benchmarks.crew import Share, Stage, process_cpu_s
from benchmarks.spark_plain import drain
from benchmarks.spark_session import Spark, to_noop, to_parquet
from benchmarks.spark_streams import HEADED, MARK, PLAIN, Site
from benchmarks.wire import WireError
from tests.kits.reference import ServerKind

BAR_WIRE: Final = 2.0
BAR_ARROW: Final = 4.0
OR_ARROW: Final = 1_500_000.0
_NATS_PY_SHARE: Final = 20  # it reads a twentieth
_WARM: Final = 200_000
_TARGETS: Final = {"noop": to_noop, "Parquet": to_parquet}
_CHECK: Final = (
    "count(*)",
    "sum(seq)",
    "sum(crc32(data))",
    "sum(xxhash64(stream, subject, unix_micros(time), map_entries(headers)) % 1000003)",
)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to get a stream into Spark."""

    name: str
    title: str
    format: str
    options: tuple[tuple[str, str], ...] = ()
    share: int = 1
    bar: float | None = None
    or_value: float | None = None


_PLAIN: Final = Way("plain", "plain Python", "plain-python")
_WIRE: Final = Way("wire", "wire", "jetstream", (("transport", "pull"),), bar=BAR_WIRE)
_ARROW: Final = Way(
    "arrow", "Arrow", "jetstream", (("transport", "arrow"),), bar=BAR_ARROW, or_value=OR_ARROW
)
_NATS_PY: Final = Way("nats-py", "nats-py", "nats-py", share=_NATS_PY_SHARE)
_READY: Final = Way("ready", "ready-made batches", "ready-made")


def _two(way: Way) -> Way:
    options = (*way.options, ("minPartitions", "2"))
    return Way(f"{way.name}-2", f"{way.title}, two tasks", way.format, options)


def _free(way: Way) -> Way:
    """Return the way without a bar, because writing Parquet limits it."""
    return replace(way, bar=None, or_value=None)


_WAYS: Final[dict[tuple[ServerKind, str], tuple[Way, ...]]] = {
    (ServerKind.MILLSTREAM, "noop"): (_PLAIN, _WIRE, _two(_WIRE), _ARROW, _two(_ARROW), _READY),
    (ServerKind.MILLSTREAM, "Parquet"): (_PLAIN, _free(_WIRE), _free(_ARROW), _two(_ARROW)),
    (ServerKind.NATS_SERVER, "noop"): (_PLAIN, _WIRE, _NATS_PY),
    (ServerKind.NATS_SERVER, "Parquet"): (_PLAIN, _free(_WIRE)),
}


@dataclass(frozen=True, slots=True)
class Drainer:
    """The drain as a process of its own."""

    site: Site
    stream: str
    count: int

    def __call__(self, stage: Stage) -> Share:
        started = stage.start()
        drain(self.site.address, self.stream, self.count, MARK)
        return stage.share(started)

    def measure(self) -> Measured:
        (share,) = crew.run([self], server_pid=self.site.pid)
        seconds = (share.ended_ns - share.started_ns) / 1e9
        server_ns = share.server_cpu_s * 1e9 / self.count
        return Measured(self.count / seconds, server_ns, share.cpu_s * 1e9 / self.count)


@dataclass(frozen=True, slots=True)
class Read:
    """A way, a stream and where it goes."""

    spark: Spark
    site: Site
    way: Way
    stream: str
    count: int
    target: str

    @property
    def rows(self) -> int:
        return self.count // self.way.share

    def table(self) -> Any:
        options = dict(self.way.options)
        if self.way.format == "jetstream":
            options |= {
                "nats.servers": self.site.url,
                "subscribe": self.stream,
                "endingOffsets": str(self.rows + 1),
                "maxRecordsPerPartition": str(self.rows),
            }
        else:
            address = self.site.address
            options |= {"host": address.host, "port": str(address.port)}
            options |= {"stream": self.stream, "count": str(self.rows)}
        return self.spark.session.read.format(self.way.format).options(**options).load()

    def measure(self) -> Measured:
        folder = self.spark.fresh_folder()
        used, server_used = self.spark.usage(), process_cpu_s(self.site.pid)
        began = time.perf_counter()
        _TARGETS[self.target](self.table(), folder)
        seconds = time.perf_counter() - began
        spent = self.spark.usage() - used
        server_s = process_cpu_s(self.site.pid) - server_used
        each = 1e9 / self.rows
        return Measured(self.rows / seconds, server_s * each, spent.workers * each, spent.jvm * each)

    def check_sum(self) -> tuple[object, ...]:
        return tuple(self.table().selectExpr(*_CHECK).first())


class Check:
    """A check that all ways read the same; then a small part goes to the target as a warm-up."""

    def __init__(self) -> None:
        self._sums: dict[tuple[object, ...], tuple[object, ...]] = {}

    def of(self, read: Read) -> Callable[[], None]:
        def check() -> None:
            found = read.check_sum()
            known = self._sums.setdefault((read.site.kind, read.stream, read.rows), found)
            if known != found:
                raise WireError(f"{read.way.title}, {read.site.kind}, {read.stream}: {found}, not {known}")
            replace(read, count=min(read.count, _WARM)).measure()

        return check


def entrants(spark: Spark, sites: list[Site], count: int) -> list[Entrant]:
    """All rows; what they read must be there."""
    check = Check()
    return [
        each
        for stream, headers in ((PLAIN, "no headers"), (HEADED, "two headers"))
        for site in sites
        for target in _TARGETS
        for each in _of_target(Read(spark, site, _PLAIN, stream, count, target), headers, check)
    ]


def _of_target(first: Read, headers: str, check: Check) -> Iterator[Entrant]:
    kind, target = first.site.kind, first.target
    where = f"{kind}, {headers}"
    start = f"{kind} {first.stream.lower()} {target.lower()}"
    for way in _WAYS[kind, target]:
        read = replace(first, way=way)
        yield Entrant(
            f"{start} {way.name}",
            f"{way.title}, {target}, {where}",
            read.measure,
            base="" if way is _PLAIN else f"{start} plain",
            bar=way.bar,
            or_value=way.or_value,
            prepare=None if way is _READY else check.of(read),
        )
    if target == "noop":
        drainer = Drainer(first.site, first.stream, first.count)
        yield Entrant(f"{start} drain", f"drain, no Spark, {where}", drainer.measure, base=f"{start} plain")
