"""Notes about segments whose bytes may have to be written again."""

from __future__ import annotations

import errno
from random import Random

import pytest

from millstream.store import unsynced
from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFile, CrashFileSystem, Keep
from tests.kits.store.log import commit, commit_all, put

NOTE = "s/0000000001.unsynced"
LARGE = unsynced.MOST_IN_DOUBT
MIB = 1 << 20


def fill(log: Log, size: int) -> None:
    """Make large commits until the log has this size."""
    while log.record_bytes < size:
        put(log, b"a", bytes(LARGE))
        commit(log)


def test_a_note_gives_an_offset_and_can_be_renewed() -> None:
    fs = MemoryFileSystem()
    unsynced.note(fs, "s", 1, 0)
    assert unsynced.start_of(fs, "s", 1) == 0
    unsynced.note(fs, "s", 1, 1234567)
    assert unsynced.start_of(fs, "s", 1) == 1234567
    assert len(fs.read_all(NOTE)) == 22
    unsynced.clear(fs, "s", 1)
    assert unsynced.start_of(fs, "s", 1) == 0


def test_a_note_about_the_whole_segment_stays_one() -> None:
    fs = MemoryFileSystem()
    unsynced.note(fs, "s", 1, 77)
    unsynced.note(fs, "s", 1)
    unsynced.note(fs, "s", 1, 88)
    assert unsynced.start_of(fs, "s", 1) == 0


@pytest.mark.parametrize("text", [b"", b"0000000077\n", b"0000000077 0000000078\n", b"\0" * 22, b"77"])
def test_any_other_note_is_about_the_whole_segment(text: bytes) -> None:
    fs = MemoryFileSystem()
    fs.replace(NOTE, text)
    assert unsynced.start_of(fs, "s", 1) == 0


def test_a_note_without_its_text_is_one() -> None:
    fs = CrashFileSystem()
    fs.fail(errno.ENOSPC, kind="write")
    unsynced.note(fs, "s", 1, 77)
    fs.heal()
    assert NOTE in fs.paths()
    assert unsynced.start_of(fs, "s", 1) == 0


def test_a_note_is_renewed_once_in_a_mebibyte() -> None:
    assert not unsynced.is_due(10, LARGE, noted=False)
    assert unsynced.is_due(10, LARGE + 11, noted=False)
    assert not unsynced.is_due(10, MIB - 1, noted=True)
    assert unsynced.is_due(MIB - 1, MIB, noted=True)
    assert unsynced.is_due(MIB - 1, 5 * MIB, noted=True)
    assert not unsynced.is_due(MIB, MIB + LARGE + 1, noted=True)


def test_a_start_writes_the_noted_part_again_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    fill(log, 5 * MIB)
    size = log.chain.segments[-1].size
    start = unsynced.start_of(fs, "s", 1)
    assert start > 5 * MIB - 2 * LARGE - 100
    written: list[int] = []
    overwrite = CrashFile.overwrite

    def counted(file: CrashFile, offset: int, data: bytes, *, sync: bool = True) -> None:
        written.append(len(data))
        overwrite(file, offset, data, sync=sync)

    monkeypatch.setattr(CrashFile, "overwrite", counted)
    survivor = fs.kill()
    again = open_log(survivor, "s", synced=True)
    assert again.messages == log.messages
    assert sum(written) == size - start
    assert NOTE not in survivor.paths()


@pytest.mark.parametrize("filled", [0, LARGE, MIB - 10, 3 * MIB])
def test_what_a_failed_sync_dropped_is_written_again(filled: int) -> None:
    """The server is killed before it can do so itself, and power goes after the start."""
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    fill(log, filled)
    before = log.messages
    put(log, b"a", bytes(LARGE + 1))
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        commit(log)
    fs.heal()
    survivor = fs.kill()
    assert open_log(survivor, "s", synced=True).messages == before + 1
    assert open_log(survivor.crash(Keep.NOTHING, Random(1)), "s").messages == before + 1


@pytest.mark.parametrize("removes", [False, True])
def test_what_a_start_appends_behind_a_lost_sector_is_durable(removes: bool) -> None:
    """Later commits may be durable in a commit journal alone, which does not have what lies before them."""
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    for number in range(1, 7):
        put(log, b"s.1", b"x" * 700)
        if number == 3:
            commit_all(log)
    if removes:
        log.remove(1)
    commit_all(log)
    log.close()
    (path,) = (f"s/{name}" for name in fs.list("s") if name.endswith(".log"))

    def lose(data: bytearray) -> None:
        data[3072:3584] = bytes(512)

    fs.damage(path, lose)
    log = open_log(fs, "s", synced=True)
    assert log.losses.torn
    text = fs.read_all(path)
    assert fs.crash(Keep.NOTHING, Random(1)).read_all(path) == text
