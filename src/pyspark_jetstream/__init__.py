"""The source behind `format("jetstream")`: Spark looks for `DefaultSource` in packages called `pyspark_…`."""

from millstream.spark.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
