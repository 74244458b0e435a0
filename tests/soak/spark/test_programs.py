"""Other ways to run Spark, as the manual shows them: a standalone cluster, Connect, declarative pipelines."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.kits.paths import TESTS
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.deaths import Streams, exactly_once, wait_until
from tests.kits.spark.programs import BIN, Program, run

COUNT = 300
METASTORE = "jdbc:derby:;databaseName={}/metastore;create=true"  # tables last from run to run
BUCKET = {"name": "KV_devices", "subjects": ["$KV.devices.>"], "max_msgs_per_subject": 5}

pytestmark = [pytest.mark.timeout(1200), pytest.mark.soak]


@pytest.fixture
def streams() -> Iterator[Streams]:
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True) as server:
        streams = Streams(server.client_url)
        streams.fill(COUNT)
        streams.url = server.client_url  # type: ignore[attr-defined]
        yield streams
        streams.close()


def test_a_standalone_cluster_runs_the_archive_job(streams: Streams, tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{(port := free_ports(1)[0])}"
    file = tmp_path / "archive.toml"
    file.write_text(
        f"""
checkpoint = "{tmp_path}/checkpoints"
[nats]
servers = ["{streams.url}"]
[spark.conf]
"spark.driver.memory" = "1g"
"spark.executor.memory" = "512m"
[[job]]
kind = "archive"
name = "archive"
streams = ["IN"]
table = "{tmp_path}/table"
max_rows = 100
"""
    )
    start = "org.apache.spark.deploy"
    common = ("--host", "127.0.0.1", "--webui-port", "0")
    with (
        Program(
            tmp_path, "master", "spark-class", f"{start}.master.Master", *common, "--port", str(port)
        ) as first,
    ):
        first.wait_for_log("I have been elected leader")
        with Program(
            tmp_path, "worker", "spark-class", f"{start}.worker.Worker", *common,
            "-c", "2", "-m", "1g", "-d", str(tmp_path / "work"), master,
        ) as second:  # fmt: skip
            second.wait_for_log("Successfully registered with master")
            arguments = ("-m", "millstream", "pipeline", "run", str(file), "--once", "--master", master)
            told = run(tmp_path, sys.executable, *arguments)
            assert "Asked to launch executor" in second.log  # and it was not the driver that did the work
    assert "archive (archive): done" in told
    rows = pq.read_table(tmp_path / "table", columns=["seq"]).column("seq").to_pylist()
    assert sorted(rows) == list(range(1, COUNT + 1))


def test_a_client_of_spark_connect_reads_and_copies_a_stream(streams: Streams, tmp_path: Path) -> None:
    [port] = free_ports(1)
    with Program(
        tmp_path, "connect", "spark-submit",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--driver-memory", "1g",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.ui.enabled=false",
        "spark-internal",
    ) as server:  # fmt: skip
        server.wait_for_log("Spark Connect server started")
        client = str(TESTS / "kits/spark/connect_client.py")
        output = run(tmp_path, sys.executable, client, f"sc://127.0.0.1:{port}", streams.url, str(tmp_path))
    found = json.loads(output.splitlines()[-1])
    assert found["all"] == [str(number) for number in range(1, COUNT + 1)]
    assert found["some"] == [1, 2, 3]
    assert "there is no stream NOPE" in found["error"]
    assert streams.copies() == exactly_once(COUNT)
    wait_until(
        lambda: not streams.api("CONSUMER.NAMES.IN").get("consumers"), "readers leave consumers behind"
    )


def test_a_declarative_pipeline_makes_tables_a_sink_and_the_history_of_a_bucket(
    streams: Streams, tmp_path: Path
) -> None:
    streams.api("STREAM.CREATE.KV_devices", BUCKET)
    for key, value, headers in (
        ("d1", b"boiler", b""),
        ("d2", b"oven", b""),
        ("d1", b"heater", b""),
        ("d2", b"", b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"),
    ):
        streams.link.request(f"$KV.devices.{key}", value, headers=headers)
    project(
        tmp_path,
        f"""
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
STREAM = {{"nats.servers": "{streams.url}", "subscribe": "IN", "startingOffsets": "earliest"}}


@dp.table
def orders() -> DataFrame:
    return spark.readStream.format("jetstream").options(**STREAM).load()


@dp.materialized_view
def subjects() -> DataFrame:
    return spark.read.table("orders").groupBy("subject").count()


dp.create_sink("copies", "jetstream", {{"nats.servers": "{streams.url}", "subject": "OUT.all"}})


@dp.append_flow(target="copies")
def copied() -> DataFrame:
    return spark.readStream.table("orders").select("stream", "seq", "data")


BUCKET = {{"nats.servers": "{streams.url}", "bucket": "devices", "startingOffsets": "earliest"}}


@dp.table
def device_changes() -> DataFrame:
    return spark.readStream.format("jetstream").options(**BUCKET, failOnDataLoss="false").load()


@dp.materialized_view
def devices() -> DataFrame:
    until = "lead(time) over (partition by key order by revision) as until"
    return spark.read.table("device_changes").selectExpr("*", until).where("operation = 'put'")
""",
    )
    run_project(tmp_path)
    devices = pq.read_table(tmp_path / "warehouse" / "devices").sort_by("revision").to_pylist()
    assert [(row["key"], row["value"], row["until"] is None) for row in devices] == [
        ("d1", b"boiler", False),
        ("d2", b"oven", False),
        ("d1", b"heater", True),
    ]
    assert devices[0]["until"] == devices[2]["time"]
    orders = pq.read_table(tmp_path / "warehouse" / "orders", columns=["seq"])
    assert sorted(orders.column("seq").to_pylist()) == list(range(1, COUNT + 1))
    subjects = pq.read_table(tmp_path / "warehouse" / "subjects").to_pylist()
    assert sum(row["count"] for row in subjects) == COUNT
    assert streams.copies() == exactly_once(COUNT)

    streams.link.request("$KV.devices.d1", b"fan")
    streams.api("STREAM.PURGE.KV_devices", {"keep": 1})
    run_project(tmp_path)
    devices = pq.read_table(tmp_path / "warehouse" / "devices").sort_by("revision").to_pylist()
    assert [(row["value"], row["until"] is None) for row in devices] == [
        (b"boiler", False),
        (b"oven", False),
        (b"heater", False),
        (b"fan", True),
    ]
    assert streams.copies() == exactly_once(COUNT)


def test_a_bucket_feeds_an_auto_cdc_flow_up_to_the_table_that_needs_merge(
    streams: Streams, tmp_path: Path
) -> None:
    """Spark's own formats cannot be merged into, and connectors that can are jars."""
    streams.api("STREAM.CREATE.KV_devices", BUCKET)
    project(
        tmp_path,
        f"""
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
BUCKET = {{"nats.servers": "{streams.url}", "bucket": "devices", "startingOffsets": "earliest"}}


@dp.temporary_view
def changes() -> DataFrame:
    return spark.readStream.format("jetstream").options(**BUCKET, failOnDataLoss="false").load()


dp.create_streaming_table("devices")
dp.create_auto_cdc_flow(
    target="devices", source="changes", keys=["key"], sequence_by="revision",
    apply_as_deletes="operation <> 'put'", except_column_list=["operation"],
)
""",
    )
    with pytest.raises(AssertionError, match="AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE"):
        run_project(tmp_path)


def project(folder: Path, definitions: str) -> None:
    """Write a declarative pipeline."""
    (folder / "spark-pipeline.yml").write_text(
        f"name: orders\nstorage: file://{folder}/storage\n"
        "libraries:\n  - glob:\n      include: transformations/**\n"
        "configuration:\n  spark.sql.shuffle.partitions: '2'\n"
    )
    (folder / "transformations").mkdir()
    (folder / "transformations" / "orders.py").write_text(definitions)


def run_project(folder: Path) -> str:
    return run(
        folder, str(BIN / "spark-pipelines"), "run",
        "--conf", f"spark.sql.warehouse.dir={folder}/warehouse", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.sql.catalogImplementation=hive",
        "--conf", f"spark.hadoop.javax.jdo.option.ConnectionURL={METASTORE.format(folder)}",
    )  # fmt: skip
