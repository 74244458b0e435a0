"""Replay: publish a table into a stream, in sequence order, as fast as possible or timed.

The streams of the table are sent one after another, each in chunks of sequences.  Every message carries its
origin (``Millstream-Orig-*``) and the id ``<stream>:<seq>``.  Ids only help within the target's duplicate
window, two minutes by default, so replay also reads which origins the target already has: a second run, even
a day later, adds nothing, and a run that was stopped continues where it was.

With `with_stream`, the messages that a stream has behind its rows of the table follow them, so that a stream
which keeps only recent messages is replayed as a whole.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millstream.spark import option_values
from millstream.spark.jobs import origins
from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.inputs import SOURCE, read_range
from millstream.spark.jobs.settings import Replay
from millstream.spark.jobs.stored import StoredTable, open_stored
from millstream.spark.jobs.timed_publish import RESULT, Pace, publish_paced
from millstream.spark.schema import DEFAULT_COLUMNS

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_PACED_CHUNK_S: Final = 5  # a timed run reports its progress this often


def chosen_rows(rows: DataFrame, settings: Replay) -> DataFrame:
    """Return the rows of a table that the settings select."""
    if settings.streams:
        rows = rows.where(F.col("stream").isin(settings.streams))
    if settings.filter:
        rows = rows.where(matches_any(F.col("subject"), settings.filter))
    if settings.from_sequence:
        rows = rows.where(F.col("seq") >= settings.from_sequence)
    if settings.to_sequence:
        rows = rows.where(F.col("seq") <= settings.to_sequence)
    if settings.from_time:
        rows = rows.where(F.col("time") >= _moment("from_time", settings.from_time))
    if settings.to_time:
        rows = rows.where(F.col("time") < _moment("to_time", settings.to_time))
    return rows


def replayed(rows: DataFrame, subject: str) -> DataFrame:
    """Return rows of a table as rows to publish, with their origin and an id made of it."""
    return rows.select(
        F.col("data"),
        _filled(subject).alias("subject"),
        origins.origin_headers().alias("headers"),
        F.concat_ws(":", "stream", "seq").alias("msg_id"),
        F.col("seq"),
        F.col("time"),
    )


def matches_any(subject: Column, patterns: list[str]) -> Column:
    """Return a condition that is true if a subject matches one of several NATS patterns."""
    return subject.rlike("|".join(_expression(pattern) for pattern in patterns))


def run(context: JobContext, settings: Replay) -> str:
    """Send everything that the target does not have yet."""
    table = open_stored(context, settings.table, settings.format)
    rows = chosen_rows(_with_streams(context, table) if settings.with_stream else table.rows, settings)
    ends = rows.groupBy("stream").agg(F.min("seq").alias("first"), F.max("seq").alias("last")).collect()
    done = present_origins(context, settings.target)
    sent = 0
    try:
        for stream, first, last in sorted((row.stream, row.first, row.last) for row in ends):
            sent = _replay_stream(
                context, settings, rows.where(F.col("stream") == stream), done, first, last, sent
            )
    finally:
        if done is not None:
            done.unpersist()
    return f"{sent} messages sent to {settings.target}"


def present_origins(context: JobContext, target: str) -> DataFrame | None:
    """Return stream and sequence of the messages already replayed into a stream; None if it is empty."""
    with StreamAdmin(context.nats, context.name) as admin:
        facts = admin.facts(target)
    if not facts.messages:
        return None
    messages = read_range(
        context.spark,
        context.nats,
        target,
        first=facts.first,
        following=facts.after_last,
        columns=f"headers {origins.HEADERS_TYPE}",
    )
    return (
        messages.select(
            origins.first_header(origins.ORIG_STREAM).alias("stream"),
            origins.first_header(origins.ORIG_SEQ).cast("long").alias("seq"),
        )
        .where(F.col("stream").isNotNull() & F.col("seq").isNotNull())
        .distinct()
        .persist(StorageLevel.MEMORY_AND_DISK)
    )


def _replay_stream(
    context: JobContext,
    settings: Replay,
    rows: DataFrame,
    done: DataFrame | None,
    first: int,
    last: int,
    sent: int,
) -> int:
    """Send one stream of the table; return `sent` plus the number of messages sent."""
    if done is not None:
        rows = rows.join(done, ["stream", "seq"], "left_anti")
    timed = bool(settings.rate or settings.speed)
    size = settings.chunk
    if settings.rate:
        size = max(1, min(size, round(settings.rate * _PACED_CHUNK_S)))
    begin, before, first_time = time.time(), sent, None
    for low in range(first, last + 1, size):
        if context.stopping.is_set():
            break
        chunk = rows.where((F.col("seq") >= low) & (F.col("seq") < low + size))
        ready = replayed(chunk, settings.subject).repartition(1).sortWithinPartitions("seq")
        if not timed:
            ready = ready.drop("time").persist(StorageLevel.MEMORY_AND_DISK)
            try:
                sink = ready.drop("seq").write.format(SOURCE).options(**context.nats)
                sink.option("deliveryGuarantee", "dedupe").mode("append").save()
                sent += ready.count()
            finally:
                ready.unpersist()
        else:
            if settings.speed and first_time is None:
                first_time = chunk.agg(F.min("time")).first()[0]  # type: ignore[index]
                if first_time is None:
                    continue
                begin = time.time()
            origin = first_time.timestamp() if first_time else 0.0
            pace = Pace(begin, settings.rate, sent - before, settings.speed, origin)
            sent += _send_paced(context, ready, pace)
        context.say(sent, f"up to sequence {min(low + size - 1, last)} of {last}")
    return sent


def _send_paced(context: JobContext, ready: DataFrame, pace: Pace) -> int:
    nats = dict(context.nats)

    def publish(batches: "Iterable[RecordBatch]") -> "Iterator[RecordBatch]":
        return publish_paced(batches, nats, pace)

    rows = ready.drop("seq").mapInArrow(publish, RESULT).collect()
    return sum(int(row.rows) for row in rows)


def _with_streams(context: JobContext, table: StoredTable) -> DataFrame:
    """Return the rows of a table, and the messages that its streams have behind them."""
    rows = table.rows.select(*DEFAULT_COLUMNS)
    with StreamAdmin(context.nats, context.name) as admin:
        for stream, stored in sorted(table.streams.items()):
            facts = admin.facts(stream)
            if stored.id is not None and stored.id != facts.id:
                raise TableError(
                    f"stream {stream} was deleted and created again: its messages do not follow those of "
                    f"table {table.name}; leave out with_stream"
                )
            first = max(stored.next, facts.first)
            if first > stored.next:
                raise TableError(
                    f"stream {stream} begins at {facts.first}, table {table.name} ends at {stored.next - 1}: "
                    "what is between them is lost; leave out with_stream to replay the table alone"
                )
            if facts.after_last > first:
                messages = read_range(
                    context.spark, context.nats, stream,
                    first=first, following=facts.after_last, filter=stored.filter,
                )  # fmt: skip
                rows = rows.unionByName(messages.select(*DEFAULT_COLUMNS))
    return rows


def _filled(template: str) -> Column:
    """Return a subject with `{subject}` and `{stream}` replaced by the row's."""
    result = F.lit(template)
    for name in ("subject", "stream"):
        result = F.replace(result, F.lit(f"{{{name}}}"), F.col(name))
    return result


def _expression(pattern: str) -> str:
    """Convert a NATS pattern to a Java regular expression."""
    tokens = []
    for token in pattern.split("."):
        tokens.append({"*": r"[^.]+", ">": r".+"}.get(token, rf"\Q{token}\E"))
    return "^" + r"\.".join(tokens) + "$"


def _moment(key: str, text: str) -> Column:
    return F.timestamp_micros(F.lit(option_values.moment(key, text, time.time_ns()) // 1000))
