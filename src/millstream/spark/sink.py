"""Write a table into a stream: ``df.write.format("jetstream")`` and ``df.writeStream.format("jetstream")``.

A task publishes its rows and ends when each of them is stored.  So there is nothing to do when Spark commits
and nothing to undo when it aborts: rows of tasks that succeeded stay in the stream.  `deliveryGuarantee`
determines the effect of a repetition; see `writing.plain` and `writing.fenced`.

Mode `overwrite` of a batch write purges the stream first (with the option `subject`: that subject), if
`allowPurge` is set.  Output mode `complete` of a query publishes the whole result each time, as new messages.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from millstream.link.publish_window import is_publishable
from millstream.spark.files import shipped
from millstream.spark.options import SinkOptions
from millstream.spark.writing.bad_rows import BadRows
from millstream.spark.writing.checks import TargetStream, check_target
from millstream.spark.writing.columns import ColumnLayout, RowRules
from millstream.spark.writing.fenced import FencedWriter
from millstream.spark.writing.identity import TaskIdentity, identity_of_task, new_write_name
from millstream.spark.writing.plain import PlainWriter
from millstream.tables.connections import RequestConnection, borrowed_link, explained
from millstream.tables.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

logger: Final = logging.getLogger("millstream.spark")


@dataclass
class TaskReport(WriterCommitMessage):
    """The outcome of one task."""

    partition: int
    rows: int  # stored
    duplicates: int  # of these, already stored before
    dropped: int
    dead: int  # published as dead letters


@dataclass(frozen=True)
class SinkTask:
    """The values that a task needs; sent to the workers."""

    options: SinkOptions
    layout: ColumnLayout
    target: TargetStream
    write_name: str | None  # None: a batch of a streaming query

    def run(self, batches: "Iterator[pa.RecordBatch]", identity: TaskIdentity | None = None) -> TaskReport:
        """Write the rows of one partition."""
        if identity is None:
            identity = identity_of_task(self.write_name)
        options = self.options
        bad_rows = BadRows(options.on_bad_row, identity, self.target.dead_letter_subject)
        fixed = f"Nats-Expected-Stream: {options.stream}\r\n" if options.stream is not None else ""
        rules = RowRules(
            subject=(options.subject or "").encode(),
            fixed_lines=fixed.encode(),
            id_start=identity.id_start if options.delivery_guarantee == "dedupe" else b"",
            allow_nats_headers=options.allow_nats_headers,
        )
        name = f"spark/{identity.query}/{identity.partition}"
        with (
            explained(options.connection, self.target.stream),
            borrowed_link(shipped(options.connection), name) as link,
        ):
            if not link.connected:
                link.reconnect(within_s=2 * options.publish_timeout)
            writer: PlainWriter | FencedWriter
            if options.delivery_guarantee == "fenced":
                assert self.target.stream is not None
                assert options.fence_subject is not None
                writer = FencedWriter(
                    link,
                    self.layout,
                    rules,
                    bad_rows,
                    identity,
                    stream=self.target.stream,
                    fence_subject=options.fence_subject,
                    timeout_s=options.publish_timeout,
                    marker_expires=self.target.takes_ttl,
                )
            else:
                writer = PlainWriter(
                    link,
                    self.layout,
                    rules,
                    bad_rows,
                    window=options.publish_window,
                    timeout_s=options.publish_timeout,
                    where=str(identity),
                )
            writer.write(batches)
        return TaskReport(identity.partition, writer.rows, writer.duplicates, bad_rows.dropped, bad_rows.dead)


class BatchWriter(DataSourceArrowWriter):
    """The sink of one batch write."""

    def __init__(self, task: SinkTask) -> None:
        self._task = task

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskReport:
        return self._task.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_reports("the write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_reports("the aborted write", messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query; created for every batch."""

    def __init__(self, task: SinkTask) -> None:
        self._task = task

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskReport:
        return self._task.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log_reports(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log_reports(f"aborted batch {batchId}", messages)


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the sink of a batch write; with `overwrite`, purge the stream or subject first."""
    layout = _layout(options, schema)
    if overwrite and not options.allow_purge:
        raise OptionError("mode overwrite removes what the stream has; the option allowPurge=true allows it")
    if overwrite and options.stream is None and options.subject is None:
        raise OptionError("mode overwrite needs the option stream or subject: what to purge")
    server = RequestConnection(shipped(options.connection), "spark/sink", 2 * options.publish_timeout)
    try:
        with explained(options.connection, options.stream):
            target = check_target(server.api, options, layout, streaming=False)
            if overwrite:
                request: dict[str, Any] = {} if options.subject is None else {"filter": options.subject}
                purged = server.api(f"STREAM.PURGE.{target.stream}", request).get("purged", 0)
                logger.info("stream %s: %s messages purged to be overwritten", target.stream, purged)
    finally:
        server.close()
    return BatchWriter(SinkTask(options, layout, target, new_write_name()))


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the sink of a query's next batch; output mode complete publishes the whole result again."""
    if options.allow_purge:
        raise OptionError("option allowPurge is for batch writes: a query's batches never purge")
    layout = _layout(options, schema)
    server = RequestConnection(shipped(options.connection), "spark/sink", 2 * options.publish_timeout)
    try:
        with explained(options.connection, options.stream):
            target = check_target(server.api, options, layout, streaming=True)
    finally:
        server.close()
    return StreamWriter(SinkTask(options, layout, target, None))


def _layout(options: SinkOptions, schema: StructType) -> ColumnLayout:
    for name, subject in (("subject", options.subject), ("fenceSubject", options.fence_subject)):
        if subject is not None and not is_publishable(subject.encode()):
            raise OptionError(f"option {name}: {subject!r} is no subject to publish to")
    return ColumnLayout.of(schema, subject_given=options.subject is not None)


def _log_reports(what: str, messages: list[WriterCommitMessage | None]) -> None:
    reports = [message for message in messages if isinstance(message, TaskReport)]
    left_out = sum(report.dropped + report.dead for report in reports)
    logger.log(
        logging.WARNING if left_out else logging.INFO,
        "%s: %d rows stored by %d tasks, %d of them were there already, %d left out",
        what,
        sum(report.rows for report in reports),
        len(reports),
        sum(report.duplicates for report in reports),
        left_out,
    )
