"""Write small commits of many streams through a journal, with one sync for each batch.

    take ──▶ gathering ──▶ one batch at a time (``JournalWriter``) ──▶ commits end, their logs are *unsynced*

``store.commit_journal`` describes the format and the replay after a crash; ``journal_files`` manages the two
files that are used in turn.  If both are in use, commits are written without the journal, which slows
publishers down to the speed of the disk.

Batches are small.  A commit that does not fit into the next batch waits with its stream
(``jetstream.stream.committer``), where publishers take turns.  The first commit of a publisher goes into the
next batch although that is full, and publishers take turns when the commits of a batch end: a client that
waits for the ack of each message does not wait for all messages of another client.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.jetstream.stream.fair_queue import FairQueue
from millstream.server.journal_files import JournalDisk, JournalFile, JournalFiles, Submit
from millstream.store.commit_journal import START
from millstream.store.journal_batch import ALIGNMENT, JournalBatch

if TYPE_CHECKING:
    import asyncio

    from millstream.jetstream.stream.ticket import Ticket
    from millstream.store.journal_writer import JournalWriter

_log = logging.getLogger("millstream.server")

Turn = Callable[..., None]  # given a kind and a callback: calls back, and sends what that left to be sent

_COMMITS_ENDED: Final = "commits ended"
_WRITTEN: Final = "a batch of commits"
_ROOM: Final = "beginning commits"

SIZE: Final = 64 * 1024 * 1024  # of a file
MOST_OF_ONE: Final = 64 * 1024  # bytes of a commit; larger ones are worth a sync of their own
_MOST_OF_A_BATCH: Final = 2 * 1024 * 1024
_MOST_IN_A_BATCH = 512  # commits
_PLACES_KEPT: Final = 64  # beyond those, for publishers that have none in the batch
_ENTRY_OVERHEAD: Final = 1024  # at most, of a commit in a batch: its key and numbers
_WORTH: Final = 32  # commits within a moment for which a journal is made
_MOMENT_S: Final = 1.0
_MANY: Final = 8  # commits at once, none of which is worth a sync of its own
_ENDS_BETWEEN_LOOKS: Final = 8  # at the clock
_LONGEST_STEP_S: Final = 0.0015  # in which publishers are answered before others have their turn


class _Gathered:
    """A batch, and the commits in it."""

    def __init__(self) -> None:
        self.batch = JournalBatch()
        self.tickets: list[Ticket] = []
        self.publishers: set[int] = set()

    def clear(self) -> None:
        self.batch.clear()
        self.tickets = []
        self.publishers.clear()


class CommitJournal:
    """The commit journal of a server, for all its streams; called on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        folder: str,
        first_number: int,
        submit: Submit,
        turn: Turn,
        *,
        size: int = SIZE,
        worth: int = _WORTH,
        erase_within_s: Callable[[], float] = lambda: float("inf"),
        before_made: Callable[[], None] = lambda: None,
        disk: JournalDisk | None = None,
    ) -> None:
        self._loop = loop
        self._disk = disk or JournalDisk()
        self._submit = submit
        self._run_turn = turn
        self.files = JournalFiles(
            loop,
            folder,
            first_number,
            submit,
            self._begin,
            size=size,
            erase_within_s=erase_within_s,
            before_made=before_made,
            disk=self._disk,
        )
        self.synced = self.files.synced
        self.failed = self.files.failed
        self.holds = self.files.holds
        self.when_released = self.files.when_released
        self.ending = False  # many commits end in this turn, which flushes their output at its end
        self._worth = worth
        self._came = 0  # commits that could have gone to a journal, within a moment
        self._came_until = 0.0
        self._order = time.time_ns()  # above all orders of the previous server
        self._writer: JournalWriter | None = None
        # What a batch may have at most; the next one always fits into a file that is empty.
        self._most_bytes = min(_MOST_OF_A_BATCH, (size - START) // 2)
        self._device = self._disk.device_of(folder)
        self._gathering = _Gathered()
        self._spare = _Gathered()  # unused, unless a batch is being written
        self._running: _Gathered | None = None
        self.expected = 0  # commits that begin together
        self.crowded = False  # the next batch is full: new commits would only wait
        self._planned = False
        self._file: JournalFile | None = None  # the file of the running batch
        self._ending = FairQueue()  # tickets
        self._under_way: set[Ticket] = set()  # the commits of all batches that have not ended
        self._wait_for = self._wait
        self._wait_for_room: deque[Callable[[], None]] = deque()
        self._gives_room = False  # a call of a waiting callback is scheduled

    @property
    def busy(self) -> bool:
        """Return True if a batch is gathering or being written; a commit that joins needs no own sync.

        The first of many commits begins a batch, if there is a journal.
        """
        return self._has_commits() or (self.expected >= _MANY and self.files.active is not None)

    def _has_commits(self) -> bool:
        return self._running is not None or self._gathering.batch.count > 0

    def has_place(self, publisher: int) -> bool:
        """Return True if the next batch takes a commit of this publisher, although it is crowded."""
        gathering = self._gathering
        return (
            publisher not in gathering.publishers
            and gathering.batch.count < _MOST_IN_A_BATCH + _PLACES_KEPT
            and gathering.batch.size + MOST_OF_ONE <= self._most_bytes
        )

    def when_room(self, then: Callable[[], None]) -> None:
        """Call `then` once, later, when the journal is not crowded; several callbacks take turns."""
        self._wait_for_room.append(then)
        self._tell_room()

    def _tell_room(self) -> None:
        if self._wait_for_room and not self.crowded and not self._gives_room:
            self._gives_room = True
            self._loop.call_soon(self._run_turn, _ROOM, self._give_room)

    def _give_room(self) -> None:
        self._gives_room = False
        if self._wait_for_room and not self.crowded:
            self._wait_for_room.popleft()()
        self._tell_room()

    def take(self, ticket: Ticket) -> bool:
        """Write a commit with the next batch; return False if the journal cannot."""
        commit = ticket.commit
        size = commit.size()
        if not commit.journal_key or size > MOST_OF_ONE:
            return False
        if self.files.active is None and not self._is_wanted():
            return False
        gathering = self._gathering
        batch = gathering.batch
        if batch.size + size + _ENTRY_OVERHEAD > self._most_bytes and batch.count > 0:
            return False
        if not commit.begin_journaled(batch, self._device):
            return False
        gathering.tickets.append(ticket)
        gathering.publishers.add(ticket.publisher)
        self.crowded = batch.count >= _MOST_IN_A_BATCH or batch.size + MOST_OF_ONE > self._most_bytes
        self._under_way.add(ticket)
        ticket.begun(self._wait_for)
        if not self._planned and self._running is None and self.files.active is not None:
            self._planned = True
            self._loop.call_soon(self._run_turn, _WRITTEN, self._begin)
        return True

    def _is_wanted(self) -> bool:
        """Create a journal if enough commits came within `_MOMENT_S`; return True if one is being created."""
        now = self._loop.time()
        if now > self._came_until:
            self._came = 0
            self._came_until = now + _MOMENT_S
        self._came += 1
        return self._came >= self._worth and self.files.make()

    # -- batches ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Write the gathered batch, unless another one is being written or many commits have yet to end."""
        self._planned = False
        gathered = self._gathering
        if self._running is not None or self.files.making or gathered.batch.count == 0:
            return
        if len(self._ending) >= _MOST_IN_A_BATCH:
            return
        file = self.files.with_room(gathered.batch.size + ALIGNMENT)
        self._gathering = self._spare
        self.crowded = False
        if file is None or not self._start_writer():
            self._spare = gathered
            tickets = gathered.tickets
            gathered.clear()
            for ticket in tickets:
                self._turn_down(ticket)
        else:
            self._running = gathered
            self._write(file, gathered)
        self._tell_room()

    def _turn_down(self, ticket: Ticket) -> None:
        """Write a commit without the journal, which has no room or could not be written."""
        self._under_way.discard(ticket)
        ticket.turned_down()
        try:
            self._submit(ticket.run, ticket.tell)
        except Exception as error:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, ticket.tell, error)

    def _write(self, file: JournalFile, gathered: _Gathered) -> None:
        self._order += 1
        gathered.batch.finish(file.mark, self._order)
        for ticket in gathered.tickets:
            file.keys.add(ticket.commit.journal_key)
        self._file = file
        position = self.files.batch_begins(file, gathered.batch.size)
        assert self._writer is not None
        self._writer.begin(file.descriptor, gathered.batch, position)

    def _readable(self) -> None:
        if self._writer is not None and self._writer.collect():
            self._run_turn(_WRITTEN, self._batch_ended)
            self._run_turn(_COMMITS_ENDED, self._end_some)

    def _batch_ended(self) -> None:
        """Record the result of a batch and begin the next; its commits end later, some at a time."""
        assert self._writer is not None
        assert self._file is not None
        assert self._running is not None
        failed = self._writer.failed
        written = self._running
        unsynced = self._file.unsynced
        for number, ticket in enumerate(written.tickets):
            if failed or written.batch.error_of(number):
                self._turn_down(ticket)  # the retry without the journal works, or reports the reason
            else:
                unsynced[ticket.commit.journal_key] = ticket.owner
                self._ending.add(ticket, ticket.publisher)
        written.clear()
        self._spare, self._running = written, None
        if failed:
            _log.error("the commit journal cannot be written: %s", os.strerror(failed))
        self.files.batch_ended(failed=bool(failed))
        self._begin()

    def _end_some(self) -> None:
        self.ending = True
        end = self._loop.time() + _LONGEST_STEP_S
        count = 0
        while self._ending:
            ticket = self._end_one()
            try:
                ticket.tell(None)
            except Exception as error:
                guard.report("the end of a commit", error)
            count += 1
            if count % _ENDS_BETWEEN_LOOKS == 0 and self._loop.time() > end:
                break
        self.ending = False
        self._begin()
        if self._ending:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_some)

    def _end_one(self) -> Ticket:
        ticket: Ticket = self._ending.pop()
        self._under_way.discard(ticket)
        ticket.journaled_ended()
        return ticket

    # -- those who cannot wait --------------------------------------------------------------------

    def _wait(self, ticket: Ticket) -> None:
        """Return when the commit has ended or is written without the journal; it is reported later."""
        while ticket in self._under_way:
            self._go_on()

    def _go_on(self) -> None:
        """Wait for the next step of the running work."""
        if self._ending:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_one().tell, None)
        elif self._running is not None:
            assert self._writer is not None
            if self._writer.wait():
                self._batch_ended()
                # Its other commits end later, and nobody else knows that it has ended.
                self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_some)
        elif self.files.making:
            self.files.wait_until_made()
        else:
            self._begin()

    def _start_writer(self) -> bool:
        if self._writer is not None:
            return True
        try:
            self._writer = self._disk.new_writer("millstream-journal")
            self._loop.add_reader(self._writer.fileno(), self._readable)
        except (OSError, RuntimeError) as error:
            _log.warning("there is no commit journal, so streams are synced one by one: %s", error)
            return False
        return True

    def close(self) -> None:
        """Wait for all batches, and close the files after syncing the logs that they cover."""
        while self._has_commits() or self._ending or self.files.making:
            self._go_on()
        if self._writer is not None:
            self._loop.remove_reader(self._writer.fileno())
            self._writer.close()
            self._writer = None
        self.files.close()
