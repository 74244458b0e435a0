"""Where Spark finds `format("jetstream")`: it looks for `DefaultSource` in packages called `pyspark_…`."""

from millrace.spark.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
