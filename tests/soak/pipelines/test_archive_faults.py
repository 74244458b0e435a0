"""Archive and verify when something is wrong: each a message that names the cause, and nothing lost."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.settings import Pipeline
from millstream.spark.jobs.table import ParquetTable
from millstream.spark.pipeline.load import convert_pipeline
from millstream.spark.pipeline.progress import State
from millstream.spark.pipeline.runner import PipelineRun
from tests.kits.reference import ServerKind, ServerProcess

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]


def archive(stream: str, table: Path, **keys: object) -> dict[str, object]:
    return {"kind": "archive", "name": "archive", "streams": [stream], "table": str(table),
            "trigger": "once", **keys}  # fmt: skip


def verify(table: Path, **keys: object) -> dict[str, object]:
    return {"kind": "verify", "name": "verify", "table": str(table), "bucket": 10, **keys}


def failure(run: PipelineRun) -> str:
    [one] = run.failures
    return one.text


@pytest.mark.soak
def test_verify_names_what_the_table_does_not_have(millstream, run_pipeline, tmp_path) -> None:
    stream = millstream.create("CHECKED", "checked.>")
    table = tmp_path / "table"
    millstream.fill("checked", 100)
    run_pipeline(millstream, archive(stream, table, max_rows=40))
    millstream.link.api(f"STREAM.MSG.DELETE.{stream}", {"seq": 95})
    run_pipeline(millstream, verify(table))  # that a stream forgets is no fault of the table
    strict = run_pipeline(millstream, verify(table, strict=True), fails=True)
    assert "CHECKED: only in table: 95" in failure(strict)
    [folder] = table.glob("stream=*/day=*/batch=b000000000001")
    shutil.rmtree(folder)
    report = tmp_path / "report.json"
    broken = run_pipeline(millstream, verify(table, report=str(report)), fails=True)
    assert "CHECKED: missing in table: 41-80" in failure(broken)
    assert json.loads(report.read_text())["streams"][0]["missing_in_table"] == [[41, 80]]


@pytest.mark.soak
def test_a_cause_is_named(millstream, run_pipeline, tmp_path) -> None:
    table = tmp_path / "table"
    missing = run_pipeline(millstream, archive("NOPE", table), fails=True)
    assert "there is no stream NOPE" in failure(missing)

    stream = millstream.create("AGAIN", "again.>")
    millstream.fill("again", 10)
    run_pipeline(millstream, archive(stream, table, checkpoint=str(tmp_path / "c1")))
    other = run_pipeline(millstream, archive(stream, table, checkpoint=str(tmp_path / "c2")), fails=True)
    assert "is written with another checkpoint" in failure(other)

    (tmp_path / "c1" / "metadata").write_text("{")
    damaged = run_pipeline(millstream, archive(stream, table, checkpoint=str(tmp_path / "c1")), fails=True)
    assert "c1/metadata is damaged" in failure(damaged)

    unformatted = run_pipeline(millstream, archive(stream, table, format="delta"), fails=True)
    assert "format delta: this Spark does not have its jars" in failure(unformatted)

    assert ParquetTable.open(LocalFiles(str(table))).manifests()[-1].rows == 10


@pytest.mark.soak
def test_a_stream_that_was_made_again_does_not_mix_with_the_old_one(
    millstream, run_pipeline, tmp_path
) -> None:
    table = tmp_path / "table"
    for _ in range(2):
        millstream.clear()
        stream = millstream.create("AGAIN", "again.>")
        millstream.fill("again", 10)
        run = run_pipeline(
            millstream,
            archive(stream, table, fail_on_data_loss=False, purge=True),
            fails=(table / "_millstream" / "batches").exists(),
        )
    assert "was deleted and created again" in failure(run)
    assert millstream.count(stream) == 10  # of which nothing is in the table
    assert len(ParquetTable.open(LocalFiles(str(table))).manifests()) == 1


@pytest.mark.soak
def test_what_is_archived_is_purged_and_not_a_message_more(millstream, run_pipeline, tmp_path) -> None:
    stream = millstream.create("TIERED", "tiered.>")
    table = tmp_path / "table"
    millstream.fill("tiered", 50)
    run_pipeline(millstream, archive(stream, table, purge=True, max_rows=20))
    assert millstream.count(stream) == 0
    millstream.fill("tiered", 5, first=51)
    millstream.link.api(f"CONSUMER.DURABLE.CREATE.{stream}.C", {
        "stream_name": stream, "config": {"durable_name": "C", "ack_policy": "explicit"}})  # fmt: skip
    refused = run_pipeline(millstream, archive(stream, table, purge=True), fails=True)
    assert "stream TIERED has 1 consumers" in failure(refused)
    assert millstream.count(stream) == 5
    run_pipeline(millstream, archive(stream, table, purge=True, purge_force=True))
    assert millstream.count(stream) == 0
    rows = sum(one.rows for one in ParquetTable.open(LocalFiles(str(table))).manifests())
    assert rows == 55


@pytest.mark.soak
def test_a_run_that_is_stopped_ends_between_batches(spark: Any, millstream, tmp_path) -> None:
    stream = millstream.create("ENDLESS", "endless.>")
    millstream.fill("endless", 2000)
    table = tmp_path / "table"
    job = archive(stream, table, trigger="10ms", max_rows=50)
    pipeline: Pipeline = convert_pipeline({"job": [job], "progress": {"subject": "progress.here"}}, "test")
    sid = millstream.link.subscribe("progress.here")
    millstream.link.flush()
    run = PipelineRun(pipeline, spark, millstream.nats)
    enough = threading.Event()
    run.on_change = lambda progress: enough.set() if progress.batches >= 2 else None
    run.start()
    assert enough.wait(100)
    run.stop()
    run.wait(100)
    assert not run.running
    assert run.failures == []
    assert run.board.jobs()[0].state is State.STOPPED
    told = json.loads(millstream.link.next_message(10).payload)
    assert (told["job"], told["kind"]) == ("archive", "archive")
    millstream.link.unsubscribe(sid)
    while millstream.link.next_message(0.1) is not None:
        pass  # other tests share this connection
    manifests = ParquetTable.open(LocalFiles(str(table))).manifests()
    assert 2 <= len(manifests) < 40
    assert not list((table / "_millstream" / "staging").glob("*/*"))


@pytest.mark.soak
def test_wrong_credentials_and_a_server_that_is_away_are_told(spark: Any, tmp_path: Path) -> None:
    def text_of(nats: dict[str, str]) -> str:
        run = PipelineRun(
            convert_pipeline({"job": [archive("ANY", tmp_path / "table")]}, "test"), spark, nats
        )
        run.start()
        run.wait()
        return failure(run)

    assert "127.0.0.1:1" in text_of({"nats.servers": "nats://127.0.0.1:1"})
    with ServerProcess(ServerKind.MILLSTREAM, "--user", "u", "--pass", "right", jetstream=True) as server:
        text = text_of(
            {"nats.servers": server.client_url, "nats.user": "u", "nats.password": "wrong-and-secret"}
        )
    assert "refused the credentials" in text
    assert "wrong-and-secret" not in text
