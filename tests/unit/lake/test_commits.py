"""Commits to an Iceberg table: each batch once, whatever the catalog and other writers do."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.data_files import TaskWriter, write_rows
from millstream.lake.errors import LakeError, LakeUnavailable, TableRefused
from millstream.lake.table import LakeTable, TableForm
from tests.kits.lake import COLUMNS, FORM, SIZE, add, after, files_of, rows, sequences


@pytest.fixture
def settings(tmp_path: Path) -> CatalogSettings:
    return CatalogSettings(warehouse=str(tmp_path / "lake"))


@pytest.fixture
def catalog(settings: CatalogSettings) -> Iterator[Catalog]:
    catalog = open_catalog(settings, create=True)
    yield catalog
    catalog.close()


@pytest.fixture
def table(catalog: Catalog) -> LakeTable:
    return LakeTable.ensure(catalog, "lake.orders", FORM)


class Faulty:
    """A fault in the commits of a catalog: before or after the commit itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        commit = SqlCatalog.commit_table

        def faulty(catalog: SqlCatalog, *what: Any) -> Any:
            if self.before:
                self.before.pop(0)()
            answer = commit(catalog, *what)
            if self.after:
                self.after.pop(0)()
            return answer

        monkeypatch.setattr(SqlCatalog, "commit_table", faulty)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    return Faulty(monkeypatch)


def fail(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_a_batch_is_added_once_with_its_progress(table: LakeTable) -> None:
    add(table, 0)
    add(table, 0)
    add(table, 1)
    assert sequences(table) == list(range(1, 21))
    loaded = table.load()
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary["millstream.query"], snapshot.summary["millstream.batch"]) == ("q", "1")
    at = table.progress()["q"].streams["S"]
    assert (at.first, at.start, at.next, at.gaps) == (1, 11, 21, ())


def test_a_file_has_one_partition_field_ids_and_statistics(table: LakeTable) -> None:
    paths = files_of(table, 0, rows(1, 10, step_s=7200), rows(11, 2, stream="T" * 40, step_s=7200))
    table.commit_batch("q", 0, paths, advance=after("q", 0))
    loaded: Table = table.load()
    tasks = list(loaded.scan().plan_files())
    assert len(tasks) == 3  # two days of S, one of T
    assert sorted(task.file.record_count for task in tasks) == [2, 5, 5]
    assert {str(task.file.partition[0]) for task in tasks} == {"S", "T" * 40}
    [task] = loaded.scan(row_filter="stream = 'S' and seq <= 3").plan_files()
    assert task.file.record_count == 5
    assert len(list(loaded.scan(row_filter="time >= '2026-03-02T00:00:00+00:00'").plan_files())) == 2
    assert set(task.file.lower_bounds) == {1, 2, 3, 4}  # not of headers and payloads
    import pyarrow.parquet as pq

    schema = pq.read_schema(task.file.file_path.removeprefix("file://"))
    assert [schema.field(name).metadata[b"PARQUET:field_id"] for name in ("stream", "data")] == [b"1", b"6"]
    assert loaded.sort_order().fields[1].source_id == 3


def test_a_batch_without_rows_moves_the_progress(table: LakeTable) -> None:
    table.commit_batch("q", 0, [], advance=after("q", 0))
    assert sequences(table) == []
    assert table.progress()["q"].streams["S"].next == SIZE + 1


def test_a_commit_that_lost_is_tried_again_on_what_is_there_now(table: LakeTable, faults: Faulty) -> None:
    add(table, 0)
    faults.before.append(lambda: add(table, 0, "other", "T"))
    add(table, 1)
    assert sorted(table.progress()) == ["other", "q"]
    assert len(sequences(table)) == 3 * SIZE


def test_two_drivers_of_one_query_add_a_batch_once(table: LakeTable, faults: Faulty) -> None:
    """The first is slow: the second, which was started in its place, is done before it commits."""
    add(table, 0)
    faults.before.append(lambda: add(table, 1))
    add(table, 1)
    assert sequences(table) == list(range(1, 21))


def test_without_the_look_at_the_progress_the_batch_would_be_there_twice(
    table: LakeTable, faults: Faulty
) -> None:
    """The control: PyIceberg repeats a commit that lost by itself, and an append never conflicts."""
    add(table, 0)
    paths = files_of(table, 1, rows(SIZE + 1))
    faults.before.append(lambda: add(table, 1))
    table.load().add_files(paths)
    assert len(sequences(table)) == 3 * SIZE


@pytest.mark.parametrize("error", [CommitStateUnknownException("504"), ConnectionError("reset")], ids=repr)
def test_a_commit_whose_answer_is_lost_is_not_repeated(
    table: LakeTable, faults: Faulty, error: Exception
) -> None:
    faults.after.append(fail(error))
    add(table, 0)
    assert sequences(table) == list(range(1, 11))
    faults.before.append(fail(error))
    add(table, 1)
    assert sequences(table) == list(range(1, 21))


def test_a_lost_commit_that_arrives_late_is_refused_by_the_catalog(table: LakeTable, faults: Faulty) -> None:
    add(table, 0)
    late: list[Callable[[], None]] = []
    commit = SqlCatalog.commit_table

    def delayed(catalog: SqlCatalog, *what: Any) -> Any:
        if late:
            return commit(catalog, *what)
        late.append(lambda: commit(catalog, *what))
        raise TimeoutError("the catalog does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", delayed)
        add(table, 1)
    with pytest.raises(CommitFailedException):
        late[0]()
    assert sequences(table) == list(range(1, 21))


def test_a_catalog_that_stays_away_is_told(catalog: Catalog, faults: Faulty) -> None:
    LakeTable.ensure(catalog, "lake.orders", FORM)
    table = LakeTable(catalog, "lake.orders", patience_s=0)
    faults.before.append(fail(TimeoutError("no answer in 5 s")))
    with pytest.raises(LakeUnavailable, match="catalog lake does not answer: no answer in 5 s"):
        add(table, 0)
    faults.before.append(fail(CommitFailedException("lost")))
    with pytest.raises(LakeUnavailable, match="others committed to it all the time"):
        add(table, 0)


def test_many_writers_at_once_add_everything_once(settings: CatalogSettings, table: LakeTable) -> None:
    def write(stream: str) -> None:
        with open_catalog(settings) as catalog:
            own = LakeTable.open(catalog, "lake.orders")
            for batch in range(4):
                add(own, batch, query=f"q{stream}", stream=stream)

    threads = [threading.Thread(target=write, args=(stream,)) for stream in "ABC"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {query: one.batch for query, one in table.progress().items()} == {"qA": 3, "qB": 3, "qC": 3}
    found = table.load().scan().to_arrow()
    pairs = set(zip(found["stream"].to_pylist(), found["seq"].to_pylist(), strict=True))
    assert (found.num_rows, len(pairs)) == (120, 120)


def test_progress_outlives_the_snapshots_of_ours(table: LakeTable) -> None:
    """Another engine rewrites the table and expires everything else."""
    add(table, 0)
    loaded = table.load()
    [path] = files_of(table, 0, rows(1))
    with loaded.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in loaded.scan().plan_files():
            overwrite.delete_data_file(task.file)
        overwrite.append_data_file(parquet_file_to_data_file(loaded.io, loaded.metadata, path))
    loaded.maintenance.expire_snapshots().by_id(loaded.snapshots()[0].snapshot_id).commit()
    assert len(table.load().snapshots()) == 1
    assert table.progress()["q"].batch == 0
    add(table, 0)
    assert sequences(table) == list(range(1, 11))


def test_after_a_rollback_the_progress_is_that_of_the_snapshot(table: LakeTable) -> None:
    add(table, 0)
    first = table.load().current_snapshot()
    assert first is not None
    add(table, 1)
    table.load().manage_snapshots().set_current_snapshot(snapshot_id=first.snapshot_id).commit()
    assert table.progress()["q"].batch == 0


def test_a_table_of_others_is_refused(catalog: Catalog, table: LakeTable) -> None:
    catalog.create_table("lake.foreign", schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    with pytest.raises(TableRefused, match=r"lake.foreign was not made by Millstream \(columns: id, name\)"):
        LakeTable.ensure(catalog, "lake.foreign", FORM)
    assert catalog.load_table("lake.foreign").schema().column_names == ["id", "name"]
    with pytest.raises(TableRefused, match="made by a job of kind archive, not transform"):
        LakeTable.ensure(catalog, "lake.orders", TableForm("transform", COLUMNS, ()))
    with pytest.raises(TableRefused, match=r"Table does not exist: lake.none"):
        LakeTable.open(catalog, "lake.none")


def with_column(kind: pa.DataType) -> TableForm:
    return TableForm("archive", COLUMNS.append(pa.field("price", kind)), FORM.partition)


def test_columns_are_added_and_keep_their_rows(catalog: Catalog, table: LakeTable) -> None:
    add(table, 0)
    LakeTable.ensure(catalog, "lake.orders", with_column(pa.float32()))
    LakeTable.ensure(catalog, "lake.orders", with_column(pa.float64()))
    add(table, 1)
    assert table.load().scan().to_arrow().column("price").to_pylist() == [None] * 20


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (pa.int32(), pa.int64(), "long"),
        (pa.float32(), pa.float64(), "double"),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), "decimal(9, 2)"),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), "list<long>"),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64())]), "struct<9: x: optional long>"),
        # a narrower type fits into the column as it is
        (pa.int64(), pa.int32(), "long"),
        (pa.float64(), pa.float32(), "double"),
        (pa.decimal128(9, 2), pa.decimal128(5, 2), "decimal(9, 2)"),
    ],
    ids=str,
)
def test_columns_are_widened_and_never_narrowed(
    catalog: Catalog, table: LakeTable, before: pa.DataType, after: pa.DataType, kept: str
) -> None:
    LakeTable.ensure(catalog, "lake.orders", with_column(before))
    LakeTable.ensure(catalog, "lake.orders", with_column(after))
    found = str(table.load().schema().find_type("price"))
    assert re.sub(r"\d+: ", "9: ", found) == kept


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.float64(), pa.string()),
        (pa.int64(), pa.float64()),
        (pa.string(), pa.int32()),
        (pa.date32(), pa.timestamp("us")),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.decimal128(9, 2), pa.decimal128(12, 4)),
        (pa.list_(pa.int32()), pa.list_(pa.string())),
        (pa.list_(pa.decimal128(9, 2)), pa.list_(pa.decimal128(9, 3))),
        (pa.struct([("x", pa.decimal128(9, 2))]), pa.struct([("x", pa.decimal128(9, 3))])),
        (pa.map_(pa.string(), pa.decimal128(9, 2)), pa.map_(pa.string(), pa.decimal128(9, 3))),
        (pa.struct([("x", pa.int32())]), pa.string()),
        (pa.int32(), pa.struct([("x", pa.int32())])),
    ],
    ids=str,
)
def test_columns_are_never_changed(
    catalog: Catalog, table: LakeTable, before: pa.DataType, after: pa.DataType
) -> None:
    LakeTable.ensure(catalog, "lake.orders", with_column(before))
    metadata = table.load().metadata_location
    with pytest.raises(TableRefused, match=r"^table lake.orders cannot take these columns: .*"):
        LakeTable.ensure(catalog, "lake.orders", with_column(after))
    assert table.load().metadata_location == metadata


def test_a_catalog_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"there is no catalog .*/none/catalog.db"):
        open_catalog(CatalogSettings(warehouse=str(tmp_path / "none")))
    assert not (tmp_path / "none").exists()
    (tmp_path / "catalog.db").write_text("this is no database, but long enough to look like one" * 20)
    with pytest.raises(LakeError, match=r"catalog lake: .*file is not a database"):
        open_catalog(CatalogSettings(warehouse=str(tmp_path)))


def test_a_task_that_is_repeated_has_files_of_its_own(table: LakeTable) -> None:
    """A task that was killed cannot remove its file, and Spark repeats it with the same target."""
    target = table.file_target(0)
    killed = TaskWriter(target, 0)
    killed.add(rows(1))  # neither closed nor discarded
    [written] = write_rows(iter([rows(1)]), target, 0)
    table.commit_batch("q", 0, written.column("path").to_pylist(), advance=after("q", 0))
    assert sequences(table) == list(range(1, 11))
    killed.discard()
