"""The readers of `spark_plain` as data sources of Spark, and one that reads nothing at all.

`format("ready-made")` hands the same finished batch to Spark over and over: the most that Spark takes from
one Python worker.  Options: `host`, `port`, `stream`, `count`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.spark_plain import read_nats_py, read_plain
from benchmarks.wire import Address
from millstream.spark.schema import arrow_schema, default_schema

_ROWS: Final = 10_000


class Reader(DataSourceReader):
    """One partition with the whole range."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        given = self.options
        address = Address(given["host"], int(given["port"]))
        return self.batches(address, given["stream"], int(given["count"]), arrow_schema(default_schema()))

    def batches(self, address: Address, stream: str, count: int, schema: pa.Schema) -> Iterator[Any]:
        raise NotImplementedError


class PlainReader(Reader):
    def batches(self, address: Address, stream: str, count: int, schema: pa.Schema) -> Iterator[Any]:
        return read_plain(address, stream, count, schema)


class NatsPyReader(Reader):
    def batches(self, address: Address, stream: str, count: int, schema: pa.Schema) -> Iterator[Any]:
        return read_nats_py(address, stream, count, schema)


class ReadyReader(Reader):
    def batches(self, address: Address, stream: str, count: int, schema: pa.Schema) -> Iterator[Any]:
        batch = next(read_plain(address, stream, _ROWS, schema))
        for _ in range(count // _ROWS):
            yield batch


class Baseline(DataSource):
    """A source of the benchmarks: same columns as `jetstream`."""

    kind: ClassVar[type[Reader]]

    def schema(self) -> StructType:
        return default_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self.kind(dict(self.options))


class PlainSource(Baseline):
    kind = PlainReader

    @classmethod
    def name(cls) -> str:
        return "plain-python"


class NatsPySource(Baseline):
    kind = NatsPyReader

    @classmethod
    def name(cls) -> str:
        return "nats-py"


class ReadySource(Baseline):
    kind = ReadyReader

    @classmethod
    def name(cls) -> str:
        return "ready-made"


BASELINES: Final = (PlainSource, NatsPySource, ReadySource)
