"""Small commits overwrite zeros that were written ahead: power goes at each write and sync, bytes flip."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from millstream.store import commit as commit_module
from millstream.store import fill
from millstream.store.commit import Commit
from millstream.store.fs import RealFile
from millstream.store.log import Log
from millstream.store.record import HEADER_SIZE, end_mark, seq_in_mark
from millstream.store.recovery import open_log
from tests.kits.crashfs import SECTOR, CrashFile, CrashFileSystem, Keep, PowerCut
from tests.kits.store.scenario import read_all

SEGMENT = 8_000
SEEDS = {Keep.NOTHING: 1, Keep.EVERYTHING: 1, Keep.PREFIX: 4, Keep.SECTORS: 4}


@pytest.fixture(autouse=True)
def _fill_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_module, "RealFile", (RealFile, CrashFile))
    monkeypatch.setattr(fill, "LEAST_AHEAD", 2_000)
    monkeypatch.setattr(fill, "MOST_AHEAD", 2_000)
    monkeypatch.setattr(fill, "PAGE", SECTOR)


@dataclass
class FilledLife:
    """A log whose commits go the way of a ``DiskWriter`` where they can."""

    fs: CrashFileSystem
    random: Random = field(default_factory=lambda: Random(7))
    stored: dict[int, bytes] = field(default_factory=dict)
    live: dict[int, bytes] = field(default_factory=dict)
    durable: dict[int, bytes] = field(default_factory=dict)
    durable_last: int = 0
    plain: int = 0  # commits that went that way

    def open(self) -> None:
        self.log: Log = open_log(self.fs, "s", segment_size=SEGMENT)

    def put(self, *sizes: int) -> None:
        for size in sizes:
            body = self.random.randbytes(size)
            seq = self.log.append(b"a", body, 0, 0, size, self.log.last_seq, 0)
            self.stored[seq] = self.live[seq] = body

    def remove(self, seq: int) -> None:
        assert self.log.remove(seq)
        del self.live[seq]

    def commit(self) -> None:
        commit = self.log.begin_commit()
        if commit is None:
            return
        if not self._write_plainly(commit):
            commit.run()
        self.log.end_commit(commit)
        self.durable, self.durable_last = dict(self.live), self.log.last_seq

    def _write_plainly(self, commit: Commit) -> bool:
        """Do what a ``DiskWriter`` does, on a file whose power can be cut."""
        plain = commit.begin_plain()
        if plain is None:
            return False
        buffer = plain[1]
        file = commit.parts[0][0].file
        assert isinstance(file, CrashFile)
        buffer.seal()
        target, mark = fill.plan(buffer, True)
        file.write_at(buffer.base, buffer.peek() + mark)
        end = max(buffer.filled, buffer.base + buffer.size + len(mark))
        if target > end:
            file.write_at(end, bytes(target - end))
        buffer.filled = max(target, end)
        file.sync()
        commit.plain_ended(0, 0)
        self.plain += 1
        return True

    def run(self) -> None:
        """Small and large commits, removals, a segment that is full and one that ends early."""
        self.open()
        for sizes in ((10,), (10,), (400, 90), (700,), (1,), (486,), (460,), (1500, 3)):
            self.put(*sizes)
            self.commit()
        self.remove(3)
        self.commit()
        assert self.log.erase(2)  # not the way of a disk writer
        del self.live[2]
        self.commit()
        self.put(100)
        self.commit()
        for size in (900, 33, 2_500, 64, 1_000):  # rolls
            self.put(size)
            self.commit()
        self.put(50)
        self.commit()
        self.log.skip_to(self.log.last_seq + (1 << 33), 1)  # seals a segment that has zeros behind it
        self.put(20)
        self.commit()
        self.put(30)
        self.commit()

    def check(self) -> None:
        """Find what was committed, nothing that was removed, and no sequence twice."""
        found = read_all(self.log)
        for seq, body in found.items():
            assert body == self.stored[seq]
            assert seq in self.durable or seq > self.durable_last
        assert [seq for seq in self.durable if seq in self.live and seq not in found] == []
        assert self.log.last_seq >= self.durable_last


def whole_life() -> tuple[int, int]:
    life = FilledLife(CrashFileSystem())
    life.run()
    return life.fs.operations, life.plain


def test_most_commits_of_this_life_are_written_ahead_of_zeros() -> None:
    operations, plain = whole_life()
    assert operations > 50
    assert plain > 10


@pytest.mark.parametrize("keep", Keep)
def test_a_power_cut_at_every_operation_loses_nothing_committed(keep: Keep) -> None:
    for cut in range(1, whole_life()[0] + 1):
        for seed in range(SEEDS[keep]):
            fs = CrashFileSystem()
            fs.cut_power_at(cut)
            life = FilledLife(fs)
            with pytest.raises(PowerCut):
                life.run()
            life.fs = fs.crash(keep, Random(seed))
            life.open()
            life.check()
            if keep is not Keep.SECTORS:
                assert life.log.losses.damages == [], f"a crash at {cut} looks like damage"
            life.put(100, 600)
            life.commit()
            life.put(5)
            life.commit()
            before, last_seq = read_all(life.log), life.log.last_seq
            life.fs = life.fs.crash(Keep.NOTHING, Random(seed))
            life.open()
            assert read_all(life.log) == before, f"after a crash at {cut}"
            assert life.log.last_seq == last_seq


def test_a_process_that_is_killed_at_any_operation_leaves_no_damage() -> None:
    for cut in range(1, whole_life()[0] + 1):
        fs = CrashFileSystem()
        fs.cut_power_at(cut)
        life = FilledLife(fs)
        with pytest.raises(PowerCut):
            life.run()
        life.fs = fs.kill()
        life.open()
        life.check()
        assert life.log.losses.damages == [], f"killed at {cut}"


def filled_log(*sizes: int) -> FilledLife:
    life = FilledLife(CrashFileSystem())
    life.open()
    for size in sizes:
        life.put(size)
        life.commit()
    life.fs = life.fs.kill()
    return life


def only_path(fs: CrashFileSystem) -> str:
    (path,) = fs.paths()
    return path


def test_every_byte_that_flips_costs_at_most_its_own_message() -> None:
    sizes = (30, 40, 300, 20)
    whole = filled_log(*sizes)
    data = whole.fs.read_all(only_path(whole.fs))
    assert len(data) > 1_000
    for at in range(len(data)):
        life = filled_log(*sizes)
        life.fs.damage(only_path(life.fs), lambda data, at=at: data.__setitem__(at, data[at] ^ 0x40))  # type: ignore[misc]
        life.open()
        found = read_all(life.log)
        assert len(found) >= len(sizes) - 1, f"byte {at}"
        assert all(body == life.stored[seq] for seq, body in found.items())
        assert life.log.last_seq >= len(sizes), f"byte {at}: a sequence would be used twice"
        if len(found) < len(sizes):
            assert life.log.losses.damages, f"byte {at}: a loss is not told"


@pytest.mark.parametrize("kept", [1, 5, 11])
def test_committed_records_that_read_as_zeros_are_told_and_their_sequences_not_used_again(kept: int) -> None:
    life = filled_log(*[100] * 12)
    start, end = (life.log.chain.segments[0].end_of(seq - 1) for seq in (kept, 12))
    life.fs.damage(only_path(life.fs), lambda data: data.__setitem__(slice(start, end), bytes(end - start)))
    life.open()
    assert len(read_all(life.log)) == kept
    assert life.log.losses.messages == 12 - kept
    assert life.log.last_seq == 12  # the end mark tells


def test_an_end_mark_counts_only_where_it_was_written() -> None:
    mark = end_mark(5, 1_000)
    assert len(mark) == HEADER_SIZE
    assert seq_in_mark(bytes(1_000) + mark, 1_000) == 5
    assert seq_in_mark(bytes(999) + mark, 999) == 0
    assert seq_in_mark((bytes(1_000) + mark)[:-1], 1_000) == 0
    for at in range(HEADER_SIZE):
        changed = bytearray(mark)
        changed[at] ^= 1
        assert seq_in_mark(bytes(1_000) + bytes(changed), 1_000) == 0


def test_zeros_ahead_are_gone_when_a_log_is_closed() -> None:
    life = FilledLife(CrashFileSystem())
    life.open()
    life.put(10)
    life.commit()
    life.put(10)
    life.commit()
    path = only_path(life.fs)
    assert len(life.fs.read_all(path)) > life.log.chain.segments[0].size
    life.log.close()
    assert len(life.fs.read_all(path)) == life.log.chain.segments[0].size
