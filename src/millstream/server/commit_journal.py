"""Small commits of many streams on their way through a journal: one sync for all that gathered.

The format, and what becomes of it after a crash, is in ``store.commit_journal``.  Here are the two journals
that a server uses in turn:

    take ──▶ gathering ──▶ one batch at a time (``JournalWriter``) ──▶ commits end, their logs are *unsynced*
    turn:    the other journal is used; logs that are unsynced because of this one are synced
             ──▶ all synced ──▶ the journal is overwritten with zeros, and can be used again

Thousands of logs are synced together, with one sync of their file system: one by one, each would cost a
flush of the disk, which publishers wait for, too.  Only if the file system cannot be synced as a whole, or
says that it failed, each log is synced by a commit of its own, which finds out which one it was.

A journal is turned when it is full; some seconds after its first batch, so that what was removed does not
stay in it; and when content is to be erased (``when_released``).  If both are in use, commits go their own
way, which slows publishers down to what the disk takes.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base import guard
from millstream.store.commit_journal import (
    ALIGNMENT,
    Entry,
    clear_journal,
    encode_batch,
    journal_path,
    make_journal,
)
from millstream.store.fs import sync_file_system
from millstream.store.journal_writer import COLUMNS, JournalWriter

if TYPE_CHECKING:
    import asyncio

    from millstream.jetstream.ports import CommitJob

_log = logging.getLogger("millstream.server")

Done = Callable[[Exception | None], None]
Turn = Callable[..., None]  # given a kind and a callback: calls back, and sends what that left to be sent
Submit = Callable[[Callable[[], None], Done], None]

_COMMITS_ENDED: Final = "commits ended"

SIZE: Final = 32 * 1024 * 1024  # of a journal
MOST_OF_ONE: Final = 64 * 1024  # bytes of a commit; larger ones are worth a sync of their own
_MOST_OF_A_BATCH: Final = 4 * 1024 * 1024
_ENTRY_OVERHEAD: Final = 1024  # at most, of a commit in a batch: its key and numbers
_TURN_AFTER_S: Final = 10.0
_SYNCS_AT_ONCE: Final = 4
_WORTH: Final = 32  # commits within a moment for which a journal is made
_MOMENT_S: Final = 1.0
_ENDS_AT_ONCE: Final = 256  # commits whose publishers are answered before others have their turn
_LONGEST_STEP_S: Final = 0.003
_REST_S: Final = 60.0  # after a journal could not be made


class _Taken(NamedTuple):
    """A commit that is to be written."""

    job: CommitJob
    done: Done
    descriptor: int  # of the log's own file
    entry: Entry


class _Journal:
    """One file."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.end = 0  # of the last batch
        self.keys: set[bytes] = set()  # of all logs that it holds something of
        # Logs whose files are not synced since, with their last commits.
        self.unsynced: dict[bytes, CommitJob] = {}
        self.clearing = False
        self.epoch = 0  # how often it was cleared


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
    ) -> None:
        self._loop = loop
        self._folder = folder
        self._next_number = first_number
        self._submit = submit
        self._run_turn = turn
        self.ending = False  # many commits end now, and what they send is flushed in the end
        self._size = size
        self._worth = worth
        self._came = 0  # commits that could have gone to a journal, within a moment
        self._came_until = 0.0
        self._erase_within_s = erase_within_s
        self._order = time.time_ns()  # above all of the server before
        self._writer: JournalWriter | None = None
        self._active: _Journal | None = None
        self._other: _Journal | None = None  # turned; or waiting for its turn
        self._gathered: list[_Taken] = []
        self._planned = False
        self._running: list[_Taken] = []
        self._ending: deque[_Taken] = deque()
        self._turn_wanted = False
        self._table: array[int] = array("q")
        self._to_sync: deque[bytes] = deque()  # logs of the other journal
        self._syncing: set[bytes] = set()
        self._turn_timer: asyncio.TimerHandle | None = None
        self._released: list[tuple[bytes, Callable[[], None]]] = []
        self._making: threading.Thread | None = None
        self._made_path = ""
        self._made_descriptor = -1
        self._rests_until = 0.0
        self._closed = False

    # -- commits ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Tell whether a batch gathers or is being written: what joins it waits for no sync of its own."""
        return bool(self._gathered or self._running)

    def take(self, job: CommitJob, done: Done) -> bool:
        """Write a commit with the next batch, then call `done`; False if it has to go another way."""
        if not job.journal_key or job.size > MOST_OF_ONE:
            return False
        if self._active is None and not self._is_wanted():
            return False
        part = job.begin_journaled()
        if part is None:
            return False
        data = part.data[0] if len(part.data) == 1 else b"".join(part.data)
        entry = Entry(job.journal_key, part.segment, part.base, data)
        self._gathered.append(_Taken(job, done, part.descriptor, entry))
        job.begun(lambda: self._wait(job))
        if not self._planned and not self._running and self._active is not None:
            self._planned = True
            self._loop.call_soon(self._begin)
        return True

    def _is_wanted(self) -> bool:
        """Make a journal if enough commits came within a moment; returns whether one is being made."""
        now = self._loop.time()
        if now > self._came_until:
            self._came = 0
            self._came_until = now + _MOMENT_S
        self._came += 1
        return self._came >= self._worth and self._make()

    def _begin(self) -> None:
        """Write what has gathered, unless a batch is being written."""
        self._planned = False
        if self._running or not self._gathered or self._making is not None:
            return
        journal = self._journal_with_room()
        if journal is None:
            while self._gathered:
                self._turn_down(self._gathered.pop())
            return
        room = min(self._size - journal.end, _MOST_OF_A_BATCH) - ALIGNMENT
        count = 0
        for taken in self._gathered:
            room -= len(taken.entry.data) + _ENTRY_OVERHEAD
            if room < 0:
                break
            count += 1
        self._running, self._gathered = self._gathered[:count], self._gathered[count:]
        self._write(journal)

    def _turn_down(self, taken: _Taken) -> None:
        """Have a commit run its own way: the journal has no room, or something could not be written."""
        taken.job.turned_down()
        try:
            self._submit(taken.job.run, taken.done)
        except Exception as error:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, taken.done, error)

    def _write(self, journal: _Journal) -> None:
        self._order += 1
        batch = encode_batch(self._order, [taken.entry for taken in self._running])
        table = array("q", bytes(8 * COLUMNS * len(self._running)))
        at = 0
        for taken, start in zip(self._running, batch.starts, strict=True):
            table[at] = taken.descriptor
            table[at + 1] = start
            table[at + 2] = len(taken.entry.data)
            table[at + 3] = taken.entry.base
            at += COLUMNS
            journal.keys.add(taken.entry.key)
        self._table = table
        position = journal.end
        journal.end += len(batch.data)
        assert self._writer is not None
        self._writer.begin(journal.descriptor, batch.data, position, table)
        if self._turn_timer is None:
            after_s = min(_TURN_AFTER_S, self._erase_within_s() / 3)
            self._turn_timer = self._loop.call_later(after_s, self._turn_in_time)

    def _readable(self) -> None:
        if self._writer is not None and self._writer.collect():
            self._batch_ended()
            self._run_turn(_COMMITS_ENDED, self._end_some)

    def _batch_ended(self) -> None:
        """Note how a batch went, and begin the next; the ends of its commits follow, some at a time."""
        assert self._writer is not None
        assert self._active is not None
        failed = self._writer.failed
        written, self._running = self._running, []
        for number, taken in enumerate(written):
            if failed or self._table[number * COLUMNS + 4]:
                self._turn_down(taken)  # the other way works, or tells why not
            else:
                self._active.unsynced[taken.entry.key] = taken.job
                self._ending.append(taken)
        if failed:
            _log.error("the commit journal cannot be written: %s", os.strerror(failed))
        if failed or self._turn_wanted:
            self._turn()
        self._begin()

    def _end_some(self) -> None:
        self.ending = True
        end = self._loop.time() + _LONGEST_STEP_S
        for _ in range(min(len(self._ending), _ENDS_AT_ONCE)):
            guard.alone("the end of a commit", self._end_one(), None)
            if self._loop.time() > end:
                break
        self.ending = False
        if self._ending:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_some)

    def _end_one(self) -> Done:
        taken = self._ending.popleft()
        taken.job.journaled_ended()
        return taken.done

    def _wait(self, job: CommitJob) -> None:
        """Return when the commit has ended, or goes another way; `done` is called later."""
        while any(job is taken.job for taken in (*self._gathered, *self._running, *self._ending)):
            self._go_on()

    def _go_on(self) -> None:
        """Wait for what is under way."""
        if self._ending:
            self._loop.call_soon(self._run_turn, _COMMITS_ENDED, self._end_one(), None)
        elif self._running:
            assert self._writer is not None
            if self._writer.wait():
                self._batch_ended()
        elif self._making is not None:
            self._making.join()
            self._made()
        else:
            self._begin()

    # -- journals ---------------------------------------------------------------------------------

    def _journal_with_room(self) -> _Journal | None:
        needed = ALIGNMENT + _ENTRY_OVERHEAD + MOST_OF_ONE
        if self._active is not None and self._size - self._active.end < needed:
            self._turn()
        if self._active is None or self._size - self._active.end < needed:
            return None
        return self._active

    def _turn_in_time(self) -> None:
        self._turn_timer = None
        self._turn()

    def _turn(self) -> None:
        """Use the other journal, and have everything synced that this one vouches for."""
        self._turn_wanted = bool(self._running)
        if self._active is None or self._running or not self._active.end:
            return
        if self._other is not None and self._other.end:
            self._turn_wanted = True  # when that is free; what comes meanwhile may have to go its own way
            return
        turned = self._active
        self._active, self._other = self._other, turned
        if self._active is None:
            self._make()
        self._sync(turned)

    def _sync(self, journal: _Journal) -> None:
        """Sync the file system with all logs that a journal vouches for; if that fails, each of them."""
        failed = 0
        epoch = journal.epoch

        def sync() -> None:
            nonlocal failed
            # Its descriptor is as old as the journal, so errors since then are told.
            failed = sync_file_system(journal.descriptor) if _SYNCFS_TELLS else errno.ENOSYS

        def ended(error: Exception | None) -> None:
            if journal.epoch != epoch:
                return  # all of them were synced before by commits of their own
            if error is None and not failed:
                self._all_synced(journal)
            self._to_sync = deque(journal.unsynced)
            self._sync_more()

        try:
            self._submit(sync, ended)
        except Exception as error:
            ended(error)

    def _all_synced(self, journal: _Journal) -> None:
        """Tell the logs whose files have not grown since."""
        synced, journal.unsynced = journal.unsynced, {}
        newer = self._active.unsynced if self._active is not None else {}
        for key, job in synced.items():
            if key not in newer:
                job.was_synced()

    def _sync_more(self) -> None:
        journal = self._other
        if journal is None or not journal.end or journal.clearing or self._closed:
            return
        while self._to_sync and len(self._syncing) < _SYNCS_AT_ONCE:
            key = self._to_sync.popleft()
            job = journal.unsynced.get(key)
            if job is not None:
                self._syncing.add(key)
                job.sync_soon()
        if not journal.unsynced:
            journal.clearing = True
            self._submit(lambda: clear_journal(journal.descriptor, journal.end), self._cleared)

    def _cleared(self, error: Exception | None) -> None:
        journal = self._other
        if journal is None:
            return
        journal.clearing = False
        if error is not None:
            _log.error("a commit journal cannot be used again: %s", error)
            self._loop.call_later(_REST_S, self._sync_more)
            return
        journal.end = 0
        journal.epoch += 1
        journal.keys.clear()
        waiting, self._released = self._released, []
        for key, then in waiting:
            self.when_released(key, then)
        if self._active is None:
            self._active, self._other = journal, None
        elif self._turn_wanted:
            self._turn()

    def _make(self) -> bool:
        """Make another journal, in a thread of its own; False if that is not to be."""
        if self._making is not None:
            return True
        if self._closed or self._loop.time() < self._rests_until:
            return False
        self._made_path = path = journal_path(self._folder, self._next_number)
        self._next_number += 1
        self._made_descriptor = -1

        def make() -> None:
            try:
                self._made_descriptor = make_journal(path, self._size)
            except OSError as error:
                _log.warning("there is no commit journal, so streams are synced one by one: %s", error)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._made)

        self._making = threading.Thread(target=make, name="millstream-journal-maker", daemon=True)
        try:
            self._making.start()
        except RuntimeError:
            self._making = None
            self._rests_until = self._loop.time() + _REST_S
            return False
        return True

    def _made(self) -> None:
        if self._making is None:
            return  # somebody could not wait
        self._making = None
        if self._made_descriptor >= 0 and (self._closed or not self._start_writer()):
            _discard(self._made_path, self._made_descriptor)
        elif self._made_descriptor >= 0:
            self._active = _Journal(self._made_path, self._made_descriptor)
        if self._active is None:
            self._rests_until = self._loop.time() + _REST_S
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

    # -- what streams say -------------------------------------------------------------------------

    def synced(self, key: bytes) -> None:
        """Everything of a log is synced; or the log is gone."""
        for journal in (self._active, self._other):
            if journal is not None:
                journal.unsynced.pop(key, None)
        self._syncing.discard(key)
        self._sync_more()

    def holds(self, key: bytes) -> bool:
        """Tell whether a journal has something of a log."""
        return any(journal is not None and key in journal.keys for journal in (self._active, self._other))

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        """Call back when no journal has anything of a log, which takes no commits until then."""
        if not self.holds(key):
            then()
            return
        self._released.append((key, then))
        if self._active is not None and key in self._active.keys:
            self._turn()

    def close(self) -> None:
        """End; journals that vouch for nothing any more are removed."""
        while self._gathered or self._running or self._ending or self._making is not None:
            self._go_on()
        self._closed = True
        if self._turn_timer is not None:
            self._turn_timer.cancel()
        if self._writer is not None:
            self._loop.remove_reader(self._writer.fileno())
            self._writer.close()
            self._writer = None
        for journal in (self._active, self._other):
            if journal is None:
                continue
            if journal.unsynced and (not _SYNCFS_TELLS or sync_file_system(journal.descriptor) != 0):
                os.close(journal.descriptor)
            else:
                _discard(journal.path, journal.descriptor)
        self._active = self._other = None


def _discard(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
    os.close(descriptor)


def _syncfs_tells() -> bool:
    """Tell whether the system reports in a sync of a file system that something could not be written."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return sys.platform == "linux" and release is not None and (int(release[1]), int(release[2])) >= (5, 8)


_SYNCFS_TELLS: Final = _syncfs_tells()
