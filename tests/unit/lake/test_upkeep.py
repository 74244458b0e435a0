"""Upkeep of a table: files merged, snapshots expired, orphans removed, and nothing else touched."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from millstream.lake.errors import LakeError
from millstream.lake.places import local_path
from millstream.lake.table import LakeTable
from millstream.lake.upkeep import _delete, expire, merge_files, remove_orphans
from tests.kits.lake import FORM, SIZE, add, files_of, rows, sequences
from tests.unit.lake.test_commits import Faulty, catalog, faults, settings, table

__all__ = ["catalog", "faults", "settings", "table"]
LARGE = 10**9


def root(table: LakeTable) -> Path:
    return local_path(table.load().location())


def all_files(table: LakeTable) -> set[Path]:
    return {place for place in root(table).rglob("*") if place.is_file()}


def data_files(table: LakeTable) -> list[Path]:
    return [local_path(task.file.file_path) for task in table.load().scan().plan_files()]


def test_small_files_become_one_in_order(table: LakeTable) -> None:
    for batch in (2, 0, 1):
        paths = files_of(table, batch, rows(batch * SIZE + 1))
        table.load().add_files(paths)
    before = table.progress()
    merged = merge_files(table, least=3, large_bytes=LARGE)
    assert (merged.partitions, merged.before, merged.after, merged.rows) == (1, 3, 1, 30)
    assert len(data_files(table)) == 1
    assert table.load().scan().to_arrow().column("seq").to_pylist() == list(range(1, 31))
    assert table.progress() == before
    assert merge_files(table, least=2, large_bytes=LARGE).before == 0


def test_large_files_are_left_alone(table: LakeTable) -> None:
    add(table, 0)
    add(table, 1)
    files = data_files(table)
    assert merge_files(table, least=2, large_bytes=100).before == 0
    assert data_files(table) == files


def test_merging_beside_an_archive_loses_and_doubles_nothing(table: LakeTable, faults: Faulty) -> None:
    add(table, 0)
    add(table, 1)
    faults.before.append(lambda: add(table, 2))
    assert merge_files(table, least=2, large_bytes=LARGE).after == 1
    assert sequences(table) == list(range(1, 31))
    assert table.progress()["q"].batch == 2
    add(table, 3)
    # Both merge at once: the files of the second are gone when it commits.
    faults.before.append(lambda: merge_files(table, least=2, large_bytes=LARGE))
    assert merge_files(table, least=2, large_bytes=LARGE).after == 0
    assert sequences(table) == list(range(1, 41))


def test_expired_snapshots_take_only_what_nobody_else_needs(table: LakeTable) -> None:
    for batch in range(4):
        add(table, batch)
    old = table.load().snapshots()[0]
    table.load().manage_snapshots().create_tag(old.snapshot_id, "first").commit()
    merge_files(table, least=2, large_bytes=LARGE)
    assert expire(table, keep=1, older_than_s=3600) == 0
    assert expire(table, keep=2) == 2
    loaded = table.load()
    assert len(loaded.snapshots()) == 3
    assert loaded.scan(snapshot_id=old.snapshot_id).to_arrow().num_rows == SIZE
    assert [one.to_arrow().num_rows for one in (loaded.scan(),)] == [40]
    assert remove_orphans(table, older_than_s=0) == []
    table.load().manage_snapshots().remove_tag("first").commit()
    assert expire(table, keep=1) == 2
    assert len(list((root(table) / "data").rglob("*.parquet"))) == 1
    assert sequences(table) == list(range(1, 41))
    assert table.progress()["q"].batch == 3


def test_a_snapshot_that_somebody_goes_back_to_keeps_its_files(table: LakeTable, faults: Faulty) -> None:
    for batch in range(3):
        add(table, batch)
    merge_files(table, least=2, large_bytes=LARGE)
    before_merge = table.load().snapshots()[-2].snapshot_id

    def go_back() -> None:
        table.load().manage_snapshots().create_tag(before_merge, "kept").commit()

    faults.before.append(go_back)
    expire(table, keep=1)
    assert sequences(table) == list(range(1, 31))


def test_orphans_are_old_ours_and_unnamed(table: LakeTable) -> None:
    add(table, 0)
    [left] = files_of(table, 1, rows(SIZE + 1))  # a driver that died before the commit
    strangers = [root(table) / "data" / "notes.txt", root(table) / "data" / "part-0.parquet"]
    strangers += [root(table) / "metadata" / "own.json", root(table).parent / "beside.parquet"]
    for place in strangers:
        place.write_text("not ours")
        os.utime(place, (0, 0))
    named = all_files(table) - {local_path(left)}
    assert remove_orphans(table, older_than_s=3600) == []
    assert remove_orphans(table, older_than_s=0) == [left]
    assert all_files(table) == named
    assert all(place.exists() for place in strangers)
    assert sequences(table) == list(range(1, SIZE + 1))


def test_a_damaged_file_is_named_and_nothing_changes(table: LakeTable) -> None:
    add(table, 0)
    add(table, 1)
    first = data_files(table)[0]
    first.write_bytes(b"PAR1 not really")
    before = table.load().metadata_location
    with pytest.raises(LakeError, match=rf"{first.name} is damaged"):
        merge_files(table, least=2, large_bytes=LARGE)
    first.unlink()
    with pytest.raises(LakeError, match=rf"{first.name} is gone"):
        merge_files(table, least=2, large_bytes=LARGE)
    assert table.load().metadata_location == before


def test_files_of_an_older_schema_are_merged_with_new_ones(catalog: Catalog, table: LakeTable) -> None:
    add(table, 0)
    wider = FORM.columns.append(pa.field("price", pa.float64()))
    LakeTable.ensure(catalog, "lake.orders", type(FORM)("archive", wider, FORM.partition))
    add(table, 1)
    assert merge_files(table, least=2, large_bytes=LARGE).after == 1
    found = table.load().scan().to_arrow()
    assert found.column("seq").to_pylist() == list(range(1, 21))
    assert found.column("price").null_count == 20


def test_paths_that_lead_out_of_the_table_are_not_removed(table: LakeTable) -> None:
    """Metadata of others may name any file."""
    loaded = table.load()
    outside = root(table).parent / "precious.parquet"
    outside.write_bytes(b"x")
    inside = root(table) / "data" / "old.parquet"
    inside.parent.mkdir(exist_ok=True)
    inside.write_bytes(b"x")
    above = loaded.location().rstrip("/")
    _delete(loaded, [f"{above}/data/../../{outside.name}", f"{above}/data/old.parquet"])
    assert outside.exists()
    assert not inside.exists()
