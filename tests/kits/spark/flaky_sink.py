"""A program of its own: Spark that tries tasks again, and a sink whose tasks and commits die.

    python flaky_sink.py URL FOLDER GUARANTEE

Writes 6,000 rows into the stream BATCH by a batch write and 4,000 messages of the stream IN into the stream
COPY by a query, and ends when all is written.  Every first attempt of a partition kills its process in the
middle, every second one raises; the commit of the second batch of the query fails, and the query is started
again.  What has arrived is for the test to count.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from millstream.spark.sink import BatchWriter, SinkTask, StreamWriter, TaskReport
from millstream.spark.source import JetStreamDataSource

URL, FOLDER, GUARANTEE = sys.argv[1:]
LIVES = 3  # record batches that a dying attempt takes


def mortal(batches: Iterator[Any]) -> Iterator[Any]:
    task = TaskContext.get()
    assert task is not None
    attempt = task.attemptNumber()
    for number, batch in enumerate(batches):
        if number == LIVES and attempt == 0:
            os._exit(9)
        if number == LIVES and attempt == 1:
            raise RuntimeError("this attempt dies, as it should")
        yield batch


class MortalBatchWriter(BatchWriter):
    def write(self, iterator: Iterator[Any]) -> TaskReport:
        return self._task.run(mortal(iterator))


class MortalStreamWriter(StreamWriter):
    def __init__(self, task: SinkTask, folder: str) -> None:
        super().__init__(task)
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> TaskReport:
        return self._task.run(mortal(iterator))

    def commit(self, messages: Any, batchId: int) -> None:
        flag = Path(self._folder) / "commit-failed"
        if batchId == 1 and not flag.exists():
            flag.touch()
            raise RuntimeError("this commit fails, as it should")
        super().commit(messages, batchId)


class FlakySink(JetStreamDataSource):
    folder = FOLDER

    @classmethod
    def name(cls) -> str:
        return "flaky_jetstream"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        made = super().writer(schema, overwrite)
        return MortalBatchWriter(made._task)  # type: ignore[attr-defined]

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        made = super().streamWriter(schema, overwrite)
        return MortalStreamWriter(made._task, self.folder)  # type: ignore[attr-defined]


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
        .config("spark.local.dir", FOLDER)
        .config("spark.sql.warehouse.dir", f"{FOLDER}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FlakySink)
    sink = {"nats.servers": URL, "deliveryGuarantee": GUARANTEE}

    batch = {**sink, "fenceSubject": "BATCH.fence"} if GUARANTEE == "fenced" else sink
    rows = spark.range(0, 6000, 1, 2).selectExpr(
        "concat('BATCH.', id % 3) subject", "cast(id as string) data"
    )
    rows.write.format("flaky_jetstream").options(**batch).mode("append").save()

    copy = {**sink, "fenceSubject": "COPY.fence"} if GUARANTEE == "fenced" else sink
    source = {"nats.servers": URL, "subscribe": "IN", "startingOffsets": "earliest"}
    limits = {"maxOffsetsPerTrigger": "2000", "minPartitions": "2", "maxRecordsPerPartition": "1000"}
    for _ in range(2):
        read = spark.readStream.format("jetstream").options(**source, **limits).load()
        query = (
            read.selectExpr("concat('COPY.', seq % 3) subject", "data")
            .writeStream.format("flaky_jetstream")
            .options(**copy)
            .option("checkpointLocation", f"{FOLDER}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "this commit fails" not in str(error):
                raise
    spark.stop()


if __name__ == "__main__":
    main()
