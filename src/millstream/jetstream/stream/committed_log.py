"""The interface between the committer and the owner of a log: a stream, or the journal of its consumers.

The committer calls a method for each step of a commit.  Here these methods do nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.store.log import Log


class Committing:
    """The base class of owners of a log."""

    def __init__(self, log: Log, journal_key: bytes, *, in_memory: bool, sync: bool) -> None:
        self.log = log
        self.journal_key = journal_key  # what the commit journal calls its log; empty: it is never used
        self.in_memory = in_memory
        self.sync = sync  # a commit is only done when it is on disk
        self.prepares = False  # ``before_commit`` has something to say

    def commit_begins(self) -> None:
        """Assign everything collected so far to this commit."""

    def before_commit(self) -> Callable[[], None] | None:
        """Return a function to call first, in the thread that writes, or None.

        If it raises, the commit fails.
        """
        return None

    def commit_waits(self) -> None:
        """React to a commit that cannot begin because the last one has not ended."""

    def commit_durable(self) -> None:
        """Set aside the acks and callbacks of the commit, because the next one may begin now."""

    def commit_ended(self) -> None:
        """Send the acks and call the callbacks that ``commit_durable`` set aside."""

    def commit_failed(self, error: Exception) -> None:
        """React to a failed commit; its records are kept for a retry."""
