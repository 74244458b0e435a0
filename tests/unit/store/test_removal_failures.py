"""Removals that need a part of the log that cannot be read: what is left then can go another time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFile, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log

SUBJECTS = (b"a", b"b", b"a", b"c")
COUNT = 400


class BadDisk(MemoryFileSystem):
    """A disk from which nothing can be read while it is broken."""

    broken = False

    def open(self, path: str, *, create: bool) -> MemoryFile:
        self._check(path)
        return super().open(path, create=create)

    def read_all(self, path: str) -> bytes:
        self._check(path)
        return super().read_all(path)

    def _check(self, path: str) -> None:
        if self.broken:
            raise StoreError("read", path, "Input/output error", recoverable=True)


def commit(log: Log) -> None:
    begun = log.begin_commit()
    assert begun is not None
    begun.run()
    log.end_commit(begun)


def opened() -> tuple[BadDisk, Log]:
    """A log of many segments, of which only the last has its tables in memory."""
    disk = BadDisk()
    log = open_log(disk, "s", segment_size=1000)
    for number in range(COUNT):
        log.append(SUBJECTS[number % 4], b"x" * 50, 0, 0, 50, number + 1, 0)
        if number % 10 == 9:
            commit(log)
    log.close()
    log = open_log(disk, "s", segment_size=1000)
    assert len(log.chain.segments) > 20
    assert not log.chain.segments[1].loaded
    return disk, log


def seen(log: Log) -> tuple[object, ...]:
    sequences = list(log.sequences(1, log.last_seq))
    counts = {subject: node.count for subject, node in log.index.match(b">")}
    return log.first_seq, log.last_seq, log.messages, log.record_bytes, sequences, counts


@pytest.mark.parametrize(
    "remove",
    [
        lambda log: log.remove(100),
        lambda log: log.remove(1),
        lambda log: log.remove_below(100),
        lambda log: log.remove_below(COUNT),
        lambda log: log.remove_matching(b"a", COUNT + 1),
        lambda log: log.remove_matching(b">", 50),
    ],
    ids=["one", "first", "below", "nearly all", "subject", "pattern"],
)
@pytest.mark.parametrize("readable", [0, 1, 5])
def test_a_removal_that_failed_can_be_done_again(remove: Callable[[Log], object], readable: int) -> None:
    disk, log = opened()
    for segment in log.chain.segments[:readable]:
        log.reader.load(segment)
    disk.broken = True
    with contextlib.suppress(StoreError):
        remove(log)
    disk.broken = False
    sequences = list(log.sequences(1, COUNT))
    assert len(sequences) == log.messages
    assert log.remove(log.first_seq) or log.remove(log.first_seq)
    assert log.first_seq == sequences[1]
    remove(log)
    other = opened()[1]
    remove(other)
    other.remove(sequences[0])
    assert seen(log) == seen(other)
    commit(log)
    log.close()
    assert seen(open_log(disk, "s", segment_size=1000)) == seen(other)


def test_the_first_messages_go_one_by_one_as_far_as_can_be_read() -> None:
    disk, log = opened()
    log.reader.load(log.chain.segments[0])
    last = log.chain.segments[0].last_seq
    disk.broken = True
    for seq in range(1, last + 1):
        assert log.remove(seq)
    with pytest.raises(StoreError):
        log.remove(last + 1)
    assert (log.first_seq, log.messages) == (last + 1, COUNT - last)
    disk.broken = False
    assert log.remove(log.first_seq)
    assert log.first_seq == last + 2
