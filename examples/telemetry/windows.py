"""The function of the job `minutes` in `pipeline.toml`: readings by minute, with the device's name."""

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def by_minute(views: dict[str, DataFrame]) -> DataFrame:
    """Join the readings with the bucket of names, and average them by minute."""
    names = (
        SparkSession.active()
        .read.format("jetstream")
        .options(**{"nats.servers": os.environ["NATS_URL"], "bucket": "devices"})
        .options(valueFormat="json", valueSchema="name string, room string")
        .load()
        .select(F.col("key").alias("device"), "value.name", "value.room")
    )
    readings = views["readings"].select(
        F.element_at(F.split("subject", "[.]"), -1).alias("device"), "at", "value.celsius"
    )
    return (
        readings.join(names, "device")
        .groupBy(F.window("at", "1 minute"), "room", "name")
        .agg(F.avg("celsius").alias("celsius"), F.count("*").alias("readings"))
        .select(F.col("window.start").alias("minute"), "room", "name", "celsius", "readings")
    )
