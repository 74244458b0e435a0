"""Callbacks that wait for commits are called once, in order, and for the right commit."""

from __future__ import annotations

from millstream.jetstream.stream.waiters import Waiters
from millstream.store.commit import Commit
from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFileSystem
from millstream.store.recovery import open_log

FAILED = StoreError("write", "a file", "it is full")


class Desk:
    """A log, its waiters, and what they were told."""

    def __init__(self) -> None:
        self.log = open_log(MemoryFileSystem(), "log")
        self.waiters = Waiters(self.log)
        self.told: list[tuple[str, StoreError | None]] = []

    def put(self) -> None:
        self.log.append(b"a", b"x", 0, 0, 1, 1, 0)

    def durable(self, name: str) -> None:
        self.waiters.on_durable(lambda: self.told.append((name, None)))

    def outcome(self, name: str) -> None:
        self.waiters.on_outcome(lambda error: self.told.append((name, error)))

    def begin(self) -> Commit:
        commit = self.log.begin_commit()
        assert commit is not None
        self.waiters.commit_begins()
        return commit

    def end(self, commit: Commit) -> None:
        commit.run()
        self.log.end_commit(commit)
        self.waiters.commit_durable()

    def fail(self, commit: Commit) -> None:
        self.log.fail_commit(commit)
        self.waiters.tell_failed(FAILED)


def test_each_is_called_once_and_in_order() -> None:
    desk = Desk()
    desk.put()
    desk.outcome("a")
    desk.durable("b")
    desk.outcome("c")
    desk.waiters.tell_durable()
    assert desk.told == []
    desk.end(desk.begin())
    desk.waiters.tell_durable()
    desk.waiters.tell_durable()
    assert desk.told == [("a", None), ("b", None), ("c", None)]


def test_whoever_comes_during_a_commit_waits_for_what_it_did_itself() -> None:
    desk = Desk()
    desk.put()
    commit = desk.begin()
    desk.durable("of the running one")
    desk.put()
    desk.durable("of the next")
    desk.end(commit)
    following = desk.begin()  # before anybody is told
    desk.waiters.tell_durable()
    assert desk.told == [("of the running one", None)]
    desk.end(following)
    desk.waiters.tell_durable()
    assert desk.told[1:] == [("of the next", None)]


def test_a_failure_reaches_those_who_want_the_outcome_and_no_others() -> None:
    desk = Desk()
    desk.put()
    desk.outcome("a")
    desk.durable("b")
    commit = desk.begin()
    desk.put()
    desk.outcome("c")
    desk.fail(commit)
    assert desk.told == [("a", FAILED), ("c", FAILED)]
    desk.end(desk.begin())
    desk.waiters.tell_durable()
    assert desk.told[2:] == [("b", None)]


def test_what_is_durable_does_not_fail_with_the_next_commit() -> None:
    desk = Desk()
    desk.put()
    desk.outcome("a")
    desk.end(desk.begin())
    desk.put()
    desk.outcome("b")
    desk.fail(desk.begin())
    assert desk.told == [("b", FAILED)]
    desk.waiters.tell_durable()
    assert desk.told[1:] == [("a", None)]


def test_without_anything_to_commit_the_next_outcome_counts() -> None:
    """A stream whose folder is not made yet has nothing to write."""
    desk = Desk()
    desk.outcome("a")
    desk.waiters.tell_failed(FAILED)
    assert desk.told == [("a", FAILED)]


def test_one_that_raises_does_not_keep_the_others_from_being_called() -> None:
    desk = Desk()

    def fail() -> None:
        raise RuntimeError("a callback of this test")

    desk.put()
    desk.waiters.on_durable(fail)
    desk.durable("b")
    desk.end(desk.begin())
    desk.waiters.tell_durable()
    assert desk.told == [("b", None)]
