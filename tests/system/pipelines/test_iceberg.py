"""Archive to Iceberg, verify, replay, compaction: every message is in the table exactly once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.table import LakeTable
from tests.kits.spark.encoded import MESSAGE, avro_file, in_avro, in_protobuf, protobuf_file

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]

TABLE = "lake.archived"


def archive(stream: str, **keys: object) -> dict[str, object]:
    return {"kind": "archive", "name": f"archive-{stream}", "streams": [stream], "table": TABLE,
            "format": "iceberg", "trigger": "once", **keys}  # fmt: skip


def table_of(tmp_path: Path, name: str = TABLE) -> LakeTable:
    return LakeTable.open(open_catalog(CatalogSettings(warehouse=str(tmp_path / "lake"))), name)


@pytest.fixture
def run_lake(run_pipeline: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Run jobs with a catalog in the test's folder."""

    def run(*jobs: Any, **keys: Any) -> Any:
        return run_pipeline(*jobs, catalog={"warehouse": str(tmp_path / "lake")}, **keys)

    return run


def test_a_stream_is_archived_verified_compacted_and_replayed(
    spark: SparkSession, both, run_lake, tmp_path: Path
) -> None:
    stream = both.create("ARCHIVED", "archived.>")
    target = both.create("AGAIN", "again.>")
    both.fill("archived", 250)
    verify = {"kind": "verify", "name": "verify", "table": TABLE, "format": "iceberg", "bucket": 100,
              "after": ["archive-ARCHIVED"]}  # fmt: skip
    run_lake(both, archive(stream, max_rows=100), verify)
    both.fill("archived", 60, first=251)
    compact = {"kind": "compact", "name": "compact", "table": TABLE, "format": "iceberg",
               "after": ["verify"], "snapshots": 1, "snapshot_age": "1ms", "orphan_age": "1h"}  # fmt: skip
    run_lake(both, archive(stream, max_rows=100, purge=True), {**verify, "strict": False}, compact)

    table = table_of(tmp_path)
    loaded = table.load()
    [task] = loaded.scan().plan_files()
    assert len(loaded.snapshots()) == 1
    found = loaded.scan().to_arrow()
    assert found.column("seq").to_pylist() == list(range(1, 311))
    [progress] = table.progress().values()
    assert (progress.batch, progress.streams[stream].first, progress.streams[stream].next) == (3, 1, 311)
    assert progress.streams[stream].id == both.admin.facts(stream).id
    row = found.slice(6, 1).to_pylist()[0]
    assert (row["stream"], row["subject"], row["data"]) == (stream, "archived.1", b"message 7")
    assert row["headers"] == [("Number", ["7"])]
    import duckdb  # at the top of a test module, it complains of leaks at the end

    [only] = duckdb.sql(f"select count(*), min(seq), max(seq) from '{task.file.file_path}'").fetchall()
    assert only == (310, 1, 310)
    seen = spark.read.parquet(task.file.file_path).where("seq = 7").first()
    assert seen is not None
    assert seen.headers == {"Number": ["7"]}

    assert both.count(stream) == 0
    both.fill("archived", 5, first=311)
    replay = {"kind": "replay", "name": "replay", "table": TABLE, "format": "iceberg", "target": target,
              "subject": "again.{subject}", "from_sequence": 301, "with_stream": True}  # fmt: skip
    run_lake(both, replay)
    assert [message.data for message in both.messages(target)] == [b"message %d" % n for n in range(301, 316)]


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_payloads_in_avro_and_protobuf_become_values_and_columns(
    spark: SparkSession, both, run_lake, tmp_path: Path, form: str
) -> None:
    if form == "avro":
        pytest.importorskip("fastavro")
        encoded, file, message = in_avro, avro_file(tmp_path), {}
    else:
        encoded, file, message = in_protobuf, protobuf_file(tmp_path), {"schema_message": MESSAGE}
    stream = both.create("ENCODED", "encoded.>")
    dead = both.create("DEAD", "dead.>")
    payloads = [encoded("d1", 20.5, "a", "b"), b"\xff\xff", encoded("d2", -3.0)]
    both.publish([("encoded.new", payload, {}) for payload in payloads])

    options = {"subscribe": stream, "valueFormat": form, "valueSchema": file, "onBadValue": "null"}
    if message:
        options["valueMessage"] = MESSAGE
    rows = spark.read.format("jetstream").options(**both.nats, **options).load()
    values = rows.selectExpr("seq", "value.*", "value_error is null as good").orderBy("seq").collect()
    good = [(1, "d1", 20.5, ["a", "b"]), (3, "d2", -3.0, [])]
    assert [tuple(row)[:4] for row in values if row.good] == good
    assert [row.seq for row in values if not row.good] == [2]

    run_lake(both, archive(stream, schema=file, dead_letters="dead.encoded", **message))
    found = table_of(tmp_path).load().scan().to_arrow().sort_by("seq")
    assert [
        tuple(row.values()) for row in found.select(["seq", "device", "celsius", "tags"]).to_pylist()
    ] == good
    assert found.column("data").to_pylist() == [payloads[0], payloads[2]]
    [letter] = both.messages(dead)
    assert (letter.data, dict(letter.headers)["Millstream-Orig-Seq"]) == (payloads[1], "2")
    assert dict(letter.headers)["Millstream-Dlq-Reason"]
