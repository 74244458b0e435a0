"""The reader of `spark.read`: start and end of the ranges are fixed when the query is planned."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from millstream.spark.catalog import Catalog
from millstream.spark.files import shipped
from millstream.spark.options import SourceOptions
from millstream.spark.partitions import nothing, read_partition
from millstream.spark.plan import Range, cut, parts_for
from millstream.tables.connections import RequestConnection
from millstream.tables.readers.loss import report
from millstream.tables.streams import StreamFacts


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        server = RequestConnection(shipped(options.connection), "spark/plan", options.fetching.timeout)
        try:
            catalog = Catalog(options, server)
            now_ns = time.time_ns()
            planned = [
                catalog.partition(part, self.filters())
                for name, facts in sorted(catalog.refresh().items())
                for part in self._ranges(catalog, name, facts, now_ns)
            ]
        finally:
            server.close()
        return planned or [nothing()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)

    # -- what filters of Spark's narrow -------------------------------------------------------------

    def filters(self) -> tuple[str, ...]:
        return self._options.filters

    def bounds(self, catalog: Catalog, name: str, low: int, end: int) -> tuple[int, int]:
        return low, end

    def _ranges(self, catalog: Catalog, name: str, facts: StreamFacts, now_ns: int) -> list[Range]:
        options = self._options
        at_time = partial(catalog.at_time, name)
        start = options.start.resolve(name, facts.first, facts.after_last, now_ns, at_time)
        end = options.end.resolve(name, facts.after_last, now_ns, at_time)
        if start < min(facts.first, end):
            gone = [(start, min(facts.first, end) - 1)]
            why = f"startingOffsets is {start}, the first message is {facts.first}"
            report(name, gone, why, fail=options.fetching.fail_on_data_loss)
            start = min(facts.first, end)
        start, end = self.bounds(catalog, name, start, end)
        parts = parts_for(end - start, options.min_partitions, options.max_records_per_partition)
        return cut(name, start, max(start, end), parts)
