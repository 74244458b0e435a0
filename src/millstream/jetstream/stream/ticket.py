"""A commit that was handed over to be written: who is told when it has ended, and how to wait for that.

    ticket = writers.start(commit, owner, publisher)     # on the loop; the commit may have ended already
    ticket.then(ended)                                   # calls back on the loop, once
    ticket.finish()                                      # or waits; ``then`` still calls back later

Writers (``ports.Writers``) choose the fastest way that is free: a write at the end of a file and a sync, a
batch of the commit journal, or ``Commit.run`` in a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.worker_job import WorkerJob
from millstream.store.commit import Commit


class Ticket(WorkerJob):
    """One commit under way."""

    def __init__(self, commit: Commit, owner: Committing, publisher: int) -> None:
        WorkerJob.__init__(self, commit.run)
        self.commit = commit
        self.owner = owner  # of the log; it may have to rely on the commit journal
        self.publisher = publisher  # the client that made the owner wait
        self._told = False
        self._then: Callable[[Ticket], None] | None = None
        self._wait: Callable[[Any], None] | None = None  # for the write that is under way elsewhere

    def then(self, ended: Callable[[Ticket], None]) -> None:
        """Call `ended` when the commit has ended: now, or later from the loop."""
        if self._told:
            ended(self)
        else:
            self._then = ended

    def tell(self, error: Exception | None) -> None:
        """Report on the loop that the commit has ended."""
        self.error = self.error or error
        self._told = True
        then, self._then = self._then, None
        if then is not None:
            then(self)

    def finish(self) -> None:
        """Return when the commit has ended, wherever it is written."""
        if self._wait is not None:
            self._wait(self)
        WorkerJob.finish(self)

    # -- for writers ------------------------------------------------------------------------------

    def begun(self, wait: Callable[[Any], None]) -> None:
        """Record that a writer has the commit; `wait` blocks until it has finished."""
        self.take()
        self._wait = wait

    def turned_down(self) -> None:
        """Record that the commit journal did not write it: ``run`` follows."""
        self._wait = None
        self.give_back()

    def plain_ended(self, failed_write: int, failed_sync: int) -> None:
        """Record that a write and a sync have ended, with error numbers; 0 means success."""
        self._wait = None
        try:
            self.commit.plain_ended(failed_write, failed_sync)
        except Exception as error:
            self.error = error
        finally:
            self.set_ended()

    def journaled_ended(self) -> None:
        """Record that it is durable in the commit journal, and in the log's own file without a sync."""
        self._wait = None
        try:
            self.commit.journaled_ended()
        except Exception as error:
            self.error = error
        finally:
            self.set_ended()
