"""Creating a stream: durable when it is told, and no more syncs than that takes."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from millstream.jsapi.stream_types import StreamConfig
from millstream.store.fs import RealFileSystem
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.fake_world import FakeWorld

CONFIG = StreamConfig(
    name="S",
    subjects=["s"],
    max_msgs=-1,
    max_bytes=-1,
    max_msgs_per_subject=-1,
    max_msg_size=-1,
    max_consumers=-1,
)


def create(fs: CrashFileSystem) -> None:
    FakeWorld().account(fs=fs).add(CONFIG)


def operations_of_a_creation() -> list[str]:
    fs = CrashFileSystem()
    create(fs)
    return [re.sub("[A-Za-z0-9]{22}$", "ID", each) for each in fs.transcript]


def test_a_new_stream_waits_for_the_disk_three_times() -> None:
    assert operations_of_a_creation() == [
        "create meta.json",
        "write meta.json",
        "sync meta.json",
        "sync_folder ID",
        "rename S",
        "sync_folder streams",
    ]


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("seed", range(5))
def test_a_stream_that_was_created_survives_a_power_cut(keep: Keep, seed: int) -> None:
    fs = CrashFileSystem()
    create(fs)
    written = fs.read_all("store/streams/S/meta.json")
    survivor = fs.crash(keep, random.Random(seed))
    account = FakeWorld().account(fs=survivor)
    account.recover()
    assert account.streams["S"].config == CONFIG
    assert survivor.read_all("store/streams/S/meta.json") == written


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("operation", range(1, len(operations_of_a_creation()) + 1))
def test_a_creation_that_a_power_cut_ended_leaves_a_whole_stream_or_none(keep: Keep, operation: int) -> None:
    for seed in range(5):
        fs = CrashFileSystem()
        fs.cut_power_at(operation)
        with pytest.raises(PowerCut):
            create(fs)
        account = FakeWorld().account(fs=fs.crash(keep, random.Random(seed)))
        account.recover()
        assert account.unrecovered == {}
        again = account.streams.get("S") or account.add(CONFIG)
        assert again.config == CONFIG


def test_all_folders_above_a_new_stream_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    class Disk(RealFileSystem):
        def sync_folder(self, path: str) -> None:
            synced.append(path or ".")
            super().sync_folder(path)

    monkeypatch.chdir(tmp_path)
    account = FakeWorld().account(fs=Disk())
    account.add(CONFIG)
    account.stop()
    # What is made in a folder is durable when that is synced afterwards: `staging` and `streams` by `store`,
    # `log` and `meta.json` by the folder that the stream is built in, the stream's own name by the last.
    built = synced[2]
    assert re.fullmatch("store/staging/[A-Za-z0-9]{22}", built)
    assert synced == [".", "store", built, "store", "store/streams"]
    assert sorted(os.listdir("store/staging")) == []
