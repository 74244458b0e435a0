"""A program of its own: one streaming query out of the stream IN, over a source that dies where it is told.

    MORTAL_FOLDER=FOLDER python mortal_driver.py '{"url": …, "target": …, "options": {…}, "once": true}'

Targets are `table` (the archive job, into FOLDER/table), `iceberg` (the same, into lake.archived of the
warehouse FOLDER/lake), `tiered` (that with `purge`), `files` (Spark's own Parquet sink, to FOLDER/files),
`none` (rows are thrown away), and the guarantees of the sink, which copy to the stream OUT.  What Spark reads
of Iceberg and of `files` is written to FOLDER/rows.json at the end.  With `once` it ends when all that is
there is written.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.table import LakeTable
from millstream.spark.jobs import iceberg, inputs
from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import ParquetTable
from millstream.spark.pipeline import runner
from millstream.spark.pipeline.load import convert_pipeline
from tests.kits.spark.mortal_source import FOLDER, MortalSource, mortal_rows, pass_by

GUARANTEES = ("at-least-once", "dedupe", "fenced")
BATCH = 200  # messages in one micro-batch
FETCH = {"fetch.batch": "10", "transport": "pull"}  # so that reading takes more than one request


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(MortalSource)
    return spark


def make_parquet_mortal() -> None:
    """Set places to die between the steps of a batch of Parquet."""
    move, write, write_batch = LocalFiles.move, LocalFiles.write, ParquetTable.write_batch

    def mortal_move(self: LocalFiles, *places: Any) -> None:
        pass_by("write")
        move(self, *places)

    def mortal_write(self: LocalFiles, *what: Any) -> None:
        pass_by("moved")
        write(self, *what)

    def mortal_batch(self: ParquetTable, *what: Any) -> Any:
        manifest = write_batch(self, *what)
        pass_by("before-commit")
        return manifest

    LocalFiles.move = mortal_move  # type: ignore[method-assign,assignment]
    LocalFiles.write = mortal_write  # type: ignore[method-assign,assignment]
    ParquetTable.write_batch = mortal_batch  # type: ignore[method-assign,assignment]


def make_iceberg_mortal() -> None:
    """Set places to die between the steps of a batch of Iceberg."""
    commit_batch, commit_table = LakeTable.commit_batch, SqlCatalog.commit_table
    write_metadata = SqlCatalog._write_metadata

    def mortal_batch(self: LakeTable, *what: Any, **more: Any) -> None:
        pass_by("write")
        commit_batch(self, *what, **more)
        pass_by("before-commit")

    def mortal_metadata(*what: Any, **more: Any) -> None:
        write_metadata(*what, **more)
        pass_by("metadata")

    def mortal_commit(self: SqlCatalog, *what: Any) -> Any:
        answer = commit_table(self, *what)
        pass_by("landed")
        return answer

    iceberg.write_rows = mortal_rows  # type: ignore[attr-defined]
    LakeTable.commit_batch = mortal_batch  # type: ignore[method-assign]
    SqlCatalog._write_metadata = staticmethod(mortal_metadata)  # type: ignore[method-assign]
    SqlCatalog.commit_table = mortal_commit  # type: ignore[method-assign,assignment]


def make_purge_mortal() -> None:
    """Set places to die before and behind a purge of what is archived."""
    purge = StreamAdmin.purge

    def mortal_purge(self: StreamAdmin, *what: Any, **more: Any) -> int:
        pass_by("before-purge")
        removed = purge(self, *what, **more)
        pass_by("purged")
        return removed

    StreamAdmin.purge = mortal_purge  # type: ignore[method-assign]


def archive(spark: SparkSession, folder: Path, job: Mapping[str, Any]) -> None:
    """The archive job, with places to die between its steps."""
    runner.JetStreamDataSource = MortalSource  # type: ignore[attr-defined]
    inputs.SOURCE = MortalSource.name()  # type: ignore[misc]
    options = inputs.source_options
    inputs.source_options = lambda *inputs: options(*inputs) | FETCH
    is_tiered = job["target"] == "tiered"
    to_iceberg = is_tiered or job["target"] == "iceberg"
    make_iceberg_mortal() if to_iceberg else make_parquet_mortal()
    make_purge_mortal()
    settings = {
        "kind": "archive", "name": "archive", "streams": ["IN"],
        "table": "lake.archived" if to_iceberg else str(folder / "table"),
        "format": "iceberg" if to_iceberg else "parquet",
        **({"compact_folders": 2, "snapshots": 3} if to_iceberg else {}),
        **({"purge": True, "purge_force": True} if is_tiered else {}),  # readers that died have consumers
        "trigger": "once" if job["once"] else "10ms", "max_rows": BATCH,
        "checkpoint": str(folder / "checkpoint"),
    }  # fmt: skip
    catalog = {"warehouse": str(folder / "lake")}
    pipeline = convert_pipeline({"job": [settings], "catalog": catalog}, "mortal")
    run = runner.PipelineRun(pipeline, spark, {"nats.servers": job["url"]})
    run.start()
    run.wait()
    if run.failures:
        raise run.failures[0].error
    if to_iceberg:
        table = LakeTable.open(open_catalog(CatalogSettings(warehouse=catalog["warehouse"])), "lake.archived")
        found = [row.seq for row in iceberg.read_table(spark, table).select("seq").collect()]
        (folder / "rows.json").write_text(json.dumps(found))


def stream(spark: SparkSession, folder: Path, job: Mapping[str, Any]) -> None:
    target = job["target"]
    options = {
        "nats.servers": job["url"],
        "subscribe": "IN",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
        "maxRecordsPerPartition": str(BATCH // 2),
        **FETCH,
        **job["options"],
    }
    rows = spark.readStream.format("mortal").options(**options).load()
    if target in GUARANTEES:
        sink = {"nats.servers": job["url"], "deliveryGuarantee": target}
        if target == "fenced":
            sink["fenceSubject"] = "OUT.fence"
        writer = (
            rows.selectExpr("concat('OUT.', seq % 3) subject", "cast(seq as string) data", "stream", "seq")
            .writeStream.format("mortal")
            .options(**sink)
        )
    elif target == "none":
        writer = rows.select("seq").writeStream.format("noop")
    else:
        writer = rows.select("seq").writeStream.format("parquet").option("path", str(folder / "files"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(availableNow=True) if job["once"] else writer.trigger(processingTime="0 seconds")
    writer.start().awaitTermination()
    if target == "files":
        found = [row.seq for row in spark.read.parquet(str(folder / "files")).collect()]
        (folder / "rows.json").write_text(json.dumps(found))


def main() -> None:
    folder = Path(os.environ[FOLDER])
    (folder / "group").write_text(str(os.getpgid(0)))
    job = json.loads(sys.argv[1])
    spark = session(folder)
    run = archive if job["target"] in ("table", "iceberg", "tiered") else stream
    run(spark, folder, job)
    spark.stop()


if __name__ == "__main__":
    main()
