"""The log against a dict: any operations in any order, commits that fail, and power that is cut.

Segments are tiny, so that rolling, dropping, summaries, compaction and compression happen all the time.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from millstream.store.block_file import open_segment_file
from millstream.store.commit import Commit
from millstream.store.compaction import Compaction
from millstream.store.compression import Compression
from millstream.store.cursor import Cursor
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem, MemoryFileSystem, RealFileSystem
from millstream.store.log import Log
from millstream.store.losses import Damage
from millstream.store.record import Record
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.naive.log import Message, NaiveLog

SUBJECTS = st.sampled_from([b"a", b"b", b"a.b", b"a.c", b"a.b.c", b"x.y.z", b"x.y"])
PATTERNS = st.sampled_from([b">", b"a", b"a.*", b"a.>", b"*", b"*.b", b"*.*.*", b"x.y.z", b"none", b"none.>"])
SIZES = st.sampled_from([0, 1, 8, 40, 40, 40, 200, 900])
BLOCK_SIZES = st.sampled_from([0, 64, 500])  # 0: segments are not compressed


class LogMachine(RuleBasedStateMachine):
    """A log on files in memory; subclasses use other file systems."""

    def make_fs(self) -> FileSystem:
        return MemoryFileSystem()

    folder = "s"

    @initialize(
        segment_size=st.sampled_from([100, 300, 700, 2000]),
        first_seq=st.sampled_from([1, 1, 1000]),
        block_size=BLOCK_SIZES,
    )
    def start(self, segment_size: int, first_seq: int, block_size: int) -> None:
        self.fs = self.make_fs()
        self.segment_size = segment_size
        self.block_size = block_size
        self.now = 1000
        self.serial = 0
        self.begins_with = first_seq
        self.log: Log = self.open()
        self.model = NaiveLog({}, first_seq - 1)
        self.durable = self.model.copy()  # what a crash must leave
        self.stored: dict[int, Message] = {}  # every message ever appended
        self.commit: Commit | None = None
        self.commit_holds = self.model
        self.compaction: Compaction | Compression | None = None
        self.erased: list[bytes] = []  # bodies that a synced commit has destroyed
        self.erasing: list[bytes] = []
        self.commit_erases: list[bytes] = []
        self.cursor = Cursor(self.log, 1)
        self.known_damages: list[Damage] = []

    def open(self) -> Log:
        return open_log(
            self.fs,
            self.folder,
            segment_size=self.segment_size,
            first_seq=self.begins_with,
            block_size=self.block_size,
        )

    # -- changing ---------------------------------------------------------------------------------

    @rule(
        subject=SUBJECTS,
        header_size=st.sampled_from([0, 0, 12]),
        size=SIZES,
        step=st.sampled_from([0, 1, 10, 10, -25]),
        times=st.integers(1, 6),
    )
    def append(self, subject: bytes, header_size: int, size: int, step: int, times: int) -> None:
        for _ in range(times):
            self.now += step
            self.serial += 1
            body = b"<%06d>" % self.serial * (size // 8 + 1)
            message = Message(subject, b"h" * header_size, body[:size], self.now)
            source = b"before" + message.headers + message.body + b"behind"
            marks = 1 if header_size else 0
            total = header_size + size
            seq = self.log.append(subject, source, 6, header_size, total, self.now, marks)
            assert seq == self.model.append(message)
            self.stored[seq] = message

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(self.model.first_seq - 1, self.model.last_seq + 2))
        assert self.log.remove(seq) == (self.model.live.pop(seq, None) is not None)

    @precondition(lambda self: self.model.live)
    @rule(data=st.data(), count=st.integers(1, 12))
    def remove_the_first(self, data: st.DataObject, count: int) -> None:
        for seq in sorted(self.model.live)[:count]:
            assert self.log.first_seq == seq
            assert self.log.remove(seq)
            del self.model.live[seq]

    @precondition(lambda self: len(self.model.live) > 4)
    @rule(keep=st.integers(2, 5))
    def remove_most(self, keep: int) -> None:
        """Scattered removals, so that there is something to compact."""
        for seq in [seq for index, seq in enumerate(sorted(self.model.live)) if index % keep]:
            assert self.log.remove(seq)
            del self.model.live[seq]

    @rule(data=st.data())
    def remove_below(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(max(self.model.first_seq - 1, 0), self.model.last_seq + 3))
        assert self.log.remove_below(seq) == self.model.remove_below(seq)

    @rule(pattern=PATTERNS, data=st.data())
    def remove_matching(self, pattern: bytes, data: st.DataObject) -> None:
        below = data.draw(st.integers(max(self.model.first_seq - 1, 0), self.model.last_seq + 3))
        assert self.log.remove_matching(pattern, below) == self.model.remove_matching(pattern, below)

    @precondition(lambda self: self.model.live)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.model.live)))
        assert self.log.erase(seq)
        body = self.model.live.pop(seq).body
        if len(body) >= 8:
            self.erasing.append(body)

    @rule(jump=st.sampled_from([1, 3, 100, 1 << 33]))
    def skip(self, jump: int) -> None:
        self.model.last_seq += jump
        self.log.skip_to(self.model.last_seq, self.now)

    # -- committing -------------------------------------------------------------------------------

    @precondition(lambda self: self.commit is None)
    @rule(flush=st.booleans())
    def begin_commit(self, flush: bool) -> None:
        uncommitted = self.log.uncommitted
        self.commit = self.log.begin_commit(flush=flush)
        assert self.commit is not None or not uncommitted
        if self.commit is not None:
            self.commit_holds = self.model.copy()
            self.commit_erases, self.erasing = self.commit_erases + self.erasing, []

    @precondition(lambda self: self.commit is not None)
    @rule(sync=st.sampled_from([True, True, True, False]))
    def end_commit(self, sync: bool) -> None:
        assert self.log.committing
        commit, self.commit = self.commit, None
        commit.run(sync=sync)
        self.log.end_commit(commit)
        if commit.synced:
            self.durable = self.commit_holds
            self.erased += self.commit_erases
            self.commit_erases = []
        assert self.log.committed == self.commit_holds.last_seq

    def commit_all(self) -> None:
        if self.commit is not None:
            self.end_commit(sync=True)
        while self.log.uncommitted:
            self.begin_commit(flush=False)
            self.end_commit(sync=True)
        self.begin_commit(flush=True)
        if self.commit is not None:
            self.end_commit(sync=True)

    # -- compacting -------------------------------------------------------------------------------

    @rule(block_size=BLOCK_SIZES)
    def switch_compression(self, block_size: int) -> None:
        self.log.upkeep.block_size = self.block_size = block_size

    @precondition(lambda self: self.compaction is None)
    @rule()
    def begin_compaction(self) -> None:
        candidate = self.log.upkeep.candidate()
        if candidate is not None:
            self.compaction = self.log.upkeep.begin_job(candidate)

    @precondition(lambda self: self.compaction is not None)
    @rule(run=st.booleans())
    def end_compaction(self, run: bool) -> None:
        assert self.log.upkeep.candidate() is None
        compaction, self.compaction = self.compaction, None
        if run:
            compaction.run()
        assert self.log.end_job(compaction) in ((True, False) if run else (False,))

    # -- opening again ----------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        if self.compaction is not None:
            self.end_compaction(run=True)
        self.commit_all()
        self.log.close()
        self.log = self.open()
        assert self.log.losses.damages == [] or self.known_damages
        self.known_damages = list(self.log.losses.damages)
        self.now = max(self.now, self.log.last_timestamp)
        self.cursor = Cursor(self.log, self.cursor.seq)

    # -- looking ----------------------------------------------------------------------------------

    def read(self, seq: int) -> Message | None:
        record = Record()
        if not self.log.peek(seq, record):
            assert not self.log.get(seq, record)
            return None
        assert self.log.get(seq, record) == (seq <= self.log.committed)
        if seq > self.log.committed:
            assert self.log.peek(seq, record)
        assert record.seq == seq
        return Message(record.subject(), record.headers(), record.payload(), record.timestamp)

    @rule()
    def read_everything(self) -> None:
        found = {seq: self.read(seq) for seq in self.log.sequences(0, self.log.last_seq)}
        assert found == self.model.live

    @rule(pattern=PATTERNS, data=st.data())
    def search(self, pattern: bytes, data: st.DataObject) -> None:
        seq = data.draw(st.integers(max(self.model.first_seq - 2, 0), self.model.last_seq + 2))
        assert self.log.next_match(seq, pattern) == self.model.next_match(seq, pattern)
        assert self.log.last_match(seq, pattern) == self.model.last_match(seq, pattern)
        matching = self.model.matching(pattern)
        if b"*" not in pattern and b">" not in pattern:
            assert self.log.first_of(pattern) == min(matching, default=0)
            assert self.log.last_of(pattern) == max(matching, default=0)

    @rule(data=st.data())
    def search_by_time(self, data: st.DataObject) -> None:
        timestamp = data.draw(st.integers(990, max(self.now, 1000) + 30))
        assert self.log.seq_at_time(timestamp) == self.model.seq_at_time(timestamp)

    @rule(patterns=st.sets(PATTERNS, max_size=3), data=st.data())
    def walk(self, patterns: set[bytes], data: st.DataObject) -> None:
        seq = data.draw(st.integers(0, self.model.last_seq + 2))
        wanted = {each for pattern in patterns or {b">"} for each in self.model.matching(pattern)}
        cursor = Cursor(self.log, seq, tuple(patterns))
        assert walk(cursor) == {
            each: self.model.live[each] for each in sorted(wanted) if seq <= each <= self.log.committed
        }
        assert cursor.seq > seq or not walk(cursor)

    @rule(steps=st.integers(1, 9))
    def step_on(self, steps: int) -> None:
        """A cursor that lives on while everything else happens never skips what is still there."""
        record = Record()
        for _ in range(steps):
            before = self.cursor.seq
            moved = self.cursor.next(record)
            passed = [seq for seq in self.model.live if before <= seq < self.cursor.seq]
            assert passed == ([record.seq] if moved else [])

    @invariant()
    def counts_agree(self) -> None:
        log, model = self.log, self.model
        assert (log.messages, log.last_seq, log.first_seq) == (
            len(model.live),
            model.last_seq,
            model.first_seq,
        )
        assert log.record_bytes == model.bytes
        assert log.with_headers == sum(1 for message in model.live.values() if message.headers)
        counts: dict[bytes, int] = {}
        for message in model.live.values():
            counts[message.subject] = counts.get(message.subject, 0) + 1
        assert {subject: node.count for subject, node in log.index.match(b">")} == counts
        assert log.index.subjects == len(counts)
        assert log.losses.damages == self.known_damages

    def file_contents(self) -> list[bytes]:
        return [self.fs.read_all(f"{self.folder}/{name}") for name in self.fs.list(self.folder)]

    def unpacked_contents(self) -> list[bytes]:
        contents = []
        for name in self.fs.list(self.folder):
            if name.endswith(".log"):
                file = open_segment_file(self.fs, f"{self.folder}/{name}")
                contents.append(file.read(0, file.size()))
                file.close()
        return contents

    @invariant()
    def what_was_erased_is_nowhere(self) -> None:
        if self.erased:
            contents = self.file_contents() + self.unpacked_contents()
            assert not [body for body in self.erased if any(body in content for content in contents)]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            if self.compaction is not None:
                self.log.end_job(self.compaction)
            if self.commit is not None:
                self.log.fail_commit(self.commit)
            self.log.close()


def walk(cursor: Cursor) -> dict[int, Message]:
    record = Record()
    found = {}
    while cursor.next(record):
        found[record.seq] = Message(record.subject(), record.headers(), record.payload(), record.timestamp)
    return found


class RealLogMachine(LogMachine):
    """A log on the machine's own disk."""

    def make_fs(self) -> FileSystem:
        self.folder = tempfile.mkdtemp(prefix="millstream-log-")
        return RealFileSystem()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "log"):
            shutil.rmtree(self.folder)


class CrashLogMachine(LogMachine):
    """A log on a disk that fills up, fails and loses power."""

    fs: CrashFileSystem

    def make_fs(self) -> FileSystem:
        return CrashFileSystem()

    @precondition(lambda self: self.commit is not None)
    @rule(
        error=st.sampled_from([errno.ENOSPC, errno.EIO]),
        step=st.integers(1, 12),
        kind=st.sampled_from(["", "write", "sync", "sync_folder"]),
        space=st.one_of(st.none(), st.integers(0, 1500)),
        sync=st.sampled_from([True, True, False]),
    )
    def commit_with_trouble(self, error: int, step: int, kind: str, space: int | None, sync: bool) -> None:
        self.fs.fail(error, at=0 if kind else self.fs.operations + step, kind=kind)
        if space is not None:
            self.fs.space = sum(map(len, self.file_contents())) + space
        commit = self.commit
        try:
            commit.run(sync=sync)
        except StoreError:
            self.commit = None
            self.log.fail_commit(commit)
            self.fs.heal()
        else:
            self.fs.heal()
            self.end_commit(sync=sync)

    @precondition(lambda self: self.compaction is not None)
    @rule(step=st.integers(1, 6))
    def compact_with_trouble(self, step: int) -> None:
        self.fs.fail(errno.ENOSPC, at=self.fs.operations + step)
        compaction, self.compaction = self.compaction, None
        try:
            compaction.run()
        except StoreError:
            assert not self.log.end_job(compaction)
        else:
            self.log.end_job(compaction)
        self.fs.heal()

    @rule(
        steps=st.lists(st.integers(1, 14), min_size=1, max_size=3),
        keep=st.sampled_from(Keep),
        seed=st.integers(0, 1 << 30),
    )
    def lose_power(self, steps: list[int], keep: Keep, seed: int) -> None:
        """Cut the power in the middle of any operation, and perhaps again while the log is opened."""
        random = Random(seed)
        cut, *later = steps
        self.fs.cut_power_at(self.fs.operations + cut)
        try:
            if self.compaction is not None:
                self.end_compaction(run=True)
            if self.commit is None:
                self.begin_commit(flush=True)
            if self.commit is not None:
                self.end_commit(sync=True)
        except PowerCut:
            pass
        if self.commit is not None:
            self.commit_erases = []
        cut_while_opening = False
        for cut in later:
            self.fs = self.fs.crash(keep, random)
            self.fs.cut_power_at(self.fs.operations + cut)
            try:
                self.open()
            except PowerCut:
                cut_while_opening = True
        self.fs = self.fs.crash(keep, random)
        self.log = self.open()
        self.commit = self.compaction = None
        if not self.known_damages and not cut_while_opening and keep is not Keep.SECTORS:
            assert self.log.losses.damages == [], "a crash looks like damage"
        self.check_survivors()

    def check_survivors(self) -> None:
        log, durable = self.log, self.durable
        found = {seq: self.read(seq) for seq in log.sequences(0, log.last_seq)}
        for seq, message in durable.live.items():
            if seq in self.model.live:
                assert found.get(seq) == message, "a committed message is lost"
        for seq, message in found.items():
            assert message == self.stored[seq], "a message is not what was stored"
            assert seq in durable.live or seq > durable.last_seq, "a removed message came back"
        assert log.last_seq >= durable.last_seq, "sequences will be used again"
        self.known_damages = list(log.losses.damages)
        self.model = NaiveLog(found, log.last_seq)
        self.durable = self.model.copy()
        self.erasing = []
        self.commit_erases = []
        self.cursor = Cursor(log, 1)


_SHORT = settings(max_examples=25, stateful_step_count=40, deadline=None)
_LONG = settings(max_examples=1500, stateful_step_count=60, deadline=None)

TestMemoryLog = LogMachine.TestCase
TestMemoryLog.settings = _SHORT
TestRealLog = RealLogMachine.TestCase
TestRealLog.settings = _SHORT
TestCrashLog = CrashLogMachine.TestCase
TestCrashLog.settings = settings(_SHORT, max_examples=60)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("machine", [LogMachine, RealLogMachine, CrashLogMachine])
def test_the_log_agrees_with_the_model_for_long(machine: type[LogMachine]) -> None:
    run_state_machine_as_test(machine, settings=_LONG)
