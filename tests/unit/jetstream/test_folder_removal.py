"""Folders are removed one after the other, and again if that failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.jetstream.folder_removal import _RETRY_S, FolderRemoval
from millstream.store.fs import MemoryFileSystem
from tests.kits.fake_world import FakeWorld


def folders_on(fs: MemoryFileSystem) -> None:
    for name in ("one", "two"):
        fs.make_folder(f"deleted/{name}")
        fs.open(f"deleted/{name}/meta.json", create=True).append(b"{}")


def test_all_are_removed() -> None:
    fs, world = MemoryFileSystem(), FakeWorld()
    folders_on(fs)
    removal = FolderRemoval(fs, world, "A")
    for name in ("one", "two"):
        removal.start(f"deleted/{name}")
    world.settle()
    assert fs.folders("deleted") == []


def test_without_a_thread_they_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fs, world = MemoryFileSystem(), FakeWorld()
    folders_on(fs)
    removal = FolderRemoval(fs, world, "A")

    def refuse(work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(world, "run_in_worker", refuse)
        for name in ("one", "two"):
            removal.start(f"deleted/{name}")
    assert "folders cannot be removed yet: can't start new thread" in caplog.text
    world.advance(_RETRY_S)
    world.settle()
    assert fs.folders("deleted") == []


def test_nothing_is_tried_again_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    fs, world = MemoryFileSystem(), FakeWorld()
    folders_on(fs)
    removal = FolderRemoval(fs, world, "A")
    with monkeypatch.context() as patch:
        patch.setattr(world, "run_in_worker", lambda *_: (_ for _ in ()).throw(RuntimeError("no thread")))
        removal.start("deleted/one")
    removal.stop()
    world.advance(_RETRY_S)
    world.settle()
    assert fs.folders("deleted") == ["one", "two"]
