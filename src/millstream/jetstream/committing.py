"""What the committer knows of whoever has a log: a stream, or the journal of its consumers.

It hears of each step of a commit; here, nothing follows from any of them.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.store.log import Log


class Committing:
    """The base of all of them."""

    def __init__(self, log: Log, journal_key: bytes, *, in_memory: bool, sync: bool) -> None:
        self.log = log
        self.journal_key = journal_key  # what the commit journal calls its log; empty: it is never used
        self.in_memory = in_memory
        self.sync = sync  # a commit is only done when it is on disk
        self.prepares = False  # ``before_commit`` has something to say

    def commit_begins(self) -> None:
        """What has gathered so far belongs to this commit."""

    def before_commit(self) -> Callable[[], None] | None:
        """Return what is to be done first, in the thread that writes; if it fails, so has the commit."""
        return None

    def commit_waits(self) -> None:
        """There is more to commit, but the last commit has not ended yet."""

    def commit_durable(self) -> None:
        """The commit has ended: what belongs to it is set aside, because the next one may begin now."""

    def commit_ended(self) -> None:
        """Act on what was set aside."""

    def commit_failed(self, error: Exception) -> None:
        """Nothing of the commit counts; its records are kept for another try."""
