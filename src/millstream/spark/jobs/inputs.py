"""Translate the settings of an input into options of `format("jetstream")`, for all jobs."""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from millstream.spark.jobs.errors import MissingFormat
from millstream.spark.jobs.settings import Archive, Input

SOURCE: Final = "jetstream"
_DELTA_PACKAGE: Final = "io.delta:delta-spark_{spark}_2.13"  # each is for one version of Spark


def source_options(nats: Mapping[str, str], wanted: Input | Archive) -> dict[str, str]:
    """Return the options of a streaming read."""
    options = {
        **nats,
        "subscribe": ",".join(wanted.streams),
        "filterSubjects": ",".join(wanted.filter),
        "startingOffsets": "" if wanted.start_time else wanted.start,
        "startingTimestamp": wanted.start_time,
        "maxOffsetsPerTrigger": str(wanted.max_rows) if wanted.max_rows else "",
        "maxBytesPerTrigger": wanted.max_bytes,
        "minPartitions": str(wanted.partitions),
        "failOnDataLoss": str(wanted.fail_on_data_loss).lower(),
        "transport": wanted.transport,
    }
    return {name: value for name, value in options.items() if value}


def read_stream(
    spark: SparkSession,
    nats: Mapping[str, str],
    wanted: Input | Archive,
    *,
    columns: str = "",
    **more: str,
) -> DataFrame:
    """Return the messages of streams as a streaming DataFrame; `more` are further options of the source."""
    reader = spark.readStream.format(SOURCE).options(**source_options(nats, wanted), **more)
    return (reader.schema(columns) if columns else reader).load()


def read_range(
    spark: SparkSession,
    nats: Mapping[str, str],
    stream: str,
    *,
    first: int,
    following: int,
    filter: tuple[str, ...] = (),
    columns: str = "",
    transport: str = "auto",
) -> DataFrame:
    """Return the messages of one stream from `first` to `following` - 1; removed ones are left out."""
    reader = (
        spark.read.format(SOURCE)
        .options(**nats)
        .options(
            subscribe=stream,
            startingOffsets=json.dumps({stream: first}),
            endingOffsets=json.dumps({stream: following}),
            failOnDataLoss="false",
            transport=transport,
        )
    )
    if filter:
        reader = reader.option("filterSubjects", ",".join(filter))
    return (reader.schema(columns) if columns else reader).load()


def require_format(spark: SparkSession, name: str) -> None:
    """Raise MissingFormat if Spark cannot read and write tables of this format."""
    if name != "delta":
        return
    lookup = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]
    try:
        lookup.lookupDataSource(name, spark._jsparkSession.sessionState().conf())
    except Exception as error:
        package = _DELTA_PACKAGE.format(spark=".".join(spark.version.split(".")[:2]))
        raise MissingFormat(
            f"format {name}: this Spark does not have its jars; add them with "
            f'"spark.jars.packages" = "{package}:<version>" in [spark.conf]'
        ) from error
