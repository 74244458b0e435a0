"""Files of a checkpoint as Spark leaves them, and what is told when one of them is damaged."""

from pathlib import Path

import pytest

from millstream.spark.errors import CheckpointError
from millstream.spark.jobs.checkpoint import Checkpoint
from millstream.spark.jobs.files import LocalFiles

OFFSETS = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"a":1}\n-\n'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text('{"id":"the query"}')
    for name, text in (("offsets", OFFSETS), ("commits", COMMIT)):
        (tmp_path / name).mkdir()
        for batch in range(11):
            (tmp_path / name / str(batch)).write_text(text)
        (tmp_path / name / ".10.crc").write_bytes(b"crc\xff")
    return tmp_path


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(LocalFiles(str(folder)))


def test_whole_ones_and_new_ones_pass(folder: Path) -> None:
    checkpoint(folder).check()
    checkpoint(folder / "new").check()
    assert checkpoint(folder).last_committed() == 10
    assert checkpoint(folder / "new").last_committed() == -1
    assert checkpoint(folder).query_id() == "the query"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata", ""),
        ("metadata", "{"),
        ("metadata", "[]"),
        ("offsets/10", ""),
        ("offsets/10", "v1\n"),
        ("offsets/10", 'v1\n{"batchWatermarkMs":0}'),
        ("offsets/10", OFFSETS[:-6]),
        ("offsets/9", "\0" * 40),
        ("commits/10", ""),
        ("commits/10", "v1"),
        ("commits/9", COMMIT[:-1]),
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(CheckpointError, match=f"{folder / name} is damaged"):
        checkpoint(folder).check()


def test_bytes_that_are_no_text_are_told_as_damage(folder: Path) -> None:
    (folder / "offsets/10").write_bytes(b"v1\n\xff\xfe")
    with pytest.raises(CheckpointError, match="offsets/10 is damaged"):
        checkpoint(folder).check()


def test_files_that_spark_does_not_read_again_do_not_matter(folder: Path) -> None:
    (folder / "offsets/3").write_text("")
    (folder / "commits/3").write_text("")
    checkpoint(folder).check()
