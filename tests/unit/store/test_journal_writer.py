"""The thread that writes a batch: every part into its own file, the whole into the journal."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.store.journal_writer import COLUMNS, JournalWriter


@pytest.fixture
def writer() -> Iterator[JournalWriter]:
    made = JournalWriter("test-journal")
    yield made
    made.close()


def table_of(*rows: tuple[int, int, int, int]) -> array[int]:
    return array("q", [cell for row in rows for cell in (*row, 0)])


def opened(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    return os.open(path, flags, 0o600)


def test_each_part_goes_to_its_file_and_all_of_it_to_the_journal(
    writer: JournalWriter, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    journal, first, second = (opened(tmp_path / name) for name in ("journal", "a", "b"))
    table = table_of((first, 0, 3, 5), (second, 3, 4, 0))
    writer.begin(journal, b"abcdefg", 10, table)
    assert writer.wait()
    assert not writer.wait()
    assert (tmp_path / "a").read_bytes() == b"12345abc"
    assert (tmp_path / "b").read_bytes() == b"defg"
    assert (tmp_path / "journal").read_bytes() == bytes(10) + b"abcdefg"
    assert writer.failed == 0
    assert list(table[COLUMNS - 1 :: COLUMNS]) == [0, 0]


def test_a_file_that_cannot_be_written_fails_alone(writer: JournalWriter, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    journal, good = opened(tmp_path / "journal"), opened(tmp_path / "b")
    readable = opened(tmp_path / "a", os.O_RDONLY)
    table = table_of((readable, 0, 3, 0), (good, 3, 3, 0))
    writer.begin(journal, b"abcdef", 0, table)
    writer.wait()
    assert list(table[COLUMNS - 1 :: COLUMNS]) == [errno.EBADF, 0]
    assert writer.failed == 0
    assert (tmp_path / "b").read_bytes() == b"def"


def test_a_journal_that_cannot_be_written_fails_the_batch(writer: JournalWriter, tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"")
    journal = opened(tmp_path / "journal", os.O_RDONLY)
    writer.begin(journal, b"abc", 0, table_of((opened(tmp_path / "a"), 0, 3, 0)))
    writer.wait()
    assert writer.failed == errno.EBADF


def test_one_batch_at_a_time(writer: JournalWriter, tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    for number in range(20):
        writer.begin(journal, b"%02d" % number, 2 * number, table_of())
        with pytest.raises(RuntimeError, match="has not ended"):
            writer.begin(journal, b"x", 0, table_of())
        assert writer.wait()
    assert (tmp_path / "journal").read_bytes() == b"".join(b"%02d" % number for number in range(20))
