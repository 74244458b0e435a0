"""Transform: pass streams through SQL or a Python function into a stream or a table.

Each input is a view of its messages, with the payload as JSON in the column `value` if the settings give its
schema.  A message with another payload becomes a dead letter, with the reason and its position in the stream,
in a separate query: the main query never sees it, so windows and aggregations are not affected.

The id of a row for a stream is the column `msg_id` if the result has one.  Otherwise it is the row's place in
the batch for plans without state, which is the same in every run of the batch, and a hash of the content for
plans with state: rows of an aggregation have no place, but differ from each other.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from millstream.lake.progress import Progress, QueryProgress
from millstream.lake.table import archived
from millstream.spark.jobs.checkpoint import Checkpoint, sound_checkpoint
from millstream.spark.jobs.context import JobContext, started_together, trigger
from millstream.spark.jobs.errors import JobError, TableError
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.iceberg import TRANSFORM, ensure_table, transform_form, write_batch
from millstream.spark.jobs.inputs import SOURCE, read_stream, require_format
from millstream.spark.jobs.payloads import dead_rows, good_rows, parse_payload
from millstream.spark.jobs.settings import Output, Parsed, Transform
from millstream.spark.jobs.table import ParquetTable
from millstream.spark.jobs.watermarks import milliseconds, split_watermark

ANY_SUBJECT: Final = "*"
_STATEFUL: Final = ("Aggregate ", "Deduplicate", "Join ", "WithState", "Distinct", "Sort ")
# Columns that control how a row is published and are not part of its content.
_ENVELOPE: Final = ("subject", "headers", "msg_id", "ttl")

PythonFunction = Callable[[dict[str, DataFrame]], DataFrame]


def apply_sql(spark: SparkSession, views: Mapping[str, DataFrame], sql: str) -> DataFrame:
    """Run a query over DataFrames that are registered as views."""
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    return spark.sql(sql)


def load_function(text: str) -> PythonFunction:
    """Import the function of `module:function`; raise JobError."""
    module, _, name = text.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise JobError(f'key "python": module {module} cannot be imported: {error}') from None
    except AttributeError:
        raise JobError(f'key "python": module {module} has no function {name}') from None
    if not callable(found):
        raise JobError(f'key "python": {text} is no function')
    return cast(PythonFunction, found)


def is_stateful(frame: DataFrame) -> bool:
    """Return True if rows of the result are made of several messages, or change their order."""
    plan = frame._jdf.queryExecution().analyzed().toString()
    return any(word in plan for word in _STATEFUL)


def sink_rows(result: DataFrame, job: str, *, any_subject: bool, batch: int | None = None) -> DataFrame:
    """Return the result as rows for the sink; without a column `data` the payload is the row as JSON."""
    columns = [name for name in result.columns if name in _ENVELOPE and (name != "subject" or any_subject)]
    if any_subject and "subject" not in columns:
        raise JobError('output: subject = "*" needs a column "subject" in the result')
    content = [name for name in result.columns if name not in columns]
    data = (
        F.col("data") if "data" in content else F.to_json(F.struct(*(F.col(f"`{name}`") for name in content)))
    )
    wanted: list[Column] = [data.alias("data"), *(F.col(name) for name in columns)]
    if "msg_id" not in columns and (batch is not None or is_stateful(result)):
        digest = F.sha2(F.to_json(F.struct(*(F.col(f"`{name}`") for name in result.columns))), 256)
        parts = [F.lit(job), *([F.lit(str(batch))] if batch is not None else []), digest]
        wanted.append(F.concat_ws(":", *parts).alias("msg_id"))
    return result.select(*wanted)


def planned(
    spark: SparkSession, job: str, settings: Transform, read: Callable[[Parsed], DataFrame]
) -> tuple[DataFrame, dict[str, DataFrame]]:
    """Return the result over the DataFrames that `read` returns, and the dead letters by input."""
    views: dict[str, DataFrame] = {}
    dead: dict[str, DataFrame] = {}
    for name, wanted in settings.input.items():
        messages = read(wanted)
        if wanted.json:
            parsed = parse_payload(messages, wanted.json)
            messages = good_rows(parsed, fail=not settings.dead_letters)
            if settings.dead_letters:
                dead[name] = dead_rows(parsed, job)
        views[name] = _with_watermark(messages, wanted)
    if settings.sql:
        return apply_sql(spark, views, settings.sql), dead
    return load_function(settings.python)(views), dead


def run(context: JobContext, settings: Transform) -> str:
    """Run until stopped or, with `trigger = "once"`, until everything present at the start is processed."""
    require_format(context.spark, settings.output.format)
    result, dead = planned(
        context.spark,
        context.name,
        settings,
        lambda wanted: read_stream(context.spark, context.nats, wanted),
    )
    with started_together() as queries:
        queries.append(_start_output(context, settings, result))
        for name, rows in dead.items():
            writer = rows.writeStream.format(SOURCE).options(**context.nats, subject=settings.dead_letters)
            place = f"{context.checkpoint}/dead-letters/{name}"
            writer = writer.queryName(f"{context.name}/dead-letters/{name}").option(
                "checkpointLocation", sound_checkpoint(place, context.spark)
            )
            queries.append(trigger(writer, settings.trigger).start())
    context.follow(*queries)
    return "done"


def _with_watermark(messages: DataFrame, wanted: Parsed) -> DataFrame:
    if not wanted.watermark:
        return messages
    column, delay_s = split_watermark(wanted.watermark)
    if "." in column:  # Spark needs a column of the frame itself
        name = column.rpartition(".")[2]
        messages, column = messages.withColumn(name, F.col(column).cast("timestamp")), name
    return messages.withWatermark(column, milliseconds(delay_s))


def _start_output(context: JobContext, settings: Transform, result: DataFrame) -> StreamingQuery:
    output = settings.output
    place = sound_checkpoint(f"{context.checkpoint}/main", context.spark)
    if output.subject:
        writer = _stream_output(context, output, result)
    elif output.format != "delta":
        writer = _table_output(context, output, result, Checkpoint(open_files(place, context.spark)))
    else:
        writer = result.writeStream.format(output.format).outputMode(output.mode)
        if output.partition_by:
            writer = writer.partitionBy(*output.partition_by)
    writer = trigger(writer, settings.trigger).queryName(context.name).option("checkpointLocation", place)
    return writer.start(output.table) if output.table and output.format == "delta" else writer.start()


def _stream_output(context: JobContext, output: Output, result: DataFrame) -> Any:
    options = {**context.nats, "deliveryGuarantee": output.guarantee}
    if output.fence_subject:
        options["fenceSubject"] = output.fence_subject
    any_subject = output.subject == ANY_SUBJECT
    if not any_subject:
        options["subject"] = output.subject
    if output.mode == "append":
        rows = sink_rows(result, context.name, any_subject=any_subject)
        return rows.writeStream.format(SOURCE).options(**options).outputMode("append")

    # Python sinks do not support the update mode, so each batch is written with a batch query.
    def write(rows: DataFrame, batch: int) -> None:
        ready = sink_rows(rows, context.name, any_subject=any_subject, batch=batch)
        ready.write.format(SOURCE).options(**options).mode("append").save()

    return result.writeStream.foreachBatch(write).outputMode(output.mode)


def _table_output(context: JobContext, output: Output, result: DataFrame, checkpoint: Checkpoint) -> Any:
    for name in output.partition_by:
        if name not in result.columns:
            raise JobError(f'output: key "partition_by": the result has no column {name}')
    if output.format == "iceberg":
        return _iceberg_output(context, output, result, checkpoint)
    table = ParquetTable(open_files(output.table, context.spark), output.partition_by)
    claimed: list[str] = []

    def write(rows: DataFrame, batch: int) -> None:
        if not claimed:
            claimed.append(checkpoint.query_id())
            table.claim(claimed[0], {"mode": output.mode})
        if output.mode == "update":
            rows = rows.withColumn("batch_id", F.lit(batch).cast("long"))
        with table.writing():
            table.write_batch(rows, batch, checkpoint.ranges(batch))

    return result.writeStream.foreachBatch(write).outputMode(output.mode)


def _iceberg_output(context: JobContext, output: Output, result: DataFrame, checkpoint: Checkpoint) -> Any:
    schema = result.schema
    if output.mode == "update":
        schema = StructType([*schema.fields, StructField("batch_id", LongType())])
    table = ensure_table(context, output.table, transform_form(schema, output.partition_by))

    def write(rows: DataFrame, batch: int) -> None:
        query = checkpoint.query_id()
        ranges = {name: (at.id, at.start, at.next) for name, at in checkpoint.ranges(batch).items()}

        def advance(before: Progress) -> QueryProgress:
            if before.keys() - {query}:
                raise TableError(
                    f"table {output.table} is written with another checkpoint (query {min(before)}); "
                    "use that checkpoint, or another table"
                )
            return archived(TRANSFORM, batch, before.get(query), ranges, ())

        if output.mode == "update":
            rows = rows.withColumn("batch_id", F.lit(batch).cast("long"))
        write_batch(table, rows, query, batch, advance)

    return result.writeStream.foreachBatch(write).outputMode(output.mode)
