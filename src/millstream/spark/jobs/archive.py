"""Archive: copy streams into a table, partitioned by stream and day, each message exactly once.

Parquet is written through `ParquetTable`, batch by batch, so that any Parquet reader sees every message once;
Delta and Iceberg use their own transactional sinks.  Each batch records the stream's identity and the range
that it covers in its manifest.  The job fails if a range does not begin where the last one ended, or if a
stream was deleted and created again under its name: the table would have a hole, or two messages with one
sequence.

With `purge`, archived messages are removed from the stream, but only after Spark's own commit: a batch that
Spark may still run again needs its messages.
"""

import threading
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType

from millstream.spark import option_values
from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.checkpoint import Checkpoint, sound_checkpoint
from millstream.spark.jobs.compaction import compact
from millstream.spark.jobs.context import JobContext, trigger
from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.inputs import read_stream, require_format
from millstream.spark.jobs.settings import Archive
from millstream.spark.jobs.table import Manifest, ParquetTable
from millstream.spark.offsets import Position
from millstream.spark.schema import default_schema

PARTITION = ("stream", "day")
_DAY_MICROS = 86_400_000_000


def table_schema() -> StructType:
    """Return the columns of an archive, for `ParquetTable.read`."""
    return default_schema().add("day", DateType())


def archive_rows(messages: DataFrame) -> DataFrame:
    """Return messages as rows of the table, with their day in UTC whatever the session's time zone."""
    days = F.expr(f"date_from_unix_date(cast(floor(unix_micros(time) / {_DAY_MICROS}) as int))")
    return messages.withColumn("day", days)


def run(context: JobContext, settings: Archive) -> str:
    """Run until stopped or, with `trigger = "once"`, until everything present at the start is archived."""
    require_format(context.spark, settings.format)
    messages = archive_rows(read_stream(context.spark, context.nats, settings))
    if settings.format != "parquet":
        return _run_with_sink_of_format(context, settings, messages)
    table = ParquetTable(open_files(settings.table, context.spark), PARTITION)
    checkpoint = Checkpoint(open_files(context.checkpoint, context.spark))
    checkpoint.check()
    writer = _Writer(table, checkpoint, settings)
    with table.writing(), _purger(context, settings, table, checkpoint) as purger:
        stream = trigger(messages.writeStream.queryName(context.name), settings.trigger)
        query = stream.option("checkpointLocation", context.checkpoint).foreachBatch(writer.write).start()
        context.follow(query, between=purger.purge)
    return f"{writer.rows} rows in {writer.batches} batches to {settings.table}"


class _Writer:
    """Writes the batches of one query to one table."""

    def __init__(self, table: ParquetTable, checkpoint: Checkpoint, settings: Archive) -> None:
        self.rows = 0
        self.batches = 0
        self._table = table
        self._checkpoint = checkpoint
        self._settings = settings
        self._last: Mapping[str, Position] | None = None

    def write(self, rows: DataFrame, batch: int) -> None:
        if self._last is None:
            self._table.claim(
                self._checkpoint.query_id(),
                {"streams": sorted(self._settings.streams), "filter": sorted(self._settings.filter)},
            )
            self._last = last_positions(one for one in self._table.manifests() if one.batch < batch)
        ranges = self._checkpoint.ranges(batch)
        check_continuity(
            self._table.root, self._last, ranges, allow_gaps=not self._settings.fail_on_data_loss
        )
        manifest = self._table.write_batch(rows, batch, ranges)
        self._last = {**self._last, **ranges}
        self.rows += manifest.rows
        self.batches += 1
        least = self._settings.compact_folders
        if least and batch % least == least - 1:
            size = option_values.size("compact_size", self._settings.compact_size)
            compact(self._table, least_folders=least, large_bytes=size)


def last_positions(manifests: Iterable[Manifest]) -> dict[str, Position]:
    """Return the last archived position of each stream."""
    last: dict[str, Position] = {}
    for manifest in manifests:
        last.update(manifest.streams)
    return last


def check_continuity(
    table: str, last: Mapping[str, Position], ranges: Mapping[str, Position], *, allow_gaps: bool
) -> None:
    """Raise TableError if a batch does not begin where the last one ended."""
    for stream, here in ranges.items():
        before = last.get(stream)
        if before is None:
            continue
        if before.id != here.id:
            raise TableError(
                f"stream {stream} was deleted and created again (archived: {before.id}, now: {here.id}); "
                f"its sequences would be in table {table} twice: archive it to another table"
            )
        if here.start != before.next and not allow_gaps:
            raise TableError(
                f"table {table} has stream {stream} up to {before.next - 1}, "
                f"the next batch begins at {here.start}"
            )


class _NoPurger:
    """Purges nothing, for archives without `purge`."""

    def __enter__(self) -> "_NoPurger":
        return self

    def __exit__(self, *failure: object) -> None: ...

    def purge(self) -> None: ...


class _Purger(_NoPurger):
    """Removes messages from the streams that Spark has committed and the table contains."""

    def __init__(
        self, admin: StreamAdmin, settings: Archive, table: ParquetTable, checkpoint: Checkpoint
    ) -> None:
        self._admin = admin
        self._settings = settings
        self._table = table
        self._checkpoint = checkpoint
        self._purged = -1
        self._busy = threading.Lock()

    def __enter__(self) -> "_Purger":
        for stream in self._settings.streams:
            facts = self._admin.facts(stream)
            if facts.consumers and not self._settings.purge_force:
                self._admin.close()
                raise TableError(
                    f"stream {stream} has {facts.consumers} consumers, and purging takes messages "
                    "away from them; set purge_force to do it"
                )
        return self

    def __exit__(self, *failure: object) -> None:
        self._admin.close()

    def purge(self) -> None:
        with self._busy:
            committed = self._checkpoint.last_committed()
            if committed <= self._purged:
                return
            manifest = self._table.manifest(committed)
            if manifest is None:  # Spark commits after the manifest, so this batch is not ours
                raise TableError(
                    f"table {self._table.root} has no batch {committed}, which Spark has committed"
                )
            for stream, position in manifest.streams.items():
                if self._admin.facts(stream).id != position.id:
                    continue  # created again: same sequences, but other messages, which are not archived
                self._admin.purge(stream, below=position.next, filter=self._settings.filter)
            self._purged = committed


def _purger(context: JobContext, settings: Archive, table: ParquetTable, checkpoint: Checkpoint) -> _NoPurger:
    if not settings.purge:
        return _NoPurger()
    return _Purger(StreamAdmin(context.nats, context.name), settings, table, checkpoint)


def _run_with_sink_of_format(context: JobContext, settings: Archive, messages: DataFrame) -> str:
    stream = (
        trigger(messages.writeStream.queryName(context.name), settings.trigger)
        .format(settings.format)
        .partitionBy(*PARTITION)
        .option("checkpointLocation", sound_checkpoint(context.checkpoint, context.spark))
        .outputMode("append")
    )
    query = stream.toTable(settings.table) if settings.format == "iceberg" else stream.start(settings.table)
    context.follow(query)
    return f"to {settings.format} table {settings.table}"
