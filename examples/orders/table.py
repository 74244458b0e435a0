"""`python -m examples.orders.table`: the stream ORDERS as a Spark table, counted by subject."""

import argparse

from pyspark.sql import SparkSession

from millstream.spark.pipeline.session import start_spark, use_this_python

MASTER = "local[2]"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.orders.table", description=__doc__)
    parser.add_argument("--server", default="nats://127.0.0.1:4222", help="URL of the NATS server")
    server = parser.parse_args().server
    use_this_python(MASTER)
    spark = start_spark(SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false"))
    spark.sparkContext.setLogLevel("ERROR")
    orders = (
        spark.read.format("jetstream").option("nats.servers", server).option("subscribe", "ORDERS").load()
    )
    orders.groupBy("subject").count().orderBy("subject").show()
    spark.stop()


if __name__ == "__main__":
    main()
