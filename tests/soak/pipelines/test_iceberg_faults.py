"""Archives to Iceberg when something is wrong: each a message that names the cause, and nothing changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.places import local_path
from millstream.lake.table import LakeTable
from millstream.spark.pipeline.runner import PipelineRun
from tests.kits.rest_catalog import rest_catalog

pytestmark = [pytest.mark.timeout(900), pytest.mark.soak]

TABLE = "lake.archived"


def archive(*streams: str, **keys: object) -> dict[str, object]:
    return {"kind": "archive", "name": f"archive-{streams[0]}", "streams": list(streams), "table": TABLE,
            "format": "iceberg", "trigger": "once", **keys}  # fmt: skip


def verify(**keys: object) -> dict[str, object]:
    return {"kind": "verify", "name": "verify", "table": TABLE, "format": "iceberg", "bucket": 10, **keys}


def failure(run: PipelineRun) -> str:
    [one] = run.failures
    return one.text


class Lake:
    """The warehouse of a test, and runs of pipelines on it."""

    def __init__(self, folder: Path, run_pipeline: Callable[..., PipelineRun]) -> None:
        self.folder = folder
        self._run = run_pipeline

    def run(self, broker: Any, *jobs: dict[str, object], **keys: Any) -> PipelineRun:
        return self._run(broker, *jobs, **{"catalog": {"warehouse": str(self.folder)}, **keys})

    def fails(self, broker: Any, *jobs: dict[str, object], **keys: Any) -> str:
        """Run jobs that fail; return the cause.  The table stays as it is."""
        before = self.metadata()
        text = failure(self.run(broker, *jobs, fails=True, **keys))
        assert self.metadata() == before
        return text

    def table(self) -> LakeTable:
        return LakeTable.open(open_catalog(CatalogSettings(warehouse=str(self.folder))), TABLE)

    def metadata(self) -> str:
        if not (self.folder / "catalog.db").exists():
            return ""
        catalog = open_catalog(CatalogSettings(warehouse=str(self.folder)))
        return catalog.load_table(TABLE).metadata_location if catalog.table_exists(TABLE) else ""

    def pairs(self) -> list[tuple[str, int]]:
        found = self.table().load().scan().to_arrow()
        return sorted(zip(found["stream"].to_pylist(), found["seq"].to_pylist(), strict=True))


@pytest.fixture
def lake(tmp_path: Path, run_pipeline: Callable[..., PipelineRun]) -> Lake:
    return Lake(tmp_path / "lake", run_pipeline)


def test_two_archives_share_a_table_with_different_streams_only(broker, lake: Lake, tmp_path: Path) -> None:
    for name in ("ONE", "TWO"):
        broker.create(name, f"{name.lower()}.>")
        broker.fill(name.lower(), 60)
    lake.run(broker, archive("ONE", max_rows=20), archive("TWO", max_rows=15))  # at the same time
    assert lake.pairs() == sorted((name, n) for name in ("ONE", "TWO") for n in range(1, 61))
    lake.run(broker, verify())
    text = lake.fails(broker, archive("ONE", checkpoint=str(tmp_path / "other")))
    assert "table lake.archived gets stream ONE with another checkpoint" in text


def test_a_rest_catalog_that_loses_answers_in_mid_commit_costs_and_doubles_nothing(
    broker, run_pipeline, tmp_path: Path
) -> None:
    for name in ("ONE", "TWO"):
        broker.create(name, f"{name.lower()}.>")
        broker.fill(name.lower(), 60)
    with rest_catalog(tmp_path / "rest") as served:
        settings = served.settings
        catalog = {"name": settings.name, "type": "rest", "uri": settings.uri, "properties": {
            "rest.client.socket-timeout-ms": "5000"}}  # fmt: skip
        run_pipeline(broker, archive("ONE", max_rows=20), catalog=catalog)
        broker.fill("one", 60, first=61)
        served.faults += ["after", "before", "silent-after", "", "silent"]
        both = (
            archive("ONE", max_rows=20),
            archive("TWO", max_rows=20),
            verify(after=["archive-ONE", "archive-TWO"]),
        )
        run_pipeline(broker, *both, catalog=catalog)
        assert served.faults == []
        found = served.catalog.load_table(TABLE).scan().to_arrow()
    pairs = sorted(zip(found["stream"].to_pylist(), found["seq"].to_pylist(), strict=True))
    assert pairs == [("ONE", n) for n in range(1, 121)] + [("TWO", n) for n in range(1, 61)]


def test_causes_are_named_and_nothing_changes(millstream, lake: Lake, tmp_path: Path) -> None:
    assert "there is no stream NOPE" in lake.fails(millstream, archive("NOPE"))
    assert "there is no catalog" in failure(
        lake.run(millstream, verify(), fails=True, catalog={"warehouse": str(tmp_path / "none")})
    )
    stream = millstream.create("ONE", "one.>")
    millstream.fill("one", 30)
    lake.run(millstream, archive(stream))
    millstream.fill("one", 5, first=31)
    text = lake.fails(millstream, archive(stream, filter=["one.1"]))
    assert "was made with filter [], not ['one.1']" in text

    other = {"warehouse": str(tmp_path / "other")}
    assert "is of another table, or another catalog: there is no catalog" in failure(
        lake.run(millstream, archive(stream), fails=True, catalog=other)
    )
    assert not (tmp_path / "other").exists()

    loaded = lake.table().load()
    [task] = loaded.scan().plan_files()
    place = local_path(task.file.file_path)
    content = place.read_bytes()
    place.write_bytes(content[: len(content) // 2])
    assert place.name in lake.fails(millstream, verify())
    place.write_bytes(content)
    lake.run(millstream, archive(stream), verify(after=["archive-ONE"]))
    assert len(lake.pairs()) == 35


def test_a_stream_that_was_made_again_does_not_mix_with_the_old_one(millstream, lake: Lake) -> None:
    stream = millstream.create("AGAIN", "again.>")
    millstream.fill("again", 10)
    lake.run(millstream, archive(stream))
    millstream.clear().create("AGAIN", "again.>")
    millstream.fill("again", 20)
    text = lake.fails(millstream, archive(stream, fail_on_data_loss=False, purge=True))
    assert "was deleted and created again" in text
    assert millstream.count(stream) == 20


def test_a_stream_keeps_what_is_recent_and_the_table_everything(broker, lake: Lake) -> None:
    stream = broker.create("TIERED", "tiered.>")
    target = broker.create("BACK", "back.>")
    broker.fill("tiered", 50)
    lake.run(broker, archive(stream, purge=True, retention="1 hour", max_rows=20))
    assert broker.count(stream) == 50
    lake.run(broker, archive(stream, purge=True, retention="1ms"))  # looks once at the end
    assert broker.count(stream) == 0
    broker.fill("tiered", 5, first=51)
    replay = {"kind": "replay", "name": "replay", "table": TABLE, "format": "iceberg", "target": target,
              "subject": "back.{subject}", "with_stream": True}  # fmt: skip
    lake.run(broker, replay)
    assert [message.data for message in broker.messages(target)] == [b"message %d" % n for n in range(1, 56)]
    broker.admin.purge(stream, below=53)
    text = failure(lake.run(broker, {**replay, "name": "again"}, fails=True))
    assert "stream TIERED begins at 53, table lake.archived ends at 50" in text


def test_payloads_become_columns_and_what_does_not_fit_a_dead_letter(broker, lake: Lake) -> None:
    stream = broker.create("SHOP", "orders.>")
    dead = broker.create("DEAD", "dead.>")

    def publish(*payloads: bytes) -> None:
        broker.publish([("orders.new", payload, {}) for payload in payloads])

    typed = archive(stream, schema="id string, price double", dead_letters="dead.orders")
    publish(b'{"id": "a", "price": 1.5}', b"hello", b'{"id": "b"}', b'{"id": "c", "price": "much"}')
    lake.run(broker, typed, verify(after=["archive-SHOP"]))
    found = lake.table().load().scan().to_arrow().sort_by("seq").select(["seq", "id", "price"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "a", 1.5), (3, "b", None)]
    letters = broker.messages(dead)
    assert [message.data for message in letters] == [b"hello", b'{"id": "c", "price": "much"}']
    assert dict(letters[0].headers)["Millstream-Orig-Seq"] == "2"
    assert "not JSON of the form" in dict(letters[0].headers)["Millstream-Dlq-Reason"]

    publish(b'{"id": "d", "price": 2, "paid": true}')
    lake.run(broker, {**typed, "schema": "id string, price double, paid boolean"})
    found = lake.table().load().scan(row_filter="seq = 5").to_arrow().to_pylist()
    assert [(row["id"], row["paid"]) for row in found] == [("d", True)]
    publish(b'{"id": 7}')
    text = lake.fails(broker, {**typed, "schema": "id string, price boolean"})
    assert "table lake.archived cannot take these columns" in text
    text = lake.fails(broker, {**typed, "schema": "seq long"})
    assert "the column seq is one of the message itself" in text
