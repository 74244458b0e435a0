"""Commits that are nothing but records at the end of a file, and the thread that writes them."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream.store.commit import Commit
from millstream.store.disk_writer import DiskWriter
from millstream.store.errors import StoreError
from millstream.store.fill import PAGE
from millstream.store.fs import RealFileSystem
from millstream.store.journal_batch import JournalBatch
from millstream.store.log import Log
from millstream.store.record import HEADER_SIZE, RecordBuffer, end_mark
from millstream.store.recovery import open_log
from millstream.store.unsynced import MOST_IN_DOUBT
from tests.kits.store.log import bodies, commit, put


@pytest.fixture
def writer() -> Iterator[DiskWriter]:
    made = DiskWriter("test")
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "log")


def opened(folder: str) -> Log:
    fs = RealFileSystem()
    fs.make_folder(folder)
    return open_log(fs, folder)


def begin(log: Log) -> Commit:
    begun = log.begin_commit()
    assert begun is not None
    return begun


def write_plainly(log: Log, writer: DiskWriter, *, fill: bool = False) -> None:
    begun = begin(log)
    plain = begun.begin_plain()
    assert plain is not None
    writer.begin(*plain, fill)
    assert writer.wait()
    begun.plain_ended(writer.failed_write, writer.failed_sync)
    log.end_commit(begun)


def test_records_written_by_the_thread_are_read_after_a_restart(folder: str, writer: DiskWriter) -> None:
    log = opened(folder)
    put(log, b"a", b"the file is made by an ordinary commit")
    commit(log)
    for number in range(3):
        put(log, b"a", b"plain %d" % number)
        put(log, b"b", b"and another", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
        write_plainly(log, writer)
    expected = bodies(log)
    assert len(expected) == 7
    assert bodies(opened(folder)) == expected


def test_blocks_allocated_ahead_are_no_part_of_the_file(folder: str, writer: DiskWriter) -> None:
    log = opened(folder)
    put(log, b"a", bytes(200_000))
    commit(log)
    for number in range(3):
        put(log, b"a", b"%d" % number * 100_000)
        write_plainly(log, writer)
    (file,) = Path(folder).glob("*.log")
    assert file.stat().st_size == log.chain.segments[0].size
    if millstream.BUILD == "compiled" and sys.platform == "linux":
        assert file.stat().st_blocks * 512 >= file.stat().st_size  # more, where the file system can
    expected = bodies(log)
    assert len(expected) == 4
    assert bodies(opened(folder)) == expected


def filled_log(folder: str, writer: DiskWriter) -> tuple[Log, Path]:
    """A log with zeros behind its records."""
    log = opened(folder)
    put(log, b"a", b"one")
    commit(log)
    put(log, b"a", b"two")
    write_plainly(log, writer, fill=True)
    (file,) = Path(folder).glob("*.log")
    assert file.stat().st_size > log.chain.segments[0].size
    return log, file


def test_small_commits_overwrite_zeros_that_were_written_ahead(folder: str, writer: DiskWriter) -> None:
    log, file = filled_log(folder, writer)
    size = file.stat().st_size
    assert size % PAGE == 0
    for number in range(50):
        put(log, b"a", b"%d" % number)
        write_plainly(log, writer, fill=True)
        assert file.stat().st_size == size
    end = log.chain.segments[0].size
    rest = file.read_bytes()[end:]
    assert rest[:HEADER_SIZE] == end_mark(log.last_seq + 1, end)
    assert not rest[HEADER_SIZE:].strip(b"\0")
    expected = bodies(log)
    found = opened(folder)  # as after a kill
    assert bodies(found) == expected
    assert found.losses.damages == []
    assert file.stat().st_size == end


def test_a_commit_that_is_larger_than_the_zeros_goes_over_them(folder: str, writer: DiskWriter) -> None:
    log, file = filled_log(folder, writer)
    put(log, b"a", bytes(MOST_IN_DOUBT // 2))
    write_plainly(log, writer, fill=True)
    assert file.stat().st_size == log.chain.segments[0].size
    put(log, b"a", b"small again")
    write_plainly(log, writer, fill=True)
    assert file.stat().st_size > log.chain.segments[0].size
    expected = bodies(log)
    assert bodies(opened(folder)) == expected


def test_zeros_are_followed_by_an_end_mark_although_no_more_are_written(
    folder: str, writer: DiskWriter
) -> None:
    log, file = filled_log(folder, writer)
    put(log, b"a", b"three")
    write_plainly(log, writer)
    end = log.chain.segments[0].size
    assert file.read_bytes()[end : end + HEADER_SIZE] == end_mark(4, end)


def test_whoever_writes_no_end_mark_finds_no_zeros(folder: str, writer: DiskWriter) -> None:
    log, file = filled_log(folder, writer)
    put(log, b"a", b"three")
    begun = begin(log)
    batch, device = JournalBatch(), file.stat().st_dev
    assert not begun.begin_journaled(batch, device)
    begun.run()
    log.end_commit(begun)
    assert file.stat().st_size == log.chain.segments[0].size
    put(log, b"a", b"four")
    assert begin(log).begin_journaled(batch, device)
    assert batch.count == 1


def test_zeros_are_gone_when_a_log_is_closed(folder: str, writer: DiskWriter) -> None:
    log, file = filled_log(folder, writer)
    log.close()
    assert file.stat().st_size == log.chain.segments[0].size


def test_no_zeros_are_written_beyond_where_a_segment_ends(folder: str, writer: DiskWriter) -> None:
    fs = RealFileSystem()
    fs.make_folder(folder)
    log = open_log(fs, folder, segment_size=5_000)
    put(log, b"a", b"one")
    commit(log)
    put(log, b"a", b"two")
    write_plainly(log, writer, fill=True)
    (file,) = Path(folder).glob("*.log")
    assert file.stat().st_size == 5_000
    found = open_log(fs, folder, segment_size=5_000)
    assert len(bodies(found)) == 2


def test_nothing_is_allocated_beyond_where_a_segment_ends(folder: str) -> None:
    fs = RealFileSystem()
    fs.make_folder(folder)
    log = open_log(fs, folder, segment_size=300_000)
    for _ in range(4):
        put(log, b"a", bytes(100_000))
        commit(log)
    first = min(Path(folder).glob("*.log"))
    assert first.stat().st_blocks * 512 < log.chain.segments[0].size + 3 * 4096


def test_an_end_is_told_once_and_can_be_waited_for_by_its_descriptor(folder: str, writer: DiskWriter) -> None:
    log = opened(folder)
    put(log, b"a")
    commit(log)
    put(log, b"a")
    begun = begin(log)
    plain = begun.begin_plain()
    assert plain is not None
    assert not writer.collect()
    writer.begin(*plain)
    assert select.select([writer.fileno()], [], [], 60)[0]
    assert writer.collect()
    assert not writer.collect()
    assert not writer.wait()
    assert (writer.failed_write, writer.failed_sync) == (0, 0)


def test_records_written_in_the_callers_thread_are_read_after_a_restart(
    folder: str, writer: DiskWriter
) -> None:
    log = opened(folder)
    put(log, b"a", b"one")
    commit(log)
    for body in (b"two", b"three"):
        put(log, b"a", body)
        begun = begin(log)
        plain = begun.begin_plain()
        assert plain is not None
        writer.write_now(*plain)
        assert writer.took_ns > 0
        begun.plain_ended(writer.failed_write, writer.failed_sync)
        log.end_commit(begun)
        assert not writer.collect()  # nothing was left to the thread
    put(log, b"a", b"four")
    write_plainly(log, writer)
    assert list(bodies(opened(folder)).values()) == [b"one", b"two", b"three", b"four"]


def test_only_one_write_at_a_time(folder: str, writer: DiskWriter) -> None:
    buffer = RecordBuffer()
    with open(os.devnull, "wb") as nothing:
        writer.begin(nothing.fileno(), buffer)
        with pytest.raises(RuntimeError):
            writer.begin(nothing.fileno(), buffer)
        writer.wait()


def test_errors_of_the_system_come_back_as_numbers(writer: DiskWriter) -> None:
    buffer = RecordBuffer()
    buffer.add(1, 1, 0, b"a", b"body", 0, 0, 4)
    with open(os.devnull, "wb") as unsyncable:
        writer.begin(unsyncable.fileno(), buffer)
        writer.wait()
    assert (writer.failed_write, writer.failed_sync) == (0, errno.EINVAL)
    with open("/dev/full", "wb", buffering=0) as full:
        writer.begin(full.fileno(), buffer)
        writer.wait()
    assert (writer.failed_write, writer.failed_sync) == (errno.ENOSPC, 0)
    with open(os.devnull, "wb") as unsyncable:
        writer.write_now(unsyncable.fileno(), buffer)
    assert (writer.failed_write, writer.failed_sync) == (0, errno.EINVAL)


def test_what_could_not_be_written_goes_with_the_next_commit(folder: str, writer: DiskWriter) -> None:
    log = opened(folder)
    put(log, b"a", b"one")
    commit(log)
    put(log, b"a", b"two")
    begun = begin(log)
    assert begun.begin_plain() is not None
    with pytest.raises(StoreError, match="No space") as caught:
        begun.plain_ended(errno.ENOSPC, 0)
    assert caught.value.recoverable
    log.fail_commit(begun)
    put(log, b"a", b"three")
    write_plainly(log, writer)
    assert list(bodies(opened(folder)).values()) == [b"one", b"two", b"three"]


def test_after_a_failed_sync_everything_unsynced_is_written_again(folder: str) -> None:
    log = opened(folder)
    put(log, b"a", b"one")
    commit(log)
    put(log, b"a", b"two")
    begun = begin(log)
    plain = begun.begin_plain()
    assert plain is not None
    descriptor, buffer = plain
    buffer.seal()
    with buffer.view() as view:
        os.pwrite(descriptor, view, buffer.base)
    with pytest.raises(StoreError):
        begun.plain_ended(0, errno.EIO)
    note = os.path.join(folder, "0000000001.unsynced")
    assert os.path.exists(note)  # so that a start writes it again, if the server is killed before
    log.fail_commit(begun)
    os.pwrite(descriptor, bytes(buffer.size), buffer.base)  # the system forgot what it could not sync
    put(log, b"a", b"three")
    again = begin(log)
    assert again.begin_plain() is None
    again.run()
    assert not os.path.exists(note)
    log.end_commit(again)
    assert list(bodies(opened(folder)).values()) == [b"one", b"two", b"three"]


def test_a_note_is_left_before_a_large_commit_is_synced_and_removed_in_the_end(folder: str) -> None:
    log = opened(folder)
    put(log, b"a", b"one")
    commit(log)
    note = os.path.join(folder, "0000000001.unsynced")
    put(log, b"a", bytes(MOST_IN_DOUBT))
    large = begin(log)
    assert large.begin_plain() is None
    large.run()
    log.end_commit(large)
    assert os.path.exists(note)
    put(log, b"a", bytes(MOST_IN_DOUBT))
    following = begin(log)
    assert following.begin_plain() is not None  # one note is enough
    following.plain_ended(0, 0)
    log.end_commit(following)
    log.close()
    assert not os.path.exists(note)


def test_a_commit_with_more_to_do_is_not_plain(folder: str) -> None:
    log = opened(folder)
    put(log, b"a", b"one")
    first = begin(log)
    assert first.begin_plain() is None  # its file must be made
    first.run()
    log.end_commit(first)
    log.erase(1)
    assert begin(log).begin_plain() is None
