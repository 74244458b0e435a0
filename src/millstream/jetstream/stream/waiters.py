"""Callbacks that wait for commits of one log.

Each waits for the commit that has everything done so far.  The next commit may begin before the callbacks of
the last one are called, and thousands of callbacks may be called a few at a time:

    add ──▶ (commit_begins) ──▶ commit_durable ──▶ tell_durable
                            └─▶ (failed)       ──▶ tell_failed: only `on_outcome` gets the error
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from millstream.base import guard
from millstream.store.errors import StoreError
from millstream.store.log import Log

Outcome = Callable[[StoreError | None], None]

ALL: Final = 1 << 60  # callbacks


class Waiters:
    """The callbacks that wait for commits of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begun = 0  # commits
        self._durable = 0  # the last of them that is durable
        # The number of a commit, and one of two callbacks; the numbers rise.
        self._waiting: deque[tuple[int, Callable[[], None] | None, Outcome | None]] = deque()

    def on_durable(self, callback: Callable[[], None]) -> None:
        """Call back when everything done so far is durable, however many attempts that takes."""
        self._waiting.append((self._next(), callback, None))

    def on_outcome(self, callback: Outcome) -> None:
        """Call back with None when everything done so far is durable, or with the error of an attempt."""
        self._waiting.append((self._next(), None, callback))

    def _next(self) -> int:
        """Return the number of the commit that has everything done so far: the running one, or the next."""
        if self._begun > self._durable and not self._log.has_uncommitted():
            return self._begun
        return self._begun + 1

    def commit_begins(self) -> None:
        """Record that a commit begins, with everything done so far."""
        self._begun += 1

    def commit_durable(self) -> None:
        """Record that the commit that began last is durable."""
        self._durable = self._begun

    def tell_durable(self, most: int = ALL) -> bool:
        """Call those whose commit is durable, in order and at most so many; return True if some are left.

        Callbacks may call this, too.
        """
        durable = self._durable
        while self._waiting and self._waiting[0][0] <= durable:
            if most <= 0:
                return True
            most -= 1
            _, callback, outcome = self._waiting.popleft()
            if callback is not None:
                guard.alone("what follows a commit", callback)
            elif outcome is not None:
                guard.alone("what follows a commit", outcome, None)
        return False

    def tell_failed(self, error: StoreError) -> None:
        """Pass an error to everybody who wants the outcome of a commit that is not durable."""
        waiting, self._waiting = self._waiting, deque()
        failed = []
        for each in waiting:
            if each[0] <= self._durable or each[2] is None:
                self._waiting.append(each)
            else:
                failed.append(each[2])
        for outcome in failed:
            guard.alone("telling of a failed commit", outcome, error)

    def drop(self) -> None:
        """Forget everybody."""
        self._waiting = deque()
