"""The interface between the committer and the owner of a log: a stream, or the journal of its consumers.

The committer calls a method for each step of a commit.  An owner adds what it does itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.jetstream.stream.waiters import Outcome, Waiters
from millstream.store.log import Log

if TYPE_CHECKING:
    from millstream.jetstream.stream.committer import Committer

TOLD_AT_ONCE = 8  # callbacks between two looks at the clock


class Committing:
    """The base class of owners of a log."""

    def __init__(
        self, committer: Committer, log: Log, journal_key: bytes, *, in_memory: bool, sync: bool
    ) -> None:
        self.committer = committer
        self.log = log
        self.waiters = Waiters(log)
        self.journal_key = journal_key  # what the commit journal calls its log; empty: it is never used
        self.in_memory = in_memory
        self.sync = sync  # a commit is only done when it is on disk
        self.prepares = False  # ``before_commit`` has something to say

    def is_dirty(self) -> None:
        """Have what gathered committed."""
        self.committer.dirty(self)

    def on_durable(self, callback: Callable[[], None]) -> None:
        """Call back when everything done so far is durable, however many attempts that takes."""
        self.waiters.on_durable(callback)
        self.is_dirty()

    def on_outcome(self, callback: Outcome) -> None:
        """Call back with None when everything done so far is durable, or with the error of an attempt."""
        self.waiters.on_outcome(callback)
        self.is_dirty()

    # -- the steps of a commit --------------------------------------------------------------------

    def commit_begins(self) -> None:
        """Assign everything collected so far to this commit."""
        self.waiters.commit_begins()

    def before_commit(self) -> Callable[[], None] | None:
        """Return a function to call first, in the thread that writes, or None.

        If it raises, the commit fails.
        """
        return None

    def commit_waits(self) -> None:
        """React to a commit that cannot begin because the last one has not ended."""

    def commit_durable(self) -> None:
        """Set aside the acks and callbacks of the commit, because the next one may begin now."""
        self.waiters.commit_durable()

    def commit_ended(self) -> None:
        """Send the acks and call the callbacks that ``commit_durable`` set aside."""
        self.tell_waiters()

    def tell_waiters(self) -> None:
        """Call those who wait for a commit that is durable; if there are many, the rest later."""
        if self.waiters.tell_durable(TOLD_AT_ONCE):
            self.committer.tell_rest(self)

    def commit_failed(self, error: Exception) -> None:
        """React to a failed commit; its records are kept for a retry."""

    # -- for the commit journal, on which the log relies while its files are not synced (``ports.Vouched``) --

    def was_synced(self) -> None:
        """Record that the journal has synced everything written to the log."""
        self.log.was_synced()

    def sync_soon(self) -> None:
        """Sync everything of the log that relies on the journal."""
        self.committer.sync_soon(self)
