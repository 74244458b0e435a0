"""Small commits of many streams on their way through a journal: one sync for all that gathered.

    take ──▶ gathering ──▶ one batch at a time (``JournalWriter``) ──▶ commits end, their logs are *unsynced*

The format, and what becomes of it after a crash, is in ``store.commit_journal``; the two files that are
written in turn are in ``journal_files``.  If both are in use, commits go their own way, which slows
publishers down to what the disk takes.

Batches are small, and one half of each is for streams that had nothing to commit: a publisher that waits for
each of its messages does not wait for all streams that somebody else keeps busy.
"""

from __future__ import annotations

import logging
import os
import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base import guard
from millstream.server.journal_files import Done, JournalFile, JournalFiles, Submit
from millstream.store.commit_journal import ALIGNMENT, Entry, encode_batch
from millstream.store.journal_writer import COLUMNS, JournalWriter

if TYPE_CHECKING:
    import asyncio

    from millstream.jetstream.ports import CommitJob

_log = logging.getLogger("millstream.server")

Turn = Callable[..., None]  # given a kind and a callback: calls back, and sends what that left to be sent

_COMMITS_ENDED: Final = "commits ended"
_WRITTEN: Final = "a batch of commits"
_ROOM: Final = "beginning commits"

SIZE: Final = 32 * 1024 * 1024  # of a file
MOST_OF_ONE: Final = 64 * 1024  # bytes of a commit; larger ones are worth a sync of their own
_MOST_OF_A_BATCH: Final = 4 * 1024 * 1024
_MOST_IN_A_BATCH: Final = 512  # commits
_ENTRY_OVERHEAD: Final = 1024  # at most, of a commit in a batch: its key and numbers
_WORTH: Final = 32  # commits within a moment for which a journal is made
_MOMENT_S: Final = 1.0
_LONGEST_STEP_S: Final = 0.0015  # in which publishers are answered before others have their turn


class _Taken(NamedTuple):
    """A commit that is to be written."""

    job: CommitJob
    done: Done
    descriptor: int  # of the log's own file
    device: int  # that this is on
    entry: Entry


class CommitJournal:
    """For all streams of a server; called on the loop's thread."""

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
    ) -> None:
        self._loop = loop
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
        )
        self.synced = self.files.synced
        self.holds = self.files.holds
        self.when_released = self.files.when_released
        self.ending = False  # many commits end now, and what they send is flushed in the end
        self._worth = worth
        self._came = 0  # commits that could have gone to a journal, within a moment
        self._came_until = 0.0
        self._order = time.time_ns()  # above all of the server before
        self._writer: JournalWriter | None = None
        self._fresh: deque[_Taken] = deque()  # gathered: of streams that had nothing to commit
        self._following: deque[_Taken] = deque()  # gathered: of streams that commit all the time
        self._planned = False
        self._running: list[_Taken] = []
        self._file: JournalFile | None = None  # that the running batch goes to
        self._table: array[int] = array("q")
        self._ending: deque[_Taken] = deque()
        self._under_way: set[CommitJob] = set()  # all of these
        self._wait_for = self._wait
        self._wait_for_room: list[Callable[[], None]] = []

    @property
    def busy(self) -> bool:
        """Tell whether a batch gathers or is being written: what joins it waits for no sync of its own."""
        return bool(self._fresh or self._following or self._running)

    @property
    def crowded(self) -> bool:
        """Tell whether the next batch is full: what comes now would only wait."""
        return len(self._fresh) + len(self._following) >= _MOST_IN_A_BATCH

    def when_room(self, then: Callable[[], None]) -> None:
        """Call back, later and once, when the journal is not crowded."""
        self._wait_for_room.append(then)
        self._tell_room()

    def _tell_room(self) -> None:
        if self._wait_for_room and not self.crowded:
            waiting, self._wait_for_room = self._wait_for_room, []
            for each in waiting:
                self._loop.call_soon(self._run_turn, _ROOM, each)

    def take(self, job: CommitJob, done: Done) -> bool:
        """Write a commit with the next batch, then call `done`; False if it has to go another way."""
        if not job.journal_key or job.size > MOST_OF_ONE:
            return False
        if self.files.active is None and not self._is_wanted():
            return False
        part = job.begin_journaled()
        if part is None:
            return False
        entry = Entry(job.journal_key, part.segment, part.base, part.data)
        queue = self._following if job.follows else self._fresh
        queue.append(_Taken(job, done, part.descriptor, part.device, entry))
        self._under_way.add(job)
        job.begun(self._wait_for)
        if not self._planned and not self._running and self.files.active is not None:
            self._planned = True
            self._loop.call_soon(self._run_turn, _WRITTEN, self._begin)
        return True

    def _is_wanted(self) -> bool:
        """Make a journal if enough commits came within a moment; returns whether one is being made."""
        now = self._loop.time()
        if now > self._came_until:
            self._came = 0
            self._came_until = now + _MOMENT_S
        self._came += 1
        return self._came >= self._worth and self.files.make()

    # -- batches ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Write what has gathered, unless a batch is being written or many commits have yet to end."""
        self._planned = False
        if self._running or self.files.making or len(self._ending) >= _MOST_IN_A_BATCH:
            return
        if not self._fresh and not self._following:
            return
        file = self.files.with_room(ALIGNMENT + _ENTRY_OVERHEAD + MOST_OF_ONE)
        if file is None or not self._start_writer():
            for queue in (self._fresh, self._following):
                while queue:
                    self._turn_down(queue.popleft())
            self._tell_room()
            return
        room = min(self.files.size - file.end, _MOST_OF_A_BATCH) - ALIGNMENT
        self._running = self._next_batch(room, file.device)
        if self._running:
            self._write(file)
        self._tell_room()

    def _next_batch(self, room: int, device: int) -> list[_Taken]:
        """Take from both queues in turn what fits into a batch.

        What is on another disk than the journal goes its own way: a sync of the journal's would leave it out.
        """
        batch: list[_Taken] = []
        queue, other = self._fresh, self._following
        while (queue or other) and len(batch) < _MOST_IN_A_BATCH:
            if not queue:
                queue, other = other, queue
            if queue[0].device != device:
                self._turn_down(queue.popleft())
                continue
            room -= len(queue[0].entry.data) + _ENTRY_OVERHEAD
            if room < 0:
                break
            batch.append(queue.popleft())
            queue, other = other, queue
        return batch

    def _turn_down(self, taken: _Taken) -> None:
        """Have a commit run its own way: the journal has no room, or something could not be written."""
        self._under_way.discard(taken.job)
        taken.job.turned_down()
        try:
            self._submit(taken.job.run, taken.done)
        except Exception as error:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, taken.done, error)

    def _write(self, file: JournalFile) -> None:
        self._order += 1
        batch = encode_batch(file.mark, self._order, [taken.entry for taken in self._running])
        table = array("q", bytes(8 * COLUMNS * len(self._running)))
        at = 0
        for taken, start in zip(self._running, batch.starts, strict=True):
            table[at] = taken.descriptor
            table[at + 1] = start
            table[at + 2] = len(taken.entry.data)
            table[at + 3] = taken.entry.base
            at += COLUMNS
            file.keys.add(taken.entry.key)
        self._table = table
        self._file = file
        position = self.files.batch_begins(file, len(batch.data))
        assert self._writer is not None
        self._writer.begin(file.descriptor, batch.data, position, table)

    def _readable(self) -> None:
        if self._writer is not None and self._writer.collect():
            self._run_turn(_WRITTEN, self._batch_ended)
            self._run_turn(_COMMITS_ENDED, self._end_some)

    def _batch_ended(self) -> None:
        """Note how a batch went, and begin the next; the ends of its commits follow, some at a time."""
        assert self._writer is not None
        assert self._file is not None
        failed = self._writer.failed
        written, self._running = self._running, []
        for number, taken in enumerate(written):
            if failed or self._table[number * COLUMNS + 4]:
                self._turn_down(taken)  # the other way works, or tells why not
            else:
                self._file.unsynced[taken.entry.key] = taken.job.vouched
                self._ending.append(taken)
        if failed:
            _log.error("the commit journal cannot be written: %s", os.strerror(failed))
        self.files.batch_ended(failed=bool(failed))
        self._begin()

    def _end_some(self) -> None:
        self.ending = True
        end = self._loop.time() + _LONGEST_STEP_S
        while self._ending:
            guard.alone("the end of a commit", self._end_one(), None)
            if self._loop.time() > end:
                break
        self.ending = False
        self._begin()
        if self._ending:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_some)

    def _end_one(self) -> Done:
        taken = self._ending.popleft()
        self._under_way.discard(taken.job)
        taken.job.journaled_ended()
        return taken.done

    # -- those who cannot wait --------------------------------------------------------------------

    def _wait(self, job: CommitJob) -> None:
        """Return when the commit has ended, or goes another way; `done` is called later."""
        while job in self._under_way:
            self._go_on()

    def _go_on(self) -> None:
        """Wait for what is under way."""
        if self._ending:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_one(), None)
        elif self._running:
            assert self._writer is not None
            if self._writer.wait():
                self._batch_ended()
        elif self.files.making:
            self.files.wait_until_made()
        else:
            self._begin()

    def _start_writer(self) -> bool:
        if self._writer is not None:
            return True
        try:
            self._writer = JournalWriter("millstream-journal")
            self._loop.add_reader(self._writer.fileno(), self._readable)
        except (OSError, RuntimeError) as error:
            _log.warning("there is no commit journal, so streams are synced one by one: %s", error)
            return False
        return True

    def close(self) -> None:
        """End; what the journal vouches for is synced."""
        while self.busy or self._ending or self.files.making:
            self._go_on()
        if self._writer is not None:
            self._loop.remove_reader(self._writer.fileno())
            self._writer.close()
            self._writer = None
        self.files.close()
