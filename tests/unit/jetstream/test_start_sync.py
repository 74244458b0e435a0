"""Streams are synced before they are opened, and each file of a killed server is opened once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from millstream.jetstream.stream.folder_listing import FolderListing, list_stream
from millstream.jetstream.stream.start_sync import sync_streams
from millstream.store.errors import StoreError
from millstream.store.fs import File, MemoryFileSystem, RealFileSystem, close_files
from millstream.store.recovery import open_log
from tests.kits.jetstream.stream import Site
from tests.kits.patience import PATIENCE_S
from tests.kits.store.log import commit, put

MANY = 20


class Disk(RealFileSystem):
    """A disk whose sync of everything succeeds or fails, and ends after `event`."""

    def __init__(self, *, succeeds: bool = True) -> None:
        super().__init__()
        self.event = threading.Event()
        self.succeeds = succeeds
        self.synced: list[str] = []

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        return self.event.wait(PATIENCE_S) and self.succeeds

    def sync_folder(self, path: str) -> None:
        self.synced.append(path)


def streams(folder: Path) -> dict[str, FolderListing]:
    """Make folders of streams, each with a log; return their contents."""
    fs = RealFileSystem()
    found = {}
    for number in range(MANY):
        stream = f"{folder}/S{number}"
        log = open_log(fs, f"{stream}/log")
        put(log, b"a")
        commit(log)
        log.close()
        found[stream] = list_stream(fs, stream)
    return found


def test_what_does_not_depend_on_the_disk_is_prepared_while_it_is_synced(tmp_path: Path) -> None:
    disk, listings = Disk(), streams(tmp_path)
    assert sync_streams(disk, listings, 2, meanwhile=disk.event.set) == set(listings)
    assert disk.event.is_set()


def test_a_start_without_a_thread_syncs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, listings = Disk(), streams(tmp_path)
    disk.event.set()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert sync_streams(disk, listings, 2) == set(listings)


def test_streams_are_synced_one_by_one_if_that_fails(tmp_path: Path) -> None:
    disk, listings = Disk(succeeds=False), streams(tmp_path)
    disk.synced.clear()
    assert sync_streams(disk, listings, 2, meanwhile=disk.event.set) == set(listings)
    assert set(disk.synced) == {*listings, *(f"{stream}/log" for stream in listings)}


def test_files_whose_ends_were_written_again_stay_open(tmp_path: Path) -> None:
    disk, listings = Disk(), streams(tmp_path)
    disk.event.set()
    opened: dict[str, File] = {}
    sync_streams(disk, listings, 2, opened=opened)
    assert sorted(opened) == sorted(f"{stream}/log/0000000001.log" for stream in listings)
    close_files(list(opened.values()))
    opened.clear()
    sync_streams(disk, listings, 2, killed=False, opened=opened)
    assert opened == {}


def test_a_log_takes_its_open_file(tmp_path: Path) -> None:
    fs = RealFileSystem()
    (path,) = [f"{stream}/log/0000000001.log" for stream in streams(tmp_path) if stream.endswith("/S0")]
    file, other = fs.open(path, create=False), fs.open(path, create=False)
    opened: dict[str, File] = {path: file, "other": other}
    log = open_log(fs, path.rpartition("/")[0], synced=True, opened=opened)
    assert opened == {"other": other}
    assert log.messages == 1
    log.close()
    with pytest.raises(StoreError, match="it is closed"):
        file.read(0, 1)
    other.close()


def test_a_start_behind_a_kill_opens_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    for number in range(3):
        site.create(f"S{number}")
        site.publish(f"s{number}.a")
    opened: list[str] = []
    real = MemoryFileSystem.open

    def counted(fs: MemoryFileSystem, path: str, *, create: bool) -> File:
        opened.append(path)
        return real(fs, path, create=create)

    monkeypatch.setattr(MemoryFileSystem, "open", counted)
    again = site.restarted(orderly=False)
    assert [each.log.messages for each in again.account.streams.values()] == [1, 1, 1]
    logs = [path for path in opened if path.endswith(".log")]
    assert sorted(logs) == [f"store/streams/S{number}/log/0000000001.log" for number in range(3)]
