"""An archived table as jobs read it, whatever its format: the rows, and how far each stream is in it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from millstream.lake.table import PAYLOAD
from millstream.spark.jobs.archive import table_schema
from millstream.spark.jobs.archive_targets import last_positions
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.iceberg import open_table, read_table
from millstream.spark.jobs.inputs import require_format
from millstream.spark.jobs.table import Manifest, ParquetTable
from millstream.spark.schema import DEFAULT_COLUMNS

Ranges = list[tuple[int, int]]


@dataclass(frozen=True)
class StoredStream:
    """One stream in a table: its sequences from `first` to `next` - 1 are there, except for gaps."""

    id: str | None  # creation time of the stream; None: the table does not say
    first: int
    next: int
    filter: tuple[str, ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class StoredTable:
    """The rows of a table, and its streams by name."""

    name: str
    rows: DataFrame
    streams: Mapping[str, StoredStream]
    payload: str = ""  # columns of the payload; messages that do not fit are not in the table


def open_stored(context: JobContext, name: str, format: str) -> StoredTable:
    """Open an archived table; raise an error if it is not one."""
    require_format(context.spark, format)
    if format == "parquet":
        return _parquet(context, name)
    if format == "iceberg":
        return _iceberg(context, name)
    rows = context.spark.read.format(format).load(name)
    ends = rows.groupBy("stream").agg(F.max("seq").alias("last")).collect()
    return StoredTable(name, rows, {row.stream: StoredStream(None, 1, row.last + 1) for row in ends})


def gaps_between(manifests: list[Manifest], stream: str) -> Ranges:
    """Return the sequences between two batches that no batch covers."""
    gaps: Ranges = []
    following: int | None = None
    for manifest in manifests:
        position = manifest.streams.get(stream)
        if position is None:
            continue
        if following is not None and position.start > following:
            gaps.append((following, position.start - 1))
        following = max(following or 0, position.next)
    return gaps


def _parquet(context: JobContext, name: str) -> StoredTable:
    table = ParquetTable.open(open_files(name, context.spark))
    manifests = table.manifests()
    filter = tuple(table.details().get("filter", ()))
    streams = {
        stream: StoredStream(
            at.id,
            min(one.streams[stream].start for one in manifests if stream in one.streams),
            at.next,
            filter,
            tuple(gaps_between(manifests, stream)),
        )
        for stream, at in last_positions(manifests).items()
    }
    return StoredTable(name, table.read(context.spark, table_schema()).select(*DEFAULT_COLUMNS), streams)


def _iceberg(context: JobContext, name: str) -> StoredTable:
    table = open_table(context, name)
    streams = {
        stream: StoredStream(at.id, at.first, at.next, query.filter, at.gaps)
        for query in table.progress().values()
        for stream, at in query.streams.items()
    }
    payload = table.load().properties.get(PAYLOAD, "")
    return StoredTable(name, read_table(context.spark, table), streams, payload)
