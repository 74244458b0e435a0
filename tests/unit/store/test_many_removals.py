"""Very many removals are written to the buffer of the next commit before it begins."""

from __future__ import annotations

from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log

COUNT = 10_000
GONE = 4500  # every second message below twice that


def opened(fs: MemoryFileSystem) -> Log:
    return open_log(fs, "s", segment_size=100_000)


def commit(log: Log) -> None:
    begun = log.begin_commit()
    assert begun is not None
    begun.run()
    log.end_commit(begun)


def filled(fs: MemoryFileSystem) -> Log:
    log = opened(fs)
    for number in range(1, COUNT + 1):
        log.append(b"a.%d" % (number % 7), b"", 0, 0, 0, number, 0)
    commit(log)
    return log


def remove_many(log: Log) -> None:
    for seq in range(2, 2 * GONE + 1, 2):
        assert log.remove(seq)
    assert 0 < len(log.next_commit.removing) < GONE


def test_they_are_gone_after_the_commit() -> None:
    fs = MemoryFileSystem()
    log = filled(fs)
    remove_many(log)
    commit(log)
    again = opened(fs)
    assert (again.messages, again.first_seq, again.last_seq) == (COUNT - GONE, 1, COUNT)
    assert list(again.sequences(1, 9)) == [1, 3, 5, 7, 9]


def test_without_a_commit_nothing_is_gone() -> None:
    fs = MemoryFileSystem()
    remove_many(filled(fs))
    assert opened(fs).messages == COUNT


def test_a_failed_commit_keeps_them_for_the_next() -> None:
    fs = MemoryFileSystem()
    log = filled(fs)
    remove_many(log)
    failed = log.begin_commit()
    assert failed is not None
    log.fail_commit(failed)
    commit(log)
    assert opened(fs).messages == COUNT - GONE
    assert log.begin_commit() is None


def test_the_first_messages_may_be_among_them() -> None:
    fs = MemoryFileSystem()
    log = filled(fs)
    for seq in range(1, GONE + 1):
        log.remove(seq)
    log.append(b"b", b"", 0, 0, 0, COUNT + 1, 0)
    commit(log)
    again = opened(fs)
    assert (again.messages, again.first_seq) == (COUNT - GONE + 1, GONE + 1)


def test_a_pattern_leaves_its_messages_in_the_buffer() -> None:
    fs = MemoryFileSystem()
    log = filled(fs)
    removed = sum(log.remove_matching(b"a.%d" % number, COUNT + 1) for number in range(4))
    assert len(log.next_commit.removing) < 4096 < removed
    commit(log)
    assert opened(fs).messages == COUNT - removed
