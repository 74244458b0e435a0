"""Files of a table on a local disk."""

import os
from pathlib import Path

import pytest

from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import ParquetTable


def test_what_is_kept_is_written_through_with_every_folder_up_to_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = tmp_path / "stream=S" / "day=1"
    leaf.mkdir(parents=True)
    for name in ("part-0.parquet", ".part-0.parquet.crc"):
        (leaf / name).write_bytes(b"rows")
    synced: list[int] = []
    really = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    LocalFiles(str(tmp_path)).keep("stream=S/day=1")
    wanted = [*sorted(leaf.iterdir()), leaf, leaf.parent, tmp_path]
    assert synced == [path.stat().st_ino for path in wanted]


def test_a_checkpoint_in_the_table_keeps_nobody_from_making_the_table(tmp_path: Path) -> None:
    (tmp_path / "_millstream" / "checkpoint" / "offsets").mkdir(parents=True)
    table = ParquetTable(LocalFiles(str(tmp_path)), ("stream", "day"))
    with table.writing():
        table.claim("query", {})
    assert table.exists
    (tmp_path / "other" / "_millstream" / "something").mkdir(parents=True)
    with pytest.raises(TableError, match="is no table of Millstream; choose an empty folder"):
        ParquetTable(LocalFiles(str(tmp_path / "other")), ("stream", "day")).claim("query", {})
