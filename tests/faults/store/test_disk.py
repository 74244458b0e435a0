"""A disk that is full, or does not sync: publishers hear of it, readers go on, nothing acked is lost."""

from __future__ import annotations

import errno
import os
import resource
import signal
from pathlib import Path
from random import Random

import pytest

from millstream.store import unsynced
from millstream.store.errors import StoreError
from millstream.store.fs import RealFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.store.scenario import SEGMENT, Life, read_all


def started(fs: CrashFileSystem, count: int = 10) -> Life:
    life = Life(fs)
    life.open()
    life.put(count)
    life.commit()
    return life


def assert_all_durable(life: Life, fs: CrashFileSystem) -> None:
    life.fs = fs.crash(Keep.NOTHING, Random(1))
    life.open()
    assert read_all(life.log) == life.live
    assert life.log.last_seq == life.last_seq
    assert life.log.losses.damages == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("kind", ["create", "write", "sync", "sync_folder"])
def test_a_commit_that_fails_is_repeated_and_then_counts(kind: str, error: int) -> None:
    fs = CrashFileSystem()
    life = started(fs)
    life.put(15)  # rolls, so that there is something to create
    fs.fail(error, kind=kind)
    for _ in range(3):
        with pytest.raises(StoreError) as caught:
            life.commit()
        assert caught.value.recoverable
        assert life.log.committed == life.durable_last
        assert read_all(life.log) == life.durable  # reads go on
        life.put(2)  # and so does appending, if anybody wants to
    fs.heal()
    life.commit()
    assert life.log.committed == life.last_seq
    assert read_all(life.log) == life.live
    assert_all_durable(life, fs)


@pytest.mark.parametrize("room", [0, 1, 10, 25, 26, 27, 60, 100, 200, 350, 500])
def test_a_disk_that_fills_up_in_the_middle_of_a_write(room: int) -> None:
    fs = CrashFileSystem()
    life = started(fs)
    life.put(20)
    fs.space = sum(len(fs.read_all(path)) for path in fs.paths()) + room
    with pytest.raises(StoreError, match="No space"):
        life.commit()
    assert read_all(life.log) == life.durable
    # Power may go now: what the failed write left on disk is no loss and no damage.
    crashed = fs.crash(Keep.EVERYTHING, Random(1))
    log = open_log(crashed, "s", segment_size=SEGMENT)
    life.check(log)
    assert log.losses.damages == []


def test_what_a_failed_write_left_is_never_taken_for_records() -> None:
    fs = CrashFileSystem()
    life = started(fs)
    life.put(6)
    fs.space = sum(len(fs.read_all(path)) for path in fs.paths()) + 50
    with pytest.raises(StoreError):
        life.commit()
    fs.heal()
    life.put(1)
    life.commit()
    assert read_all(life.log) == life.live
    assert_all_durable(life, fs)


def test_after_a_failed_sync_the_same_bytes_are_written_again() -> None:
    """The system forgets what it could not write, and a later sync that succeeds means nothing."""
    fs = CrashFileSystem()
    life = started(fs, 4)
    size = len(fs.read_all("s/0000000001.log"))
    life.put(2)
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        life.commit()
    fs.heal()
    grown = len(fs.read_all("s/0000000001.log"))
    life.commit()
    assert size < grown == len(fs.read_all("s/0000000001.log"))
    assert_all_durable(life, fs)


def test_what_was_written_without_sync_is_written_again_as_well() -> None:
    fs = CrashFileSystem()
    life = started(fs, 2)
    life.put(2)
    commit = life.log.begin_commit()
    assert commit is not None
    commit.run(sync=False)
    life.log.end_commit(commit)
    fs.fail(errno.EIO, kind="sync")
    flush = life.log.begin_commit(flush=True)
    assert flush is not None
    with pytest.raises(StoreError):
        flush.run()
    life.log.fail_commit(flush)
    fs.heal()
    flush = life.log.begin_commit(flush=True)
    assert flush is not None
    flush.run()
    life.log.end_commit(flush)
    assert_all_durable(life, fs)


def with_failed_sync(*, kind: str) -> Life:
    """Return a life whose last two messages can be read, but were dropped by a sync that failed."""
    fs = CrashFileSystem()
    life = started(fs, 4)
    life.put(2)
    commit = life.log.begin_commit()
    assert commit is not None
    if kind == "of an earlier commit":
        commit.run(sync=False)
        life.log.end_commit(commit)
        commit = life.log.begin_commit(flush=True)
        assert commit is not None
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        commit.run()
    life.log.fail_commit(commit)
    fs.heal()
    return life


NOTE = "s/0000000001.unsynced"


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("kind", ["of the commit", "of an earlier commit"])
def test_what_a_failed_sync_dropped_is_written_again_by_the_next_start(kind: str, synced: bool) -> None:
    life = with_failed_sync(kind=kind)
    fs = life.fs = life.fs.kill()
    fs.open("s/0000000001.log", create=False).sync()  # as a server does first; it succeeds and means nothing
    assert NOTE in fs.paths()
    life.log = open_log(fs, "s", segment_size=SEGMENT, synced=synced)
    assert read_all(life.log) == life.live
    assert NOTE not in fs.paths()
    assert_all_durable(life, fs)


def test_a_start_whose_sync_fails_as_well_leaves_that_to_the_next() -> None:
    life = with_failed_sync(kind="of the commit")
    fs = life.fs.kill()
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        open_log(fs, "s", segment_size=SEGMENT)
    fs.heal()
    fs = life.fs = fs.kill()
    life.open()
    assert_all_durable(life, fs)


def test_a_start_that_was_told_of_a_failed_sync_writes_everything_again() -> None:
    fs = CrashFileSystem()
    life = started(fs, 4)
    life.put(2)
    commit = life.log.begin_commit()
    assert commit is not None
    commit.run(sync=False)
    fs = life.fs = fs.kill()
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        fs.open("s/0000000001.log", create=False).sync()  # the caller of `open_log`
    fs.heal()
    life.open()
    assert_all_durable(life, fs)


def test_the_next_sync_that_succeeds_removes_the_note_of_a_failed_one() -> None:
    life = with_failed_sync(kind="of the commit")
    assert NOTE in life.fs.paths()
    life.commit()
    assert NOTE not in life.fs.paths()
    assert_all_durable(life, life.fs)


def test_the_note_of_a_segment_that_is_gone_is_removed() -> None:
    fs = CrashFileSystem()
    life = started(fs, 40)
    life.remove_below(30)
    life.commit()
    assert "s/0000000001.log" not in fs.paths()
    fs.open(NOTE, create=True).close()
    life.open()
    assert NOTE not in fs.paths()
    assert read_all(life.log) == life.live


@pytest.mark.parametrize("suffix", [".sum.new", ".sum"])
def test_a_summary_that_cannot_be_written_does_not_fail_the_commit(suffix: str) -> None:
    fs = CrashFileSystem()
    life = started(fs)
    fs.fail(errno.ENOSPC, suffix=suffix)
    life.put(20)
    life.commit()
    assert life.log.committed == life.last_seq
    assert not [path for path in fs.paths() if path.endswith(".sum.new")]
    fs.heal()
    life.put(1)
    life.commit()
    sealed = [segment for segment in life.log.chain.segments if segment.sealed]
    assert len(sealed) == len([path for path in fs.paths() if path.endswith(".sum")]) > 1
    assert_all_durable(life, fs)


def test_files_that_cannot_be_removed_go_with_a_later_commit() -> None:
    fs = CrashFileSystem()
    life = started(fs, 40)
    files = len(fs.paths())
    fs.fail(errno.EIO, kind="remove")
    life.remove_below(38)
    life.commit()
    assert len(fs.paths()) >= files
    fs.heal()
    life.put(1)
    life.commit()
    assert len(fs.paths()) < files // 2
    assert_all_durable(life, fs)


def test_purging_makes_room_on_a_disk_that_is_full() -> None:
    """Nothing can be written, not even that everything was removed: the files go first."""
    fs = CrashFileSystem()
    life = started(fs, 60)
    files = len(fs.paths())
    fs.space = sum(len(fs.read_all(path)) for path in fs.paths())
    life.remove_below(58)
    with pytest.raises(StoreError):
        life.commit()
    assert len(fs.paths()) < files // 2
    life.commit()  # now there is room
    life.put(3)
    life.commit()
    assert_all_durable(life, fs)


def test_making_room_never_forgets_which_sequences_were_used() -> None:
    """The last file is the only one that knows, as long as the next is not written."""
    for cut in range(1, 12):
        fs = CrashFileSystem()
        life = started(fs, 40)
        used = sum(len(fs.read_all(path)) for path in fs.paths())
        fs.space = used
        life.put(30)
        life.remove_below(life.last_seq + 1)
        with pytest.raises(StoreError):
            life.commit()
        crashed = fs.crash(Keep.SECTORS, Random(cut))
        log = open_log(crashed, "s", segment_size=SEGMENT)
        life.check(log)


def commit(log: Log) -> None:
    done = log.begin_commit()
    assert done is not None
    try:
        done.run()
    except StoreError:
        log.fail_commit(done)
        raise
    log.end_commit(done)


def test_a_real_file_that_may_not_grow(tmp_path: Path) -> None:
    """The kernel's own limit on file sizes cuts a write in the middle, as a full disk does."""
    log = open_log(RealFileSystem(), f"{tmp_path}/log")
    body = b"x" * 100
    log.append(b"a", body, 0, 0, 100, 1, 0)
    commit(log)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
        log.append(b"a", body, 0, 0, 100, 2, 0)
        with pytest.raises(StoreError):
            commit(log)
        assert os.path.getsize(f"{tmp_path}/log/0000000001.log") == 200  # half of a record
        assert sorted(read_all(log)) == [1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    log.append(b"a", b"y" * 100, 0, 0, 100, 3, 0)
    commit(log)
    assert read_all(log) == {1: body, 2: body, 3: b"y" * 100}
    log.close()
    again = open_log(RealFileSystem(), f"{tmp_path}/log")
    assert read_all(again) == {1: body, 2: body, 3: b"y" * 100}
    assert again.losses.damages == []
    again.close()


@pytest.mark.parametrize("size", [10, unsynced.MOST_IN_DOUBT + 1])
def test_what_a_killed_server_could_not_note_is_written_again(size: int) -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    log.append(b"a", bytes(size), 0, 0, size, 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)
    log.append(b"a", bytes(size), 0, 0, size, 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        commit.run()
    if size <= unsynced.MOST_IN_DOUBT:
        fs.remove(NOTE)  # as if the server was killed before it made one
    fs.heal()
    fs = fs.kill()
    unsynced.write_end_again(fs, "s/0000000001.log")
    fs.open("s/0000000001.log", create=False).sync()
    open_log(fs, "s", synced=True).close()
    assert open_log(fs.crash(Keep.NOTHING, Random(1)), "s").messages == 2
