"""Merging folders of a table: readers see each row once before, after and whenever it is killed."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.spark.jobs.compaction import compact
from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import ParquetTable, batch_name
from millstream.spark.offsets import Position

DAYS = ("2026-01-01", "2026-01-02")
LARGE = 10**9


def make_table(folder: Path, batches: int) -> ParquetTable:
    """A table of two days with ten rows in each batch and day."""
    table = ParquetTable(LocalFiles(str(folder)), ("stream", "day"))
    table.claim("query", {"filter": []})
    for batch in range(batches):
        add_batch(table, batch)
    return table


def add_batch(table: ParquetTable, batch: int, *, manifest: bool = True) -> None:
    for number, day in enumerate(DAYS):
        place = Path(table.root, "stream=S", f"day={day}", f"batch={batch_name(batch)}")
        place.mkdir(parents=True)
        first = 1000 * number + 10 * batch
        rows = pa.table({"seq": pa.array(range(first, first + 10), pa.int64()), "data": [b"x"] * 10})
        pq.write_table(rows, place / "part-0.parquet")
    if manifest:
        position = {"from": 10 * batch, "id": "i", "next": 10 * batch + 10}
        text = json.dumps({"batch": batch, "rows": 20, "streams": {"S": position}})
        table.files.write(f"_millstream/batches/{batch:012d}.json", text)


def sequences(table: ParquetTable) -> list[int]:
    return sorted(pq.read_table(table.root, columns=["seq"]).column("seq").to_pylist())


def rows_of(batches: int) -> list[int]:
    return [1000 * day + number for day in (0, 1) for number in range(10 * batches)]


def test_small_folders_become_one_for_each_day(tmp_path: Path) -> None:
    table = make_table(tmp_path, 5)
    merged = compact(table, least_folders=2, large_bytes=LARGE)
    assert (merged.partitions, merged.folders_before, merged.folders_after, merged.rows) == (2, 10, 2, 100)
    assert sequences(table) == rows_of(5)
    assert table.leaves() == [f"stream=S/day={day}/batch={batch_name(0, 4)}" for day in DAYS]


def test_rows_stay_in_order(tmp_path: Path) -> None:
    table = make_table(tmp_path, 12)
    compact(table, least_folders=2, large_bytes=LARGE)
    [file] = Path(table.root, table.leaves()[0]).glob("*.parquet")
    assert pq.read_table(file).column("seq").to_pylist() == list(range(120))


def test_manifests_become_one_file_and_say_the_same(tmp_path: Path) -> None:
    table = make_table(tmp_path, 3)
    before = table.manifests()
    compact(table, least_folders=2, large_bytes=LARGE)
    assert table.files.names("_millstream/batches") == ["000000000000-000000000002.json"]
    assert table.manifests() == before
    assert table.manifest(1) == before[1]
    assert table.last_batch() == 2
    add_batch(table, 3)
    assert [one.batch for one in table.manifests()] == [0, 1, 2, 3]
    assert table.manifests()[0].streams == {"S": Position("i", 0, 10, 1)}


def test_large_folders_are_left_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path, 4)
    compact(table, least_folders=2, large_bytes=1)
    assert len(table.leaves()) == 8
    small = sum(file.stat().st_size for file in Path(table.root, table.leaves()[0]).glob("*"))
    compact(table, least_folders=2, large_bytes=small * 5 // 2)
    assert [leaf.rpartition("=")[2] for leaf in table.leaves()] == 2 * [batch_name(0, 1), batch_name(2, 3)]
    assert sequences(table) == rows_of(4)


def test_few_folders_are_not_worth_it(tmp_path: Path) -> None:
    table = make_table(tmp_path, 3)
    assert compact(table, least_folders=4, large_bytes=LARGE).partitions == 0


def test_a_batch_without_manifest_is_not_merged(tmp_path: Path) -> None:
    table = make_table(tmp_path, 3)
    add_batch(table, 3, manifest=False)
    compact(table, least_folders=2, large_bytes=LARGE)
    assert sequences(table) == rows_of(3)


def test_merged_folders_are_merged_again_later(tmp_path: Path) -> None:
    table = make_table(tmp_path, 3)
    compact(table, least_folders=2, large_bytes=LARGE)
    add_batch(table, 3)
    compact(table, least_folders=2, large_bytes=LARGE)
    assert [leaf.rpartition("=")[2] for leaf in table.leaves()] == 2 * [batch_name(0, 3)]
    assert sequences(table) == rows_of(4)


_KILLED = """
import os, signal, sys
from millstream.spark.jobs.compaction import compact
from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import ParquetTable

def at(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

compact(ParquetTable.open(LocalFiles(sys.argv[1])), least_folders=2, large_bytes=10**9, at=at)
"""


@pytest.mark.parametrize("step", ["prepared", "exchanged"])
def test_a_kill_in_the_middle_loses_and_doubles_nothing(tmp_path: Path, step: str) -> None:
    table = make_table(tmp_path, 4)
    killed = subprocess.run([sys.executable, "-c", _KILLED, table.root, step], check=False)
    assert killed.returncode == -9
    assert sequences(table) == rows_of(4)
    compact(table, least_folders=2, large_bytes=LARGE)
    assert sequences(table) == rows_of(4)
    assert [leaf.rpartition("=")[2] for leaf in table.leaves()] == 2 * [batch_name(0, 3)]
    assert not table.files.exists("_millstream/compaction")


def test_one_writer_keeps_others_out(tmp_path: Path) -> None:
    table = make_table(tmp_path, 1)
    with (
        table.writing(),
        pytest.raises(TableError, match="is being written by another process"),
        ParquetTable.open(LocalFiles(table.root)).writing(),
    ):
        pass
    with table.writing():
        pass


def test_a_table_belongs_to_one_checkpoint(tmp_path: Path) -> None:
    table = make_table(tmp_path, 1)
    table.claim("query", {"filter": []})
    with pytest.raises(TableError, match="written with another checkpoint"):
        table.claim("another", {"filter": []})
    with pytest.raises(TableError, match="was made with filter"):
        table.claim("query", {"filter": ["a.>"]})


def test_a_folder_with_something_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(TableError, match="holds photos, but is no table of Millstream"):
        ParquetTable(LocalFiles(str(tmp_path)), ("day",)).claim("query", {})
    with pytest.raises(TableError, match="is no table that Millstream wrote"):
        ParquetTable.open(LocalFiles(str(tmp_path)))


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    table = make_table(tmp_path, 1)
    table.files.write("_millstream/batches/000000000000.json", '{"batch": 0}')
    with pytest.raises(TableError, match=r"000000000000\.json is damaged"):
        table.manifests()


def test_a_new_table_may_hold_the_checkpoint_of_its_job_before_the_first_batch(tmp_path: Path) -> None:
    (tmp_path / "_millstream" / "checkpoint" / "offsets").mkdir(parents=True)
    table = ParquetTable(LocalFiles(str(tmp_path)), ("day",))
    with table.writing():
        table.claim("query", {})
    assert table.exists
