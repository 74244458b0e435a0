"""A program of its own: a client of a Spark Connect server that reads, follows and writes streams.

    python connect_client.py sc://127.0.0.1:PORT NATS_URL FOLDER

Prints what it found as JSON.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

REMOTE, NATS, FOLDER = sys.argv[1:]


def main() -> None:
    spark = SparkSession.builder.remote(REMOTE).getOrCreate()
    stream = {"nats.servers": NATS, "subscribe": "IN"}
    table = spark.read.format("jetstream").options(**stream).load()
    found: dict[str, Any] = {
        "all": [bytes(row.data).decode() for row in table.select("data").collect()],
        "some": [row.seq for row in table.limit(3).collect()],
    }
    query = (
        spark.readStream.format("jetstream")
        .options(**stream, startingOffsets="earliest", maxOffsetsPerTrigger="100")
        .load()
        .selectExpr("'OUT.x' subject", "data")
        .writeStream.format("jetstream")
        .option("nats.servers", NATS)
        .option("checkpointLocation", f"{FOLDER}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    try:
        spark.read.format("jetstream").options(**(stream | {"subscribe": "NOPE"})).load().count()
    except Exception as error:
        found["error"] = str(error)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
