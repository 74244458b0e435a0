"""The lag of streaming queries behind their streams, from the progress that Spark reports.

Spark's own metrics of a Python source are always empty, but progress contains the offsets: where the last
batch ended, and where the streams ended when it was planned.  A listener works in classic Spark and over
Spark Connect:

    spark.streams.addListener(LagListener(lambda lag: print(lag.query, lag.total)))

`LagGauges` reports to Prometheus instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from pyspark.sql.streaming.listener import StreamingQueryListener

from millstream.spark.errors import CheckpointError
from millstream.spark.offsets import parse_text


@dataclass(frozen=True, slots=True)
class QueryLag:
    """The lag of a query after one micro-batch."""

    query: str  # its name, or its id if it has none
    batch: int
    rows: int  # in this batch
    behind: dict[str, int]  # sequences not read yet, by stream

    @property
    def total(self) -> int:
        return sum(self.behind.values())

    def metrics(self) -> dict[str, str]:
        """Return the lag under the names that Spark's Kafka source reports it with."""
        counts = list(self.behind.values()) or [0]
        return {
            "avgOffsetsBehindLatest": str(sum(counts) / len(counts)),
            "maxOffsetsBehindLatest": str(max(counts)),
            "minOffsetsBehindLatest": str(min(counts)),
        }


def behind(end: str | None, latest: str | None) -> dict[str, int]:
    """Return the number of unread sequences by stream, from the two offsets of a source's progress."""
    if not latest:
        return {}
    reached = parse_text(end).streams if end else {}
    streams = parse_text(latest).streams
    return {
        name: max(0, at.next - (reached[name].next if name in reached else at.next))
        for name, at in sorted(streams.items())
    }


def lag_of(progress: Any) -> QueryLag | None:
    """Return the lag in a `StreamingQueryProgress`, or None if the query reads no stream of ours."""
    found: dict[str, int] = {}
    ours = False
    for source in progress.sources:
        try:
            part = behind(source.endOffset, source.latestOffset)
        except CheckpointError:
            continue  # another kind of source
        ours = ours or bool(part)
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    if not ours:
        return None
    return QueryLag(progress.name or str(progress.id), progress.batchId, progress.numInputRows, found)


class LagGauges:
    """Gauges of Prometheus for `LagListener(LagGauges().report)`, named as Spark's metrics of Kafka."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._gauges = {
            name: Gauge(f"spark_{name}", f"{name} of the streams of a query", ["query"], registry=registry)
            for name in ("avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest")
        }
        self._stream = Gauge(
            "spark_offsetsBehindLatest",
            "sequences of a stream that a query has not read",
            ["query", "stream"],
            registry=registry,
        )

    def report(self, lag: QueryLag) -> None:
        for name, value in lag.metrics().items():
            self._gauges[name].labels(lag.query).set(float(value))
        for stream, count in lag.behind.items():
            self._stream.labels(lag.query, stream).set(count)


class LagListener(StreamingQueryListener):
    """Calls `report` with the lag of every query that reads streams, after each of its batches."""

    def __init__(self, report: Callable[[QueryLag], None]) -> None:
        self._report = report

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        lag = lag_of(event.progress)
        if lag is not None:
            self._report(lag)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass
