"""Rows a second out of Spark into a stream: each guarantee of the sink beside plain publishing.

Plain is `at-least-once`: rows are published with a window of acknowledgements and nothing more.  Rows are
made by Spark itself, 128 B each, in one task; each round writes into an empty stream.
"""

import time
from dataclasses import dataclass
from typing import Final

from benchmarks.contest import Entrant, Measured
from benchmarks.crew import process_cpu_s
from benchmarks.spark_session import Spark
from benchmarks.spark_streams import Site
from benchmarks.stream_wire import remove, request, stored
from benchmarks.wire import WireError

BAR_DEDUPE: Final = 0.75
_STREAM: Final = "SINK"
_GUARANTEES: Final = {"at-least-once": None, "dedupe": BAR_DEDUPE, "fenced": None}


@dataclass(frozen=True, slots=True)
class Write:
    spark: Spark
    site: Site
    guarantee: str
    count: int

    def measure(self) -> Measured:
        address = self.site.address
        config = {"name": _STREAM, "subjects": ["sink.>"], "storage": "file", "allow_atomic": True}
        request(address, f"STREAM.CREATE.{_STREAM}", config)
        try:
            used, server_used = self.spark.usage(), process_cpu_s(self.site.pid)
            began = time.perf_counter()
            self._write()
            seconds = time.perf_counter() - began
            spent = self.spark.usage() - used
            server_s = process_cpu_s(self.site.pid) - server_used
            self._check(stored(address, _STREAM))
        finally:
            remove(address, _STREAM)
        each = 1e9 / self.count
        return Measured(self.count / seconds, server_s * each, spent.workers * each, spent.jvm * each)

    def _write(self) -> None:
        rows = self.spark.session.range(0, self.count, 1, 1).selectExpr(
            "concat('sink.', id % 100) as subject", "cast(lpad(id, 128, 'x') as binary) as data"
        )
        options = {"nats.servers": self.site.url, "deliveryGuarantee": self.guarantee}
        if self.guarantee == "fenced":
            options["fenceSubject"] = "sink.fence"
        rows.write.format("jetstream").mode("append").options(**options).save()

    def _check(self, there: int) -> None:
        markers = there - self.count
        if markers < 0 or (markers > 0 and self.guarantee != "fenced") or markers > self.count // 10:
            raise WireError(f"{self.guarantee}: {there} messages of {self.count} rows")


def entrants(spark: Spark, sites: list[Site], count: int) -> list[Entrant]:
    return [
        Entrant(
            f"{site.kind} sink {guarantee}",
            f"sink, {guarantee}, {site.kind}",
            Write(spark, site, guarantee, count).measure,
            base="" if guarantee == "at-least-once" else f"{site.kind} sink at-least-once",
            bar=bar,
        )
        for site in sites
        for guarantee, bar in _GUARANTEES.items()
    ]
