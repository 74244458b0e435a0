"""The thread that writes a batch: every part into its own file, the whole into the journal."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.store.journal_batch import JournalBatch
from millstream.store.journal_writer import JournalWriter
from tests.kits.store.batch import records_of


@pytest.fixture
def writer() -> Iterator[JournalWriter]:
    made = JournalWriter("test-journal")
    yield made
    made.close()


def batch_of(*rows: tuple[int, bytes, int]) -> JournalBatch:
    """A batch of bytes that go to a place in the file with this descriptor."""
    batch = JournalBatch()
    for descriptor, data, base in rows:
        batch.add(b"key", 1, base, data[:1], records_of(data[1:]), descriptor)
    batch.finish(bytes(16), 1)
    return batch


def opened(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    return os.open(path, flags, 0o600)


def test_each_part_goes_to_its_file_and_all_of_it_to_the_journal(
    writer: JournalWriter, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    journal, first, second = (opened(tmp_path / name) for name in ("journal", "a", "b"))
    batch = batch_of((first, b"abc", 5), (second, b"defg", 0))
    writer.begin(journal, batch, 10)
    assert writer.wait()
    assert not writer.wait()
    assert (tmp_path / "a").read_bytes() == b"12345abc"
    assert (tmp_path / "b").read_bytes() == b"defg"
    assert (tmp_path / "journal").read_bytes() == bytes(10) + batch.peek()
    assert writer.failed == 0
    assert [batch.error_of(row) for row in range(2)] == [0, 0]


def test_a_file_that_cannot_be_written_fails_alone(writer: JournalWriter, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    journal, good = opened(tmp_path / "journal"), opened(tmp_path / "b")
    readable = opened(tmp_path / "a", os.O_RDONLY)
    batch = batch_of((readable, b"abc", 0), (good, b"def", 0))
    writer.begin(journal, batch, 0)
    writer.wait()
    assert [batch.error_of(row) for row in range(2)] == [errno.EBADF, 0]
    assert writer.failed == 0
    assert (tmp_path / "b").read_bytes() == b"def"


def test_a_journal_that_cannot_be_written_fails_the_batch(writer: JournalWriter, tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"")
    journal = opened(tmp_path / "journal", os.O_RDONLY)
    writer.begin(journal, batch_of((opened(tmp_path / "a"), b"abc", 0)), 0)
    writer.wait()
    assert writer.failed == errno.EBADF


def test_one_batch_at_a_time(writer: JournalWriter, tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    batch, size = JournalBatch(), 4096
    for number in range(20):
        batch.clear()
        batch.finish(b"%016d" % number, number)
        writer.begin(journal, batch, size * number)
        with pytest.raises(RuntimeError, match="has not ended"):
            writer.begin(journal, batch_of(), 0)
        assert writer.wait()
    written = (tmp_path / "journal").read_bytes()
    assert [written[at : at + 16] for at in range(0, len(written), size)] == [b"%016d" % n for n in range(20)]
