"""Messages that are taken out of a log in pieces, and trees of subjects that are freed in pieces."""

from __future__ import annotations

import pytest

from millstream.base.slices import finish
from millstream.store import purge
from millstream.store.fs import MemoryFileSystem
from millstream.store.index import SubjectIndex, freeing
from millstream.store.log import Log
from millstream.store.recovery import open_log

SUBJECTS = 7


def filled(messages: int, segment_size: int = 400) -> Log:
    """Messages of some subjects in turn, in many segments."""
    log = open_log(MemoryFileSystem(), "log", segment_size=segment_size)
    for number in range(messages):
        add(log, b"s.%d" % (number % SUBJECTS))
    return log


def add(log: Log, subject: bytes) -> None:
    log.append(subject, b"x", 0, 0, 1, 1_000 + log.last_seq, 0)
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)


def counts(log: Log) -> dict[bytes, int]:
    return {subject: node.count for subject, node in log.index.match(b">")}


def test_each_subject_keeps_its_newest_messages() -> None:
    log = filled(70)
    assert len(log.chain.segments) > 3
    finish(purge.excess(log, 3))
    assert list(log.sequences(1, 70)) == list(range(50, 71))
    assert set(counts(log).values()) == {3}


@pytest.mark.parametrize("limit", [10, 11, 70])
def test_a_log_without_excess_is_not_looked_through(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(70)
    monkeypatch.setattr(purge, "_excess_in", None)
    finish(purge.excess(log, limit))
    assert log.messages == 70


def test_one_subject_that_has_too_many_is_found_among_others() -> None:
    log = filled(SUBJECTS)
    for _ in range(9):
        add(log, b"s.3")
    finish(purge.excess(log, 2))
    assert counts(log) == {b"s.%d" % number: 2 if number == 3 else 1 for number in range(SUBJECTS)}
    assert list(log.sequences(SUBJECTS + 1, log.last_seq)) == [log.last_seq - 1, log.last_seq]


def test_messages_that_come_and_go_meanwhile_are_counted() -> None:
    log = filled(70)
    pieces = purge.excess(log, 3)
    for step, _ in enumerate(pieces):
        if step % 5 == 0:
            add(log, b"s.%d" % (step % SUBJECTS))
        if step == 10:
            log.remove_below(30)
    assert max(counts(log).values()) <= 3 + 1  # what came behind the pass is for its own limit
    assert min(counts(log).values()) >= 3


def test_a_tree_of_subjects_is_freed_in_pieces() -> None:
    index = SubjectIndex()
    for number in range(1500):
        index.add(b"a.%d.%d.x" % (number % 40, number), number + 1)
    root = index.clear()
    assert (index.subjects, index.find(b"a.0.0.x")) == (0, None)
    pieces = list(freeing(root))
    assert len(pieces) > 3
    assert not root.children
    index.add(b"a.0.0.x", 1)
    assert index.subjects == 1
