"""The duration of a micro-batch: from a stream to nowhere and to another stream, beside Spark's own source.

The last makes numbers within the JVM: Spark does not take less than that.  A query of ours goes through a
backlog in batches of a thousand rows, one right behind the other; the figure is the median of what Spark says
that a batch took, without the first two.
"""

import statistics
import time
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.contest import Entrant, Measured
from benchmarks.spark_session import Spark
from benchmarks.spark_streams import PLAIN, Site
from benchmarks.stream_wire import remove, request
from benchmarks.wire import WireError
from tests.kits.reference import ServerKind

MILLISECONDS: Final = "ms"
_ROWS: Final = 1_000
_BATCHES: Final = 16
_SKIPPED: Final = 2  # Spark gets going
_COPIES: Final = "COPIES"
_WINDOW_NS: Final = 3600 * 1_000_000_000  # the sink warns of a short one with each batch
_LOOK_S: Final = 0.05
_FLOOR: Final = "batch spark"


@dataclass(frozen=True, slots=True)
class Query:
    spark: Spark
    site: Site
    transport: str  # none: Spark's own source
    guarantee: str  # of the sink; none: noop

    def measure(self) -> Measured:
        if not self.guarantee:
            return self._run()
        config = {"name": _COPIES, "subjects": ["copies.>"], "storage": "file", "allow_atomic": True}
        config["duplicate_window"] = _WINDOW_NS
        request(self.site.address, f"STREAM.CREATE.{_COPIES}", config)
        try:
            return self._run()
        finally:
            remove(self.site.address, _COPIES)

    def _run(self) -> Measured:
        rows = self._from_stream() if self.transport else self._from_spark()
        writer = rows.writeStream.option("checkpointLocation", self.spark.fresh_folder())
        if self.guarantee:
            options = {"nats.servers": self.site.url, "subject": "copies.all"}
            if self.guarantee == "fenced":
                options["fenceSubject"] = "copies.fence"
            writer = writer.format("jetstream").options(**options, deliveryGuarantee=self.guarantee)
        else:
            writer = writer.format("noop")
        if self.transport:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        else:  # it never comes to an end
            query = writer.trigger(processingTime="0 seconds").start()
            while query.isActive and len(query.recentProgress) < _BATCHES:
                time.sleep(_LOOK_S)
            query.stop()
        taken = [
            progress["durationMs"]["triggerExecution"]
            for progress in query.recentProgress
            if progress["numInputRows"] == _ROWS
        ]
        if len(taken) < _BATCHES - 1:
            raise WireError(f"{len(taken)} batches instead of {_BATCHES}")
        return Measured(statistics.median(taken[_SKIPPED:]))

    def _from_stream(self) -> Any:
        options = {
            "nats.servers": self.site.url,
            "subscribe": PLAIN,
            "transport": self.transport,
            "startingOffsets": f"-{_ROWS * _BATCHES}",
            "maxOffsetsPerTrigger": str(_ROWS),
        }
        return self.spark.session.readStream.format("jetstream").options(**options).load()

    def _from_spark(self) -> Any:
        reader = self.spark.session.readStream.format("rate-micro-batch")
        return reader.options(rowsPerBatch=str(_ROWS), numPartitions="1").load()


def entrants(spark: Spark, sites: list[Site]) -> list[Entrant]:
    """Return the entrants; the streams that they read must exist."""
    floor = Query(spark, sites[0], "", "")
    found = [Entrant(_FLOOR, "micro-batch, Spark's own source to noop", floor.measure, MILLISECONDS)]
    for site in sites:
        for transport in ("arrow", "pull") if site.kind is ServerKind.MILLSTREAM else ("pull",):
            for guarantee in ("", "dedupe", "fenced"):
                query = Query(spark, site, transport, guarantee)
                target = f"sink, {guarantee}" if guarantee else "noop"
                found.append(
                    Entrant(
                        f"batch {site.kind} {transport} {guarantee or 'noop'}",
                        f"micro-batch, {transport} to {target}, {site.kind}",
                        query.measure,
                        MILLISECONDS,
                        base=_FLOOR,
                    )
                )
    return found
