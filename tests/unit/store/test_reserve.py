"""Room that is kept so that a full disk can be told to forget something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream.store.errors import StoreError
from millstream.store.log import Log
from millstream.store.recovery import open_log
from millstream.store.reserve import SIZE, Reserve
from tests.kits.crashfs import CrashFileSystem
from tests.kits.store.log import commit, put


def test_it_takes_room_and_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(str(path))
    assert reserve.fill()
    assert path.stat().st_blocks * 512 >= SIZE
    assert path.stat().st_mode & 0o777 == 0o640
    assert reserve.fill()
    assert reserve.spend()
    assert not path.exists()
    assert not reserve.spend()


def test_a_disk_without_room_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fails)
    assert not Reserve(str(tmp_path / "reserve")).fill()
    assert list(tmp_path.iterdir()) == []


def full_log() -> tuple[CrashFileSystem, Log]:
    """A log on a disk without a byte of room, with messages that could not be stored."""
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=500)
    for number in range(30):
        put(log, b"s", b"message %d" % number)
    commit(log)
    fs.space = sum(len(fs.read_all(path)) for path in fs.paths())
    put(log, b"s", b"x" * 300)
    with pytest.raises(StoreError):
        _try(log)
    return fs, log


def _try(log: Log) -> None:
    done = log.begin_commit()
    assert done is not None
    try:
        done.run()
    except StoreError:
        log.fail_commit(done)
        raise
    log.end_commit(done)


def test_a_full_disk_can_be_purged_with_the_reserve() -> None:
    fs, log = full_log()
    fs.reserve = 200
    log.remove_below(log.last_seq + 1)
    log.shed()
    _try(log)
    assert log.messages == 0
    again = open_log(fs, "s", segment_size=500)
    assert (again.messages, again.last_seq) == (0, 31)
    assert again.losses.damages == []
    assert put(again, b"s", b"y" * 300) == 32


def test_publishing_does_not_use_the_reserve() -> None:
    fs, log = full_log()
    fs.reserve = 2000
    with pytest.raises(StoreError):
        _try(log)
    assert fs.reserve == 2000


def test_without_a_reserve_it_fails_as_before_and_loses_nothing() -> None:
    fs, log = full_log()
    log.remove_below(log.last_seq + 1)
    log.shed()
    with pytest.raises(StoreError):
        _try(log)
    fs.heal()
    _try(log)
    again = open_log(fs, "s", segment_size=500)
    assert (again.messages, again.last_seq) == (0, 31)
