"""Archive: copy streams into a table, partitioned by stream and day, each message exactly once.

Parquet and Iceberg tables are written batch by batch (`archive_targets`), with the range of each batch kept
in the table; Delta uses its own transactional sink.

With `purge`, archived messages are removed from the stream, but only after Spark's own commit: a batch that
Spark may still run again needs its messages.  With `retention`, the stream keeps those that are younger.
"""

import threading
import time
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType

from millstream.lake.errors import LakeError, LakeUnavailable
from millstream.spark import option_values
from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.archive_targets import ArchiveTarget, IcebergTarget, ParquetTarget
from millstream.spark.jobs.checkpoint import Checkpoint, sound_checkpoint
from millstream.spark.jobs.context import JobContext, trigger
from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.iceberg import archive_form, ensure_table, open_table
from millstream.spark.jobs.inputs import read_stream, require_format
from millstream.spark.jobs.settings import Archive
from millstream.spark.jobs.table import ParquetTable
from millstream.spark.jobs.typed_payload import TypedPayload, typed_payload
from millstream.spark.schema import default_schema

PARTITION: Final = ("stream", "day")
_DAY_MICROS: Final = 86_400_000_000
_RETENTION_LOOK_S: Final = 60.0  # between two looks for messages that have become old


def table_schema() -> StructType:
    """Return the columns of a Parquet archive, for `ParquetTable.read`."""
    return default_schema().add("day", DateType())


def archive_rows(messages: DataFrame) -> DataFrame:
    """Return messages as rows of a Parquet table, with their day in UTC whatever the session's time zone."""
    days = F.expr(f"date_from_unix_date(cast(floor(unix_micros(time) / {_DAY_MICROS}) as int))")
    return messages.withColumn("day", days)


def run(context: JobContext, settings: Archive) -> str:
    """Run until stopped or, with `trigger = "once"`, until everything present at the start is archived."""
    require_format(context.spark, settings.format)
    payload = typed_payload(settings.schema, settings.schema_message)
    messages = read_stream(
        context.spark, context.nats, settings, columns=payload.source_columns, **payload.options
    )
    if settings.format == "delta":
        return _run_with_delta(context, settings, archive_rows(messages))
    checkpoint = Checkpoint(open_files(context.checkpoint, context.spark))
    checkpoint.check()
    target: ArchiveTarget
    if settings.format == "parquet":
        messages = archive_rows(messages)
        target = ParquetTarget(ParquetTable(open_files(settings.table, context.spark), PARTITION), settings)
    else:
        target = _iceberg_target(context, settings, payload, checkpoint)
    writer = _Writer(target, checkpoint)
    with target.writing(), _purger(context, settings, target, checkpoint) as purger:
        stream = trigger(messages.writeStream.queryName(context.name), settings.trigger)
        query = stream.option("checkpointLocation", context.checkpoint).foreachBatch(writer.write).start()
        context.follow(query, between=purger.purge)
    return f"{writer.rows} rows in {writer.batches} batches to {settings.table}"


def _iceberg_target(
    context: JobContext, settings: Archive, payload: TypedPayload, checkpoint: Checkpoint
) -> IcebergTarget:
    """Open the table, or create it for a new checkpoint; an old one must find its table."""
    if checkpoint.last_committed() >= 0:
        try:
            open_table(context, settings.table)
        except LakeUnavailable:
            raise
        except LakeError as error:
            raise TableError(
                f"the checkpoint {checkpoint.folder} is of another table, or another catalog: {error}"
            ) from None
    with StreamAdmin(context.nats, context.name) as admin:
        for stream in settings.streams:
            admin.facts(stream)  # a stream that is missing, or not allowed, must not leave an empty table
    table = ensure_table(context, settings.table, archive_form(payload.columns))
    return IcebergTarget(table, settings, payload, context.nats)


class _Writer:
    """Writes the batches of one query to one table."""

    def __init__(self, target: ArchiveTarget, checkpoint: Checkpoint) -> None:
        self.rows = 0
        self.batches = 0
        self._target = target
        self._checkpoint = checkpoint

    def write(self, rows: DataFrame, batch: int) -> None:
        ranges = self._checkpoint.ranges(batch)
        self.rows += self._target.write(rows, self._checkpoint.query_id(), batch, ranges)
        self.batches += 1
        self._target.tidy(batch)


class _NoPurger:
    """Purges nothing, for archives without `purge`."""

    def __enter__(self) -> "_NoPurger":
        return self

    def __exit__(self, *failure: object) -> None: ...

    def purge(self) -> None: ...


class _Purger(_NoPurger):
    """Removes messages from the streams that Spark has committed and the table contains."""

    def __init__(
        self, admin: StreamAdmin, settings: Archive, target: ArchiveTarget, checkpoint: Checkpoint
    ) -> None:
        self._admin = admin
        self._settings = settings
        self._target = target
        self._checkpoint = checkpoint
        self._retention_s = (
            option_values.duration("retention", settings.retention) if settings.retention else 0.0
        )
        self._purged = -1
        self._again_at = 0.0  # with retention, archived messages become old without a new batch
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
            due = committed > self._purged or (self._retention_s and time.monotonic() >= self._again_at)
            if committed < 0 or not due:
                return
            if not self._target.has_batch(self._checkpoint.query_id(), committed):
                # Spark commits after the table, so this batch is not ours.
                raise TableError(
                    f"table {self._target.name} has no batch {committed}, which Spark has committed"
                )
            for stream, position in self._checkpoint.ranges(committed).items():
                if self._admin.facts(stream).id != position.id:
                    continue  # created again: same sequences, but other messages, which are not archived
                below = min(position.next, self._first_young(stream, position.next))
                self._admin.purge(stream, below=below, filter=self._settings.filter)
            self._purged = committed
            self._again_at = time.monotonic() + _RETENTION_LOOK_S

    def _first_young(self, stream: str, following: int) -> int:
        """Return the first sequence that the stream keeps by `retention`; `following` if it keeps none."""
        if not self._retention_s:
            return following
        found = self._admin.first_since(stream, time.time_ns() - round(self._retention_s * 1e9))
        return following if found is None else found


def _purger(
    context: JobContext, settings: Archive, target: ArchiveTarget, checkpoint: Checkpoint
) -> _NoPurger:
    if not settings.purge:
        return _NoPurger()
    return _Purger(StreamAdmin(context.nats, context.name), settings, target, checkpoint)


def _run_with_delta(context: JobContext, settings: Archive, messages: DataFrame) -> str:
    stream = (
        trigger(messages.writeStream.queryName(context.name), settings.trigger)
        .format(settings.format)
        .partitionBy(*PARTITION)
        .option("checkpointLocation", sound_checkpoint(context.checkpoint, context.spark))
        .outputMode("append")
    )
    context.follow(stream.start(settings.table))
    return f"to {settings.format} table {settings.table}"
