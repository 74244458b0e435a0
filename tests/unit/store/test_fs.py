"""One suite for all file systems: what the port promises, each of them keeps."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from millstream.base.owned import Owned
from millstream.store import fs as store_fs
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem, FolderLock, MemoryFileSystem, RealFileSystem
from millstream.store.positioned import WRITE_BYTES
from tests.kits.crashfs import CrashFileSystem


@pytest.fixture(params=[MemoryFileSystem, RealFileSystem, CrashFileSystem], ids=["memory", "real", "crash"])
def fs(request: pytest.FixtureRequest) -> FileSystem:
    make: Callable[[], FileSystem] = request.param
    return make()


@pytest.fixture
def folder(fs: FileSystem, tmp_path: Path) -> str:
    path = f"{tmp_path}/a/b"
    fs.make_folder(path)
    return path


def test_bytes_are_read_where_they_were_written(fs: FileSystem, folder: str) -> None:
    file = fs.open(f"{folder}/f", create=True)
    file.append(b"0123")
    file.append(b"456789")
    file.sync()
    assert file.size() == 10
    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 5) == b""
    file.overwrite(1, b"xyz")
    assert file.read(0, 10) == b"0xyz456789"
    file.truncate(5)
    assert (file.size(), file.read(0, 10)) == (5, b"0xyz4")
    file.append(b"!")
    assert fs.read_all(f"{folder}/f") == b"0xyz4!"
    file.close()
    again = fs.open(f"{folder}/f", create=False)
    assert again.size() == 6
    again.append(b"?")
    assert again.read(0, 10) == b"0xyz4!?"
    again.close()


def test_a_file_that_is_not_there_is_an_error_with_its_path(fs: FileSystem, folder: str) -> None:
    for act in (
        lambda: fs.open(f"{folder}/none", create=False),
        lambda: fs.read_all(f"{folder}/none"),
    ):
        with pytest.raises(StoreError) as caught:
            act()
        assert caught.value.path == f"{folder}/none"
        assert not caught.value.recoverable


def test_replacing_leaves_the_new_content_and_nothing_else(fs: FileSystem, folder: str) -> None:
    fs.replace(f"{folder}/f", b"one")
    fs.replace(f"{folder}/f", b"two, longer")
    assert fs.read_all(f"{folder}/f") == b"two, longer"
    assert fs.list(folder) == ["f"]


def test_names_can_be_listed_moved_and_removed(fs: FileSystem, folder: str) -> None:
    assert fs.list(f"{folder}/none") == []
    for name in ("c", "a", "b"):
        fs.replace(f"{folder}/{name}", name.encode())
    assert fs.list(folder) == ["a", "b", "c"]
    fs.rename(f"{folder}/a", f"{folder}/b")
    assert fs.list(folder) == ["b", "c"]
    assert fs.read_all(f"{folder}/b") == b"a"
    fs.remove(f"{folder}/b")
    fs.remove(f"{folder}/b")
    fs.sync_folder(folder)
    assert fs.list(folder) == ["c"]
    assert fs.list(folder.removesuffix("/b")) == ["b"]
    everything = Owned(files=".*", folders="b")
    assert fs.remove_ours(folder.removesuffix("/b"), everything) == []
    assert fs.remove_ours(folder.removesuffix("/b"), everything) == []
    assert fs.list(folder) == []


def test_removing_a_folder_leaves_the_files_that_are_not_ours(fs: FileSystem, folder: str) -> None:
    for name in ("ours.1", "ours.2", "thesis.txt"):
        fs.replace(f"{folder}/{name}", b"x")
    owned = Owned(files=r"b/ours\.[0-9]", folders="b")
    above = folder.removesuffix("/b")
    assert fs.strangers(above, owned) == ["b/thesis.txt"]
    assert fs.remove_ours(above, owned) == ["b/thesis.txt"]
    assert fs.list(folder) == ["thesis.txt"]


def test_a_file_that_was_renamed_or_removed_stays_readable_for_who_has_it_open(
    fs: FileSystem, folder: str
) -> None:
    old = fs.open(f"{folder}/f", create=True)
    old.append(b"old")
    new = fs.open(f"{folder}/f.new", create=True)
    new.append(b"new")
    fs.rename(f"{folder}/f.new", f"{folder}/f")
    assert (old.read(0, 3), new.read(0, 3), fs.read_all(f"{folder}/f")) == (b"old", b"new", b"new")
    fs.remove(f"{folder}/f")
    assert new.read(0, 3) == b"new"
    old.close()
    new.close()


def test_making_a_folder_that_is_there_is_no_error(fs: FileSystem, folder: str) -> None:
    fs.replace(f"{folder}/f", b"kept")
    fs.make_folder(folder)
    assert fs.read_all(f"{folder}/f") == b"kept"


# -- real disks only ------------------------------------------------------------------------------


def test_a_full_disk_may_heal_and_says_what_to_do() -> None:
    file = RealFileSystem().open("/dev/full", create=False)
    with pytest.raises(StoreError, match="No space left") as caught:
        file.append(b"x")
    file.close()
    assert (caught.value.op, caught.value.recoverable, file.size()) == ("write", True, 0)
    assert "free some space" in str(caught.value)


def test_what_a_failed_write_left_is_overwritten_by_the_next(tmp_path: Path) -> None:
    file = RealFileSystem().open(f"{tmp_path}/f", create=True)
    file.append(b"good")
    with files_of_at_most(7), pytest.raises(StoreError):
        file.append(b"lost bytes")
    assert os.stat(f"{tmp_path}/f").st_size == 7, "a part of it was written"
    assert file.size() == 4
    file.append(b"kept")
    assert file.read(0, 100) == b"goodkept"
    file.close()


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let files of this process have so many bytes: a write beyond is cut short, the next one fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("size", [0, 1, WRITE_BYTES, WRITE_BYTES + 1, 3 * WRITE_BYTES + 5])
@pytest.mark.parametrize("form", [bytes, memoryview])
def test_writes_of_any_size_are_complete(
    tmp_path: Path, size: int, form: Callable[[bytes], bytes | memoryview]
) -> None:
    data = Random(size).randbytes(size)
    file = RealFileSystem().open(f"{tmp_path}/f", create=True)
    file.append(form(data))
    file.append(b"end")
    file.overwrite(0, data[::-1])
    assert file.read(0, size + 100) == data[::-1] + b"end"
    file.close()


def test_new_folders_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = RealFileSystem()
    synced: list[str] = []
    monkeypatch.setattr(fs, "sync_folder", synced.append)
    fs.make_folder(f"{tmp_path}/x/y/z")
    assert synced == [f"{tmp_path}", f"{tmp_path}/x", f"{tmp_path}/x/y"]
    fs.make_folder(f"{tmp_path}/x/y/z")
    assert len(synced) == 3


def test_a_replacement_that_fails_leaves_the_old_content_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = RealFileSystem()
    fs.replace(f"{tmp_path}/f", b"old")

    def fails(fd: int) -> None:
        raise OSError(5, "")

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(StoreError) as caught:
        fs.replace(f"{tmp_path}/f", b"new")
    assert caught.value.recoverable
    assert (fs.list(f"{tmp_path}"), fs.read_all(f"{tmp_path}/f")) == (["f"], b"old")


def test_errors_name_operation_and_path(tmp_path: Path) -> None:
    fs = RealFileSystem()
    file = fs.open(f"{tmp_path}/f", create=True)
    file.close()
    file.close()
    for op, act in {
        "write": lambda: file.append(b"x"),
        "sync": file.sync,
        "read": lambda: file.read(0, 1),
        "overwrite": lambda: file.overwrite(0, b"x"),
        "truncate": lambda: file.truncate(0),
        "list": lambda: fs.list(f"{tmp_path}/f"),
        "create": lambda: fs.make_folder(f"{tmp_path}/f/g"),
        "rename": lambda: fs.rename(f"{tmp_path}/none", f"{tmp_path}/g"),
        "remove": lambda: fs.remove(f"{tmp_path}"),
    }.items():
        with pytest.raises(StoreError) as caught:
            act()
        assert caught.value.op == op
        assert caught.value.path.startswith(f"{tmp_path}")


def test_a_second_server_is_kept_out_of_a_folder(tmp_path: Path) -> None:
    lock = FolderLock(f"{tmp_path}")
    with pytest.raises(StoreError, match="another server"):
        FolderLock(f"{tmp_path}")
    lock.release()
    FolderLock(f"{tmp_path}").release()


def test_a_folder_that_cannot_be_locked_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        FolderLock(f"{tmp_path}/none")


def test_only_file_systems_that_pass_it_on_are_synced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FUSE and network file systems report success, and have synced nothing."""
    monkeypatch.setattr(store_fs, "_SYNCED_AS_A_WHOLE", frozenset())
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert store_fs.sync_file_system(descriptor) == errno.ENOSYS
    finally:
        os.close(descriptor)
    assert not RealFileSystem().sync_all(str(tmp_path), [str(tmp_path)])
