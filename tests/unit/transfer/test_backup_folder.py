"""A backup is at its place when it is whole, and never before."""

import os
import resource
import signal
from pathlib import Path

import pytest

from millstream.transfer.archive import ArchiveReading, ArchiveWriting
from millstream.transfer.errors import BadBackup, TransferError
from millstream.transfer.folder import Backup, BackupWriter, find_backups, open_backup


def write(path: Path, name: str, *, replace: bool = False, body: bytes = b"body") -> Backup:
    state = {"messages": 1, "bytes": 40, "first_seq": 1, "last_seq": 1}
    writing = ArchiveWriting(state)
    writing.add(1, 7, "a.b", b"", body)
    data = writing.take() + writing.finish()
    reading = ArchiveReading()
    reading.feed(data)
    with BackupWriter(path, replace=replace) as writer:
        for at in range(0, len(data), 10):
            writer.write(data[at : at + 10])
        assert not path.exists() or replace
        return writer.commit({"name": name}, state, reading.finish())


def test_what_was_written_is_found_and_sound(tmp_path: Path) -> None:
    backup = write(tmp_path / "A", "A")
    assert open_backup(tmp_path / "A") == backup
    assert backup.check().messages == 1
    assert [each.name for each in tmp_path.iterdir()] == ["A"]


def test_leaving_without_a_commit_leaves_nothing(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "A") as writer:
        writer.write(b"some")
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_behind_is_no_part_of_the_next_backup(tmp_path: Path) -> None:
    partial = tmp_path / ".A.partial"
    partial.mkdir()
    (partial / "stream.tar.s2").write_bytes(b"from before")
    assert write(tmp_path / "A", "A").check().messages == 1
    assert [each.name for each in tmp_path.iterdir()] == ["A"]


def test_two_backups_do_not_write_to_one_place_at_a_time(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "A"):
        with pytest.raises(TransferError, match="another backup"), BackupWriter(tmp_path / "A"):
            pass
        assert (tmp_path / ".A.partial").exists()


def test_one_that_is_there_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    first = write(tmp_path / "A", "A", body=b"first")
    with pytest.raises(TransferError, match="--force"):
        write(tmp_path / "A", "A")
    with BackupWriter(tmp_path / "A", replace=True) as writer:
        writer.write(b"some")
    assert open_backup(tmp_path / "A") == first
    write(tmp_path / "A", "A", replace=True, body=b"second")
    assert open_backup(tmp_path / "A").seal["digest"] != first.seal["digest"]


def test_what_was_replaced_does_not_come_back(tmp_path: Path) -> None:
    write(tmp_path / "A", "A", body=b"old")
    (tmp_path / "A").rename(tmp_path / ".A.partial")  # a crash came when all but the cleaning was done
    write(tmp_path / "B", "B")
    assert [each.stream for each in find_backups(tmp_path)] == ["B"]
    (tmp_path / ".A.old").mkdir()
    assert [each.stream for each in find_backups(tmp_path)] == ["B"]
    assert write(tmp_path / "A", "A", body=b"new").check().messages == 1


@pytest.mark.parametrize(
    ("left", "counts"),
    [
        ({"A": b"old", ".A.partial": b"new"}, b"old"),  # all is written, nothing is renamed
        ({".A.old": b"old", ".A.partial": b"new"}, b"old"),
        ({".A.old": b"old", "A": b"new"}, b"new"),
    ],
)
def test_a_crash_while_one_is_replaced_leaves_the_old_one_or_the_new_one(
    tmp_path: Path, left: dict[str, bytes], counts: bytes
) -> None:
    expected = write(tmp_path / "expected" / "A", "A", body=counts).seal["digest"]
    place = tmp_path / "backups"
    for name, body in left.items():
        write(place / "written", "A", body=body)
        (place / "written").rename(place / name)
    for path in (place, place / "A"):
        assert [each.seal["digest"] for each in find_backups(path)] == [expected]
    with pytest.raises(TransferError, match="--force"):
        write(place / "A", "A")
    assert open_backup(place / "A").seal["digest"] == expected
    write(place / "A", "A", replace=True, body=b"third")
    assert [each.name for each in place.iterdir()] == ["A"]


def test_a_disk_that_is_full_fails_the_backup_and_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error, as of a full disk, and no signal
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(TransferError, match="A: "):
            write(tmp_path / "A", "A", body=os.urandom(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_a_backup_or_hold_some(tmp_path: Path) -> None:
    write(tmp_path / "all" / "B", "B")
    write(tmp_path / "all" / "A", "A")
    assert [each.stream for each in find_backups(tmp_path / "all")] == ["A", "B"]
    assert [each.stream for each in find_backups(tmp_path / "all" / "B")] == ["B"]
    for empty in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadBackup):
            find_backups(empty)


def test_the_archive_of_another_backup_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "A", "A", body=b"one")
    write(tmp_path / "B", "B", body=b"two")
    (tmp_path / "A" / "stream.tar.s2").write_bytes((tmp_path / "B" / "stream.tar.s2").read_bytes())
    with pytest.raises(BadBackup, match="checksum"):
        open_backup(tmp_path / "A").check()
