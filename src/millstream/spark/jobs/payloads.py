"""Payloads as JSON: parse them, and separate the messages whose payload is something else."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from millstream.spark.jobs.origins import origin_headers

VARIANT: Final = "variant"
DAMAGED: Final = "_damaged"


def parse_payload(messages: DataFrame, json: str) -> DataFrame:
    """Add `value`, the payload as JSON, and `_damaged`, the reason why it is not JSON, or null."""
    text = F.col("data").cast("string")
    if json.strip().lower() == VARIANT:
        return messages.withColumn("value", F.try_parse_json(text)).withColumn(
            DAMAGED, F.when(F.col("value").isNull(), F.lit("the payload is not JSON"))
        )
    schema = f"{json}, {DAMAGED} string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": DAMAGED}
    parsed = messages.withColumn("value", F.from_json(text, schema, options))
    failed = F.col("value").isNull() | F.col(f"value.{DAMAGED}").isNotNull()
    return parsed.withColumn(
        DAMAGED, F.when(failed, F.lit(f"the payload is not JSON of the form {json}"))
    ).withColumn("value", F.col("value").dropFields(DAMAGED))


def good_rows(parsed: DataFrame, *, fail: bool) -> DataFrame:
    """Return the rows with a valid payload; with `fail`, an invalid one fails the query and is named."""
    if not fail:
        return parsed.where(F.col(DAMAGED).isNull()).drop(DAMAGED)
    place = F.concat(
        F.lit("stream "), F.col("stream"), F.lit(", sequence "), F.col("seq"), F.lit(": "), F.col(DAMAGED)
    )
    checked = F.when(F.col(DAMAGED).isNull(), F.col("value")).otherwise(F.raise_error(place))
    return parsed.withColumn("value", checked).drop(DAMAGED)


def dead_rows(parsed: DataFrame, job: str) -> DataFrame:
    """Return the rows with an invalid payload as rows to publish, with reason and origin in the headers."""
    return parsed.where(F.col(DAMAGED).isNotNull()).select(
        F.col("data"),
        origin_headers(Millstream_Dlq_Reason=F.col(DAMAGED)).alias("headers"),
        F.concat_ws(":", F.lit("dlq"), F.lit(job), F.col("stream"), F.col("seq")).alias("msg_id"),
    )
