"""The work of one task: a range of a stream that Spark can send to an executor, and how it is read there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from millstream.spark.files import shipped
from millstream.spark.options import SourceOptions
from millstream.spark.plan import Range
from millstream.spark.schema import arrow_schema
from millstream.spark.shapes import offered_shape
from millstream.tables.stream_range import StreamRange


@dataclass(frozen=True)
class RangePartition(StreamRange, InputPartition):
    """A range of a stream as Spark knows it."""

    @classmethod
    def of(cls, part: Range, **how: object) -> Self:
        return cls(part.stream, part.low, part.high, **how)  # type: ignore[arg-type]


def nothing() -> RangePartition:
    """Return an empty partition, for plans without any: Spark would otherwise create one without content."""
    return RangePartition("", 1, 0)


def read_partition(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """Yield the record batches of a partition in the columns of the query, in its task."""
    from millstream.tables.readers.ranges import read_range

    assert isinstance(partition, RangePartition)
    connection = shipped(options.connection)
    shape = offered_shape(options.shape, options.value)
    native = arrow_schema(shape.native(schema))
    batches = read_range(partition, connection, options.fetching, native, _name(partition))
    return shape.converted(batches, schema)


def _name(partition: RangePartition) -> str:
    """Return the connection's name for monitoring: the query and the partition."""
    context = TaskContext.get()
    if context is None:
        return f"spark/{partition.stream}"
    query = context.getLocalProperty("sql.streaming.queryId") or "batch"
    return f"spark/{query}/{context.partitionId()}"
