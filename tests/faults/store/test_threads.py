"""Commits and compactions run in other threads while this one appends, reads and removes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from millstream.store.cursor import Cursor
from millstream.store.fs import FileSystem, MemoryFileSystem, RealFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log


def body_of(seq: int) -> bytes:
    return b"%d," % seq * (seq % 40 + 1)


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Loop:
    """Do to a log what an event loop does, without an event loop."""

    def __init__(self, log: Log, workers: ThreadPoolExecutor) -> None:
        self.log = log
        self.live: set[int] = set()
        self._workers = workers
        self._commit: Future[None] | None = None
        self._end_commit: Callable[[], object] = lambda: None
        self._compaction: Future[None] | None = None
        self._end_compaction: Callable[[], object] = lambda: None
        self.commits = 0
        self.compactions = 0

    def poll(self) -> None:
        """Take in what other threads have finished, and give them more to do."""
        if self._commit is not None and self._commit.done():
            self._commit.result()
            self._end_commit()
            self._commit = None
            self.commits += 1
        if self._compaction is not None and self._compaction.done():
            self._compaction.result()
            self.compactions += self._end_compaction() is True
            self._compaction = None
        if self._commit is None and (commit := self.log.begin_commit()) is not None:
            self._commit = self._workers.submit(commit.run)
            self._end_commit = lambda: self.log.end_commit(commit)
        if self._compaction is None and (segment := self.log.upkeep.candidate()) is not None:
            compaction = self.log.upkeep.begin_job(segment)
            self._compaction = self._workers.submit(compaction.run)
            self._end_compaction = lambda: self.log.end_job(compaction)

    def wait(self) -> None:
        if self._commit is not None:
            self._commit.result()

    def finish(self) -> None:
        while self._commit is not None or self._compaction is not None or self.log.uncommitted:
            for future in (self._commit, self._compaction):
                if future is not None:
                    future.result()
            self.poll()


@pytest.mark.parametrize("fs_kind", [RealFileSystem, MemoryFileSystem], ids=["real", "memory"])
@pytest.mark.parametrize("block_size", [0, 1000], ids=["plain", "compressed"])
def test_nothing_goes_wrong_while_other_threads_write(
    fs_kind: Callable[[], FileSystem], block_size: int, tmp_path: Path
) -> None:
    rounds(fs_kind(), f"{tmp_path}/log", 150, block_size)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block_size", [0, 1000], ids=["plain", "compressed"])
def test_nothing_goes_wrong_for_long(block_size: int, tmp_path: Path) -> None:
    rounds(RealFileSystem(), f"{tmp_path}/log", 10_000, block_size)


def rounds(fs: FileSystem, folder: str, commits: int, block_size: int) -> None:
    random = Random(3)
    log = open_log(fs, folder, segment_size=8_000, block_size=block_size)
    record = Record()
    with ThreadPoolExecutor(2) as workers:
        loop = Loop(log, workers)
        cursor = Cursor(log)
        filtered = Cursor(log, 1, (b"s.1",))
        while loop.commits < commits or loop.compactions < commits // 50:
            for _ in range(random.randrange(30)):
                seq = log.last_seq + 1
                body = body_of(seq)
                assert log.append(b"s.%d" % (seq % 3), body, 0, 0, len(body), seq, 0) == seq
                loop.live.add(seq)
            loop.poll()
            if log.last_seq - log.committed > 500:
                loop.wait()
            for _ in range(random.randrange(40)):
                if cursor.next(record):
                    assert record.payload() == body_of(record.seq)
                    assert record.seq in loop.live
                if filtered.next(record):
                    assert record.payload() == body_of(record.seq)
                    assert record.seq % 3 == 1
            for _ in range(random.randrange(8)):
                seq = random.randint(max(log.first_seq - 5, 0), log.last_seq + 2)
                if log.peek(seq, record):
                    assert record.payload() == body_of(seq)
            for _ in range(random.randrange(30)):
                seq = random.randint(log.first_seq, log.last_seq + 1)
                removed = log.erase(seq) if seq % 50 == 0 else log.remove(seq)
                assert removed == (seq in loop.live)
                loop.live.discard(seq)
            if len(loop.live) > 1500 or random.randrange(60) == 0:
                below = random.randint(log.first_seq, log.last_seq + 1)
                log.remove_below(below)
                loop.live = {seq for seq in loop.live if seq >= below}
        loop.finish()
    assert log.losses.damages == []
    check(log, loop.live)
    log.close()
    again = open_log(fs, folder, segment_size=8_000)
    check(again, loop.live)
    assert again.losses.damages == []
    again.close()


def check(log: Log, live: set[int]) -> None:
    cursor, record = Cursor(log), Record()
    seen = set()
    while cursor.next(record):
        assert record.payload() == body_of(record.seq)
        seen.add(record.seq)
    assert seen == live
    assert log.messages == len(live)


def test_closing_while_a_commit_runs_keeps_its_file_open_for_it(tmp_path: Path) -> None:
    """The file must not be closed under the thread that writes it."""
    fs = RealFileSystem()
    log = open_log(fs, f"{tmp_path}/log")
    log.append(b"a", b"body", 0, 0, 4, 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    arrived, go = threading.Event(), threading.Event()
    sync_folder = fs.sync_folder

    def waiting(path: str) -> None:
        arrived.set()
        assert go.wait(10)
        sync_folder(path)

    fs.sync_folder = waiting  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as workers:
        running = workers.submit(commit.run)
        assert arrived.wait(10)
        log.close()
        assert log.chain.segments[0].file is not None
        go.set()
        running.result()
    log.end_commit(commit)
    assert log.chain.segments[0].file is None
    again = open_log(fs, f"{tmp_path}/log")
    assert again.messages == 1
    again.close()
