"""Delivery analytics: turn ack samples and advisories into tables about deliveries.

    latency    window, stream, consumer: acks, p50/p95/p99 of the time to the ack, share of redelivered
    failures   window, stream, consumer, kind (terminated, max_deliver, nak), reason: how many
    poison     one row for each message that was given up: stream, consumer, sequence, deliveries, reason

The input is a stream on `$JS.EVENT.METRIC.CONSUMER.ACK.>` (of consumers with a `sample_freq`) and
`$JS.EVENT.ADVISORY.CONSUMER.>`.  It is read by direct get: a consumer on it would cause advisories itself.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from millstream.spark.jobs.checkpoint import Checkpoint
from millstream.spark.jobs.context import JobContext, started_together, trigger
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.inputs import read_stream
from millstream.spark.jobs.settings import Analytics, Input
from millstream.spark.jobs.table import ParquetTable
from millstream.spark.jobs.watermarks import interval

ADVISORIES: Final = "$JS.EVENT.ADVISORY.CONSUMER.>"
TERMINATED: Final = "terminated"
MAX_DELIVER: Final = "max_deliver"
NAK: Final = "nak"

_SAMPLE_TYPE: Final = "io.nats.jetstream.metric.v1.consumer_ack"
_ADVISORY_TYPES: Final = {
    "io.nats.jetstream.advisory.v1.terminated": TERMINATED,
    "io.nats.jetstream.advisory.v1.max_deliver": MAX_DELIVER,
    "io.nats.jetstream.advisory.v1.nak": NAK,
}
_FIELDS: Final = (
    "type string, stream string, consumer string, stream_seq long, consumer_seq long, "
    "ack_time long, deliveries long, reason string, dead_letter string"
)
_RANKS: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_PRECISION: Final = 10_000


def read_events(messages: DataFrame) -> DataFrame:
    """Return samples and advisories as columns; other messages are left out."""
    event = F.from_json(F.col("data").cast("string"), _FIELDS)
    return (
        messages.select(F.col("time"), F.col("seq").alias("event_seq"), event.alias("event"))
        .select("time", "event_seq", "event.*")
        .where(F.col("stream").isNotNull() & F.col("consumer").isNotNull())
    )


def latency(events: DataFrame, window: str, delay: str) -> DataFrame:
    """Return the time to the ack, for each consumer and window."""
    milliseconds = F.col("ack_time") / 1_000_000
    ranks = F.percentile_approx(milliseconds, list(_RANKS.values()), _PRECISION)
    redelivered = F.count_if(F.col("deliveries") > 1)
    grouped = (
        events.where(F.col("type") == _SAMPLE_TYPE)
        .withWatermark("time", delay)
        .groupBy(F.window("time", window).alias("window"), "stream", "consumer")
        .agg(
            F.count(F.lit(1)).alias("acks"),
            ranks.alias("ranks"),
            F.max(milliseconds).alias("max_ms"),
            redelivered.alias("redelivered"),
            F.max("deliveries").alias("max_deliveries"),
        )
    )
    return grouped.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "stream",
        "consumer",
        "acks",
        *(F.col("ranks")[place].alias(name) for place, name in enumerate(_RANKS)),
        "max_ms",
        "redelivered",
        (F.col("redelivered") / F.col("acks")).alias("redelivery_ratio"),
        "max_deliveries",
    )


def advisories(events: DataFrame) -> DataFrame:
    """Return the advisories about single messages, with their `kind`."""
    kind = F.create_map(*(F.lit(text) for pair in _ADVISORY_TYPES.items() for text in pair))[F.col("type")]
    return events.withColumn("kind", kind).where(F.col("kind").isNotNull())


def failures(events: DataFrame, window: str, delay: str) -> DataFrame:
    """Count failed deliveries, for each consumer, window, kind and reason."""
    return (
        advisories(events)
        .withColumn("reason", F.coalesce("reason", F.lit("")))
        .withWatermark("time", delay)
        .groupBy(F.window("time", window).alias("window"), "stream", "consumer", "kind", "reason")
        .agg(F.count(F.lit(1)).alias("messages"))
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "stream", "consumer", "kind", "reason", "messages",
        )
    )  # fmt: skip


def poison(events: DataFrame) -> DataFrame:
    """Return the messages that will not be delivered again."""
    return (
        advisories(events)
        .where(F.col("kind") != NAK)
        .select("time", "stream", "consumer", "stream_seq", "deliveries", "kind",
                F.coalesce("reason", F.lit("")).alias("reason"), "event_seq")
    )  # fmt: skip


def run(context: JobContext, settings: Analytics) -> str:
    """Run until stopped or, with `trigger = "once"`, until everything present at the start is counted."""
    wanted = Input(
        streams=[settings.stream],
        filter=[],
        start=settings.start,
        max_rows=settings.max_rows,
        fail_on_data_loss=settings.fail_on_data_loss,
    )
    window, delay = interval("window", settings.window), interval("delay", settings.delay)
    events = read_events(read_stream(context.spark, context.nats, wanted))
    tables = {
        "latency": latency(events, window, delay),
        "failures": failures(events, window, delay),
        "poison": poison(events),
    }
    with started_together() as queries:
        for name, rows in tables.items():
            mode = "append" if name == "poison" else settings.mode
            queries.append(_start(context, settings, name, rows, mode))
    context.follow(*queries)
    return f"to {settings.table}"


def _start(context: JobContext, settings: Analytics, name: str, rows: DataFrame, mode: str) -> StreamingQuery:
    place = f"{context.checkpoint}/{name}"
    checkpoint = Checkpoint(open_files(place, context.spark))
    checkpoint.check()
    table = ParquetTable(open_files(f"{settings.table}/{name}", context.spark), ("day",))
    day = F.to_date(F.col("time" if name == "poison" else "window_start"))

    def write(batch_rows: DataFrame, batch: int) -> None:
        table.claim(checkpoint.query_id(), {"mode": mode})
        ready = batch_rows.withColumn("day", day)
        if mode == "update":
            ready = ready.withColumn("batch_id", F.lit(batch).cast("long"))
        with table.writing():
            table.write_batch(ready, batch, checkpoint.ranges(batch))

    writer = trigger(rows.writeStream.outputMode(mode), settings.trigger).queryName(f"{context.name}/{name}")
    return writer.option("checkpointLocation", place).foreachBatch(write).start()
