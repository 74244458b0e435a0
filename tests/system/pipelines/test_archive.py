"""Archive, verify and compaction, end to end: every message of a stream is in the table exactly once."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import ParquetTable

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]


def archive(stream: str, table: Path, **keys: object) -> dict[str, object]:
    return {"kind": "archive", "name": f"archive-{stream}", "streams": [stream], "table": str(table),
            "trigger": "once", **keys}  # fmt: skip


def verify(table: Path, **keys: object) -> dict[str, object]:
    return {"kind": "verify", "name": "verify", "table": str(table), "bucket": 100, **keys}


def sequences(table: Path) -> list[int]:
    """Return the sequences that a Parquet reader finds."""
    return sorted(pq.read_table(table, columns=["seq"]).column("seq").to_pylist())


def test_a_stream_is_archived_batch_by_batch_and_verified(spark, both, run_pipeline, tmp_path) -> None:
    stream = both.create("ARCHIVED", "archived.>")
    table = tmp_path / "table"
    both.fill("archived", 250)
    run_pipeline(both, archive(stream, table, max_rows=100), {**verify(table), "after": ["archive-ARCHIVED"]})
    both.fill("archived", 60, first=251)
    report = tmp_path / "report.json"
    run_pipeline(
        both,
        archive(stream, table, max_rows=100),
        {**verify(table, report=str(report)), "after": ["archive-ARCHIVED"]},
    )
    assert sequences(table) == list(range(1, 311))
    batches = ParquetTable.open(LocalFiles(str(table))).manifests()
    ranges = [(one.streams[stream].start, one.streams[stream].next, one.rows) for one in batches]
    assert ranges == [(1, 101, 100), (101, 201, 100), (201, 251, 50), (251, 311, 60)]
    assert {one.streams[stream].id for one in batches} == {both.admin.facts(stream).id}
    row = spark.read.parquet(str(table)).where("seq = 7").first()
    assert (row.stream, row.subject, bytes(row.data)) == (stream, "archived.1", b"message 7")
    assert row.headers == {"Number": ["7"]}
    result = json.loads(report.read_text())
    assert result["equal"] is True
    assert (result["streams"][0]["stream_rows"], result["streams"][0]["table_rows"]) == (310, 310)
