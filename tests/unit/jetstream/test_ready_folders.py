"""Folders for new streams, made ahead while many are created."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.jetstream.stream.ready_folders import ReadyFolders
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError
from millstream.store.fs import RealFileSystem
from tests.kits.fake_world import FakeWorld

STAGED = "store/staging"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class FullDisk(RealFileSystem):
    def make_folder(self, path: str, *, sync: bool = True) -> None:
        raise StoreError("create", path, "no space")


class Site:
    def __init__(self, fs: RealFileSystem | None = None) -> None:
        self.world = FakeWorld()
        self.fs = fs or RealFileSystem()
        self.removed: list[str] = []
        self.folders = ReadyFolders(self.world, self.fs, STAGED, self.removed.append)

    def staged(self) -> list[str]:
        return list(self.fs.folders(STAGED))

    def take(self, count: int) -> list[str]:
        taken = []
        for _ in range(count):
            taken.append(self.folders.take())
            self.world.settle()
        return taken


def test_a_few_streams_get_no_folders_ahead() -> None:
    site = Site()
    site.take(4)
    assert site.staged() == []


def test_quick_creations_find_their_folders() -> None:
    site = Site()
    site.take(5)
    ahead = site.staged()
    assert len(ahead) == 2
    assert site.fs.list(f"{STAGED}/{ahead[0]}") == ["log"]
    taken = site.take(3)
    assert set(ahead) <= set(taken)
    assert len(set(taken)) == 3


def test_slow_creations_end_it_and_idle_folders_are_removed() -> None:
    site = Site()
    site.take(5)
    ahead = site.staged()
    site.world.advance(3)
    assert site.removed == []
    assert site.take(1)[0] in ahead
    site.world.advance(20)
    assert len(site.removed) == 1
    assert site.removed[0].removeprefix(f"{STAGED}/") in ahead


def test_a_stop_removes_those_that_no_stream_has() -> None:
    site = Site()
    site.take(5)
    taken = site.folders.take()  # and another is being made
    site.folders.stop()
    site.world.settle()
    assert site.staged() == [taken]
    site.take(9)
    assert site.staged() == [taken]


def test_a_disk_that_fails_makes_none() -> None:
    site = Site(FullDisk())
    taken = site.take(9)
    assert len(set(taken)) == 9


def test_streams_are_created_in_them_and_nothing_is_left() -> None:
    world, fs = FakeWorld(), RealFileSystem()
    account = world.account(fs=fs)
    for number in range(12):
        account.begin(StreamConfig(name=f"S{number}", subjects=[f"s.{number}"]))
        world.settle()
    assert len(account.streams) == 12
    assert len(fs.folders("store/streams")) == 12
    assert len(fs.folders(STAGED)) == 2
    account.stop()
    assert fs.folders(STAGED) == []
    again = FakeWorld().account(fs=fs)
    again.recover()
    assert len(again.streams) == 12


def test_what_a_killed_server_left_is_removed_at_the_next_start() -> None:
    world, fs = FakeWorld(), RealFileSystem()
    account = world.account(fs=fs)
    for number in range(8):
        account.begin(StreamConfig(name=f"S{number}", subjects=[f"s.{number}"]))
        world.settle()
    assert fs.folders(STAGED)
    world = FakeWorld()
    world.account(fs=fs).recover()
    world.settle()
    assert fs.folders(STAGED) == []
