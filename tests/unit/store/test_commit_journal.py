"""The commit journal: what a batch looks like, and what a start puts back from it."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from random import Random

import pytest

from millstream.store import commit_journal
from millstream.store.commit_journal import (
    START,
    Entry,
    clear_journal,
    encode_header,
    journal_path,
    journals,
    make_journal,
    read_batches,
    replay,
)
from millstream.store.errors import StoreError
from millstream.store.journal_batch import ALIGNMENT
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from millstream.store.segment import file_header
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.store.batch import encode_batch

MARK = bytes(range(16))
HEADER = encode_header(MARK)
KEY = b"A/streams/S/log\0id"
FOLDER = "store/A/streams/S/log"
ENTRIES = [Entry(KEY, 1, 0, b"first"), Entry(b"other\0x", 7, 4096, b""), Entry(KEY, 2, 5, b"x" * 5000)]


def always(*_: str) -> bool:
    return True


def write_journal(fs: CrashFileSystem, *batches: bytes, number: int = 1) -> None:
    file = fs.open(journal_path("store", number), create=True)
    file.append(HEADER + b"".join(batches))
    file.sync()
    fs.sync_folder("store")


class JournaledLog:
    """A log whose commits only write its file, and go to a journal."""

    def __init__(self, fs: CrashFileSystem, segment_size: int = 1 << 20) -> None:
        self.fs = fs
        self.log: Log = open_log(fs, FOLDER, segment_size=segment_size)
        self.batches: list[bytes] = []

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.log.append(b"s", body, 0, 0, len(body), 1, 0)

    def commit(self, *, sync: bool) -> None:
        commit = self.log.begin_commit()
        assert commit is not None
        if sync:
            commit.run()
        else:
            segment, buffer = commit.parts[0]
            is_new = segment.file is None
            commit.run(sync=False)
            data = buffer.peek()
            base = buffer.base
            if is_new:
                base, data = 0, file_header(segment.start_seq) + data
            entry = Entry(KEY, segment.number, base, data)
            self.batches.append(encode_batch(MARK, len(self.batches) + 1, [entry]))
        self.log.end_commit(commit)


def bodies(fs: CrashFileSystem) -> list[bytes]:
    log = open_log(fs, FOLDER)
    assert log.losses.damages == []
    record = Record()
    return [record.payload() for seq in log.sequences(0, log.last_seq) if log.get(seq, record)]


# -- the format -----------------------------------------------------------------------------------


def test_a_batch_can_be_read() -> None:
    batch = encode_batch(MARK, 9, ENTRIES)
    assert len(batch) % ALIGNMENT == 0
    assert list(read_batches(HEADER + batch)) == [(9, ENTRIES)]


def test_batches_are_read_up_to_the_zeros_behind_them() -> None:
    data = encode_batch(MARK, 1, ENTRIES) + encode_batch(MARK, 2, ENTRIES[:1]) + bytes(3 * ALIGNMENT)
    assert [order for order, _ in read_batches(HEADER + data)] == [1, 2]


@pytest.mark.parametrize("size", [0, 3, 20, 100, 4095, 5000])
def test_a_torn_batch_is_left_out(size: int) -> None:
    data = encode_batch(MARK, 1, ENTRIES) + encode_batch(MARK, 2, ENTRIES)[:size]
    assert [order for order, _ in read_batches(HEADER + data)] == [1]
    assert [order for order, _ in read_batches(HEADER + data + bytes(8 * ALIGNMENT))] == [1]


def test_a_flipped_byte_is_mended() -> None:
    whole = [encode_batch(MARK, order, ENTRIES[:1]) for order in (1, 2, 3)]
    data = bytearray(b"".join(whole))
    sound = list(read_batches(HEADER + bytes(data)))
    used = 36 + 22 + len(KEY) + len(ENTRIES[0].data)
    for at in range(len(whole[0]), len(whole[0]) + used):
        data[at] ^= 0x40
        assert list(read_batches(HEADER + bytes(data))) == sound, at
        data[at] ^= 0x40


def test_two_flipped_bytes_cost_one_batch(caplog: pytest.LogCaptureFixture) -> None:
    whole = [encode_batch(MARK, order, ENTRIES[:1]) for order in (1, 2, 3)]
    data = bytearray(b"".join(whole))
    used = 36 + 22 + len(KEY) + len(ENTRIES[0].data)
    for at in range(len(whole[0]) + 36, len(whole[0]) + used - 1):
        data[at] ^= 0x40
        data[at + 1] ^= 0x04
        assert [order for order, _ in read_batches(HEADER + bytes(data), "j")] == [1, 3], at
        data[at] ^= 0x40
        data[at + 1] ^= 0x04
    assert "j: a batch is damaged" in caplog.text


def test_a_batch_that_was_not_written_to_its_end_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    entry = Entry(KEY, 1, 0, b"x" * 3 * ALIGNMENT)
    data = bytearray(encode_batch(MARK, 1, [entry]))
    for at in range(0, len(data), 512):
        torn = data[:at] + bytes(512) + data[at + 512 :]
        expected = [] if any(data[at : at + 512]) else [1]
        assert [order for order, _ in read_batches(HEADER + bytes(torn), "j")] == expected, at
    assert caplog.text == ""


def test_a_flipped_byte_of_the_header_costs_nothing() -> None:
    data = bytearray(HEADER + encode_batch(MARK, 1, ENTRIES))
    for at in range(0, START, 3):
        data[at] ^= 0x40
        assert [order for order, _ in read_batches(bytes(data))] == [1], at
        data[at] ^= 0x40


def test_a_message_that_looks_like_a_batch_is_none() -> None:
    forged = HEADER + encode_batch(bytes(16), 7, ENTRIES)  # its author does not know the mark
    entry = Entry(KEY, 1, 0, bytes(ALIGNMENT - 36 - 22 - len(KEY)) + forged)
    torn = bytearray(encode_batch(MARK, 1, [entry]))
    assert torn[ALIGNMENT : ALIGNMENT + len(forged)] == forged
    torn[0] ^= 1
    torn[1] ^= 1
    assert list(read_batches(HEADER + torn)) == []


def test_a_journal_without_a_sound_header_has_no_batches() -> None:
    batch = encode_batch(MARK, 1, ENTRIES)
    assert list(read_batches(bytes(START) + batch)) == []
    assert list(read_batches(b"")) == []


def test_a_journal_is_made_without_batches_and_cleared(tmp_path: Path) -> None:
    path = tmp_path / "millstream-0000000001.journal"
    descriptor = make_journal(str(path), 4 * ALIGNMENT, MARK)
    empty = path.read_bytes()
    assert empty == HEADER + bytes(3 * ALIGNMENT)
    os.pwrite(descriptor, encode_batch(MARK, 1, ENTRIES), START)
    assert len(list(read_batches(path.read_bytes()))) == 1
    clear_journal(descriptor, 4 * ALIGNMENT)
    assert path.read_bytes() == empty
    os.close(descriptor)
    with pytest.raises(FileExistsError):
        make_journal(str(path), ALIGNMENT, MARK)


# -- what a start puts back -----------------------------------------------------------------------


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("seed", range(6))
def test_what_a_power_cut_took_is_put_back(keep: Keep, seed: int) -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    expected = []
    for number in range(12):
        expected.append(b"%d" % number * 200)
        life.put(expected[-1])
        life.commit(sync=number == 0)
    write_journal(fs, *life.batches)
    survivor = fs.crash(keep, Random(seed))
    assert replay(survivor, "store", always).done == [1]
    assert bodies(survivor) == expected
    again = survivor.crash(Keep.NOTHING, Random(1))  # it is durable without the journal
    again.lose(journal_path("store", 1))
    assert bodies(again) == expected


@pytest.mark.parametrize("keep", Keep)
def test_the_first_file_of_a_log_is_made_again(keep: Keep) -> None:
    for seed in range(6):
        fs = CrashFileSystem()
        life = JournaledLog(fs)
        for number in range(3):
            life.put(b"%d" % number)
            life.commit(sync=False)
        write_journal(fs, *life.batches)
        survivor = fs.crash(keep, Random(seed))
        replay(survivor, "store", always)
        assert bodies(survivor) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("after", range(1, 8))
def test_a_file_that_the_journal_vouches_for_is_not_lost_when_the_next_one_is_begun(after: int) -> None:
    for seed in range(20):
        fs = CrashFileSystem()
        life = JournaledLog(fs, segment_size=400)
        life.put(b"0" * 500)
        life.commit(sync=False)
        write_journal(fs, *life.batches)
        life.put(b"1" * 500)
        fs.cut_power_at(fs.operations + after)
        with contextlib.suppress(PowerCut):
            life.commit(sync=True)
        survivor = fs.crash(Keep.SECTORS, Random(seed))
        replay(survivor, "store", always)
        log = open_log(survivor, FOLDER)
        assert log.get(1, Record())


def test_bytes_that_only_memory_has_are_written_again() -> None:
    """A sync failed, the process ended, and its successor reads what is nowhere else."""
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    life.put(b"x" * 2000)
    life.commit(sync=False)
    write_journal(fs, *life.batches)
    for inode in fs._names.values():
        inode.forget()
    successor = fs.kill()
    replay(successor, "store", always)
    assert bodies(successor.crash(Keep.NOTHING, Random(1))) == [b"x" * 2000]


@pytest.mark.parametrize("damaged", [0, 1, 2, 3])
def test_a_damaged_batch_costs_its_own_messages_and_they_are_reported(damaged: int) -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    life.put(b"durable" * 10)
    life.commit(sync=True)
    for number in range(4):
        life.put(b"%d" % number * 300)
        life.commit(sync=False)
    broken = bytearray(life.batches[damaged])
    broken[100] ^= 1
    broken[200] ^= 1  # one byte is mended
    life.batches[damaged] = bytes(broken)
    write_journal(fs, *life.batches)
    survivor = fs.crash(Keep.NOTHING, Random(1))
    replay(survivor, "store", always)
    log = open_log(survivor, FOLDER)
    seqs = [1, *(number + 2 for number in range(4) if number != damaged)]
    assert list(log.sequences(1, log.last_seq)) == seqs
    assert log.losses.messages == (damaged != 3)  # nothing tells of the last one


def test_a_second_power_cut_while_a_journal_is_replayed_changes_nothing() -> None:
    for cut in range(1, 6):
        fs = CrashFileSystem()
        life = JournaledLog(fs)
        for number in range(4):
            life.put(b"%d" % number * 300)
            life.commit(sync=False)
        write_journal(fs, *life.batches)
        survivor = fs.crash(Keep.NOTHING, Random(cut))
        survivor.cut_power_at(cut)
        try:
            replay(survivor, "store", always)
        except BaseException:
            survivor = survivor.crash(Keep.SECTORS, Random(cut))
            replay(survivor, "store", always)
        assert bodies(survivor) == [b"%d" % number * 300 for number in range(4)]


def test_a_message_that_was_erased_since_is_not_put_back() -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    life.put(b"stays", b"secret")
    life.commit(sync=False)
    life.log.erase(2)
    life.commit(sync=True)
    write_journal(fs, *life.batches)
    survivor = fs.crash(Keep.NOTHING, Random(1))
    replay(survivor, "store", always)
    assert b"secret" not in survivor.read_all(f"{FOLDER}/0000000001.log")
    assert bodies(survivor) == [b"stays"]


def test_only_the_newest_segment_is_looked_at() -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs, segment_size=300)
    life.put(b"a" * 400)
    life.commit(sync=False)
    life.put(b"b")
    life.commit(sync=True)  # another segment: the one before was synced with it
    fs.damage(f"{FOLDER}/0000000001.log", lambda data: data.__setitem__(100, 0))
    damaged = fs.read_all(f"{FOLDER}/0000000001.log")
    write_journal(fs, *life.batches)
    replay(fs, "store", always)
    assert fs.read_all(f"{FOLDER}/0000000001.log") == damaged


def test_a_stream_of_the_same_name_gets_nothing_of_the_one_before() -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    life.put(b"1")
    life.commit(sync=False)
    write_journal(fs, *life.batches)
    survivor = fs.crash(Keep.NOTHING, Random(1))
    asked = []

    def is_there(log: str, identity: str) -> bool:
        asked.append((log, identity))
        return False

    assert replay(survivor, "store", is_there).done == [1]
    assert asked == [(FOLDER, "id")]
    assert bodies(survivor) == []


def test_journals_of_a_log_that_cannot_be_written_are_kept() -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    for number in range(2):
        life.put(b"%d" % number)
        life.commit(sync=False)
    write_journal(fs, life.batches[0], number=3)
    write_journal(fs, life.batches[1], number=4)
    write_journal(fs, encode_batch(MARK, 1, [Entry(b"gone\0", 1, 0, b"x")]), number=5)
    survivor = fs.crash(Keep.NOTHING, Random(1))
    survivor.fail(errno.EIO, kind="create", suffix="0000000001.log")
    assert journals(survivor, "store") == [3, 4, 5]
    assert replay(survivor, "store", lambda log, _: log == FOLDER).done == [5]
    survivor.heal()
    assert replay(survivor, "store", always).done[:2] == [3, 4]
    assert bodies(survivor) == [b"0", b"1"]


def test_a_journal_that_cannot_be_read_stops_the_start() -> None:
    fs = CrashFileSystem()
    write_journal(fs, encode_batch(MARK, 1, ENTRIES))

    def read_all(path: str) -> bytes:
        raise StoreError("read", path, "Input/output error")

    fs.read_all = read_all  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="move it away"):
        replay(fs, "store", always)


@pytest.mark.parametrize(
    "path", ["../../streams/S/log", "A/streams/../log", "A/streams/S/elsewhere", "S/log"]
)
def test_only_logs_within_the_store_are_written(path: str) -> None:
    fs = CrashFileSystem()
    entry = Entry(f"{path}\0id".encode(), 1, 0, file_header(1))
    write_journal(fs, encode_batch(MARK, 1, [entry]))
    before = list(fs.transcript)
    assert replay(fs, "store", always).done == [1]
    assert fs.transcript == before


def test_entries_are_put_back_whatever_the_clock_said() -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    for number in range(4):
        life.put(b"%d" % number)
        life.commit(sync=False)
    entries = [entry for batch in life.batches for _, [entry] in read_batches(HEADER + batch)]
    backwards = [encode_batch(MARK, 100 - number, [entry]) for number, entry in enumerate(entries)]
    write_journal(fs, *backwards)
    survivor = fs.crash(Keep.NOTHING, Random(1))
    replay(survivor, "store", always)
    assert bodies(survivor) == [b"0", b"1", b"2", b"3"]


def test_no_journal_is_made_on_a_disk_that_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = os.statvfs(tmp_path)
    few = about.f_bavail * about.f_frsize
    monkeypatch.setattr(commit_journal, "_ROOM_LEFT", few + 1)
    with pytest.raises(OSError, match="No space left"):
        make_journal(str(tmp_path / "j"), ALIGNMENT, MARK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1, 5, 400])
def test_what_the_log_wrote_since_is_kept(size: int) -> None:
    fs = CrashFileSystem()
    life = JournaledLog(fs)
    life.put(b"first")
    life.commit(sync=True)
    life.put(b"lost!", b"lost!")
    life.commit(sync=False)
    write_journal(fs, *life.batches)
    survivor = fs.crash(Keep.NOTHING, Random(1))
    again = JournaledLog(survivor)  # the journal could not be read, and the log went on without it
    again.put(b"n" * size)
    again.commit(sync=True)
    replay(survivor, "store", always)
    assert bodies(survivor)[:2] == [b"first", b"n" * size]
