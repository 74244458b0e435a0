"""The reader of `spark.read` with the option `bucket`: the last value of each key that has one.

One task reads the bucket from its first to its last revision, and again what came meanwhile, until nothing
did.  A key that is changed while it reads is therefore in the result with one of its values, although its old
revision may be gone before the task comes to it.  The result is the bucket at the moment of the last read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from millstream.spark.catalog import Catalog
from millstream.spark.files import shipped
from millstream.spark.options import SourceOptions
from millstream.spark.partitions import RangePartition
from millstream.spark.plan import Range
from millstream.spark.schema import arrow_schema
from millstream.spark.shapes import bucket_operations, offered_shape
from millstream.tables.connections import RequestConnection
from millstream.tables.errors import StreamMissing

_ROWS_TOGETHER: Final = 100_000  # revisions that are kept before old ones are thrown away


class BucketReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        [stream] = self._options.streams
        with_server = RequestConnection(
            self._options.connection, "spark/plan", self._options.fetching.timeout
        )
        try:
            Catalog(self._options, with_server).facts(stream)
        except StreamMissing as error:
            raise StreamMissing(f"there is no bucket {stream.removeprefix('KV_')}: {error}") from None
        finally:
            with_server.close()
        return [RangePartition(stream, 1, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        shape = offered_shape(self._options.shape, self._options.value)
        native = shape.native(self._schema, "subject", "seq", "headers")
        kept = LatestRows()
        for batch in self._revisions(partition.stream, native):
            kept.add(batch)
        return shape.converted(kept.batches(), self._schema)

    def _revisions(self, stream: str, native: StructType) -> Iterator[Any]:
        from millstream.tables.readers.ranges import read_range

        options = self._options
        connection = shipped(options.connection)
        server = RequestConnection(connection, "spark/bucket", options.fetching.timeout)
        try:
            catalog = Catalog(options, server)
            following = 1
            form = arrow_schema(native)
            while (facts := catalog.refresh()[stream]).after_last > max(following, facts.first):
                part = Range(stream, max(following, facts.first), facts.after_last - 1)
                partition = catalog.partition(part, ())
                yield from read_range(partition, connection, options.fetching, form, "spark/bucket")
                following = facts.after_last
        finally:
            server.close()


class LatestRows:
    """Keeps the last revision of each key, with memory for about twice as many rows as there are keys."""

    def __init__(self) -> None:
        self._batches: list[Any] = []
        self._rows = 0
        self._limit = _ROWS_TOGETHER

    def add(self, batch: Any) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows > self._limit:
            table = self._latest()
            self._batches = table.to_batches()
            self._rows = table.num_rows
            self._limit = max(_ROWS_TOGETHER, 2 * self._rows)

    def batches(self) -> Iterator[Any]:
        """Yield the last revisions of the keys that have a value."""
        import pyarrow.compute as pc

        if self._batches:
            for batch in self._latest().to_batches():
                yield batch.filter(pc.equal(bucket_operations(batch), "put"))

    def _latest(self) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        table = pa.Table.from_batches(self._batches)
        last = table.select(["subject", "seq"]).group_by("subject").aggregate([("seq", "max")])
        return table.filter(pc.is_in(table["seq"], value_set=last["seq_max"].combine_chunks()))
