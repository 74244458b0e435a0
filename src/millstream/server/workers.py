"""Threads that wait for the disk, so that the event loop does not.

Work goes to them through one queue, and ends with one callback on the loop.  Every batch of messages passes
from the loop to a thread and back, and its publishers wait for each step.  Most commits therefore go to
threads that need no interpreter lock (``disk_writers``).

Compiled, because every commit begins here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from millstream.jetstream.ports import NoJournal
from millstream.jetstream.stream.ticket import Ticket
from millstream.server.commit_journal import CommitJournal
from millstream.server.disk_writers import DiskWriters
from millstream.server.sync_pace import SyncPace

if TYPE_CHECKING:
    import asyncio

    from millstream.jetstream.ports import JournalOfCommits
    from millstream.jetstream.stream.committed_log import Committing
    from millstream.server.sync_pace import Served
    from millstream.store.commit import Commit

_NO_JOURNAL: Final = NoJournal()

_WORK_ENDED: Final = "end of work"

Work = Callable[[], None]
Done = Callable[[Exception | None], None]
Turn = Callable[..., None]  # given a kind and a callback: calls back, and sends what that left to be sent


def _call(_: str, callback: Callable[..., object], *arguments: object) -> None:
    callback(*arguments)


class Workers:
    """A few threads, started when there is work for them.

    If `served` is given, which is the state of the loop, the loop may write quick commits itself.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        most: int,
        name: str,
        turn: Turn = _call,
        served: Served | None = None,
    ) -> None:
        self._loop = loop
        self._most = most
        self._name = name
        self._turn = turn
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        pace = SyncPace(served, loop.time) if served is not None else None
        self._writers = DiskWriters(loop, most, f"{name}-plain", turn, pace)
        self._journal: CommitJournal | None = None
        self.journal: JournalOfCommits = _NO_JOURNAL
        self._busy = 0  # jobs whose end has not come back; only the loop's thread looks at it

    def submit(self, work: Work, done: Done) -> None:
        """Run `work` in a thread, then `done` in a turn of the loop, with the exception that it raised."""
        self._busy += 1
        if self._busy > len(self._threads) and len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            try:
                thread.start()
                self._threads.append(thread)
            except RuntimeError:
                if not self._threads:  # otherwise the others do it
                    self._busy -= 1
                    raise
        self._queue.put((work, done))

    def use_journal(
        self,
        folder: str,
        first_number: int,
        erase_within_s: Callable[[], float],
        before_made: Callable[[], None],
    ) -> None:
        """Use a commit journal in the folder of the store; its files have numbers from `first_number` on."""
        self.journal = self._journal = CommitJournal(
            self._loop,
            folder,
            first_number,
            self.submit,
            self._turn,
            erase_within_s=erase_within_s,
            before_made=before_made,
        )

    @property
    def ending_many(self) -> bool:
        """Return True if commits of many streams end in this turn, which flushes their output at its end."""
        return self._journal is not None and self._journal.ending

    def start(self, commit: Commit, owner: Committing, publisher: int) -> Ticket:
        """Implement ``Writers``.

        A few commits at a time have a writer each.  More of them share the sync of a journal.
        """
        ticket = Ticket(commit, owner, publisher)
        journal = self._journal
        if journal is not None and journal.busy and journal.take(ticket):
            return ticket
        if self._writers.write(ticket):
            return ticket
        if journal is None or not journal.take(ticket):
            self.submit(ticket.run, ticket.tell)
        return ticket

    def shutdown(self) -> None:
        """Return when all submitted work is done; callbacks that the loop has not run yet are dropped."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
            self.journal = _NO_JOURNAL
        self._writers.shutdown()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            work, done = job
            problem: Exception | None = None
            try:
                work()
            except Exception as error:
                problem = error
            try:
                self._loop.call_soon_threadsafe(self._end, done, problem)
            except RuntimeError:
                return  # the loop is closed: nobody is there to be told
            del job, work, done, problem  # nothing is kept alive while this waits

    def _end(self, done: Done, problem: Exception | None) -> None:
        self._busy -= 1
        self._turn(_WORK_ENDED, done, problem)
