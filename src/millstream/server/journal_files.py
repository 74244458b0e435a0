"""The two files of the commit journal, which are used in turn.

    turn:  the other file is used; the logs with commits in this one are synced
           ──▶ all synced ──▶ its batches are overwritten with zeros, and it can be used again

Thousands of logs are synced together, with one sync of their file system: syncing them one by one would cost
a flush of the disk for each, which publishers wait for, too.  If the file system cannot be synced as a whole,
or the sync fails, each log is synced by a commit of its own, which finds the log that failed.

A file is turned when it is full; some seconds after its first batch, so that removed messages do not stay in
it; and when content has to be erased (``when_released``).

Not here: what is written to the files, and when (``commit_journal``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from millstream.store.commit_journal import START, clear_journal, journal_path, make_journal, new_mark
from millstream.store.errors import StoreError
from millstream.store.fs import sync_file_system
from millstream.store.journal_writer import JournalWriter

if TYPE_CHECKING:
    import asyncio

    from millstream.jetstream.ports import Vouched

_log = logging.getLogger("millstream.server")

Done = Callable[[Exception | None], None]
Submit = Callable[[Callable[[], None], Done], None]

_TURN_AFTER_S: Final = 10.0
_SYNCS_AT_ONCE: Final = 4
_TOLD_AT_ONCE: Final = 256  # logs, before other work has its turn
_REST_S: Final = 60.0  # after a file could not be created or cleared


class Joinable(Protocol):
    """Work in another thread."""

    def join(self) -> None:
        """Return when the work has ended."""


class JournalDisk:
    """The system calls of the commit journal, in one place: a simulation replaces them."""

    def device_of(self, folder: str) -> int:
        """Return the number of the disk that a folder is on."""
        return os.stat(folder).st_dev

    def make(self, path: str, size: int, mark: bytes) -> int:
        """Create a journal and return its descriptor; raises OSError."""
        return make_journal(path, size, mark)

    def clear(self, descriptor: int, end: int) -> None:
        clear_journal(descriptor, end)

    def sync_file_system(self, descriptor: int) -> int:
        """Sync everything on the disk of this file; return the error number, or 0."""
        return sync_file_system(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def discard(self, path: str, descriptor: int) -> None:
        """Remove and close a journal that is no longer needed."""
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(descriptor)

    def new_writer(self, name: str) -> JournalWriter:
        """Return a thread that writes batches; raises OSError or RuntimeError."""
        return JournalWriter(name)

    def start_thread(self, work: Callable[[], None], name: str) -> Joinable:
        """Run `work` in a thread of its own; raises RuntimeError."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread


class JournalFile:
    """A file of the journal, and the logs with commits in it."""

    def __init__(self, path: str, descriptor: int, mark: bytes) -> None:
        self.path = path
        self.descriptor = descriptor
        self.mark = mark
        self.end = START  # of the last batch
        self.keys: set[bytes] = set()  # of all logs that it holds something of
        self.unsynced: dict[bytes, Vouched] = {}  # logs whose files are not synced since
        self.clearing = False
        self.epoch = 0  # how often it was cleared

    @property
    def in_use(self) -> bool:
        return self.end > START


class JournalFiles:
    """The pair of files; called on the loop's thread.

    Calls `changed` when a file can, or cannot, be written, and `before_made` in another thread before a file
    is created.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        folder: str,
        first_number: int,
        submit: Submit,
        changed: Callable[[], None],
        *,
        size: int,
        erase_within_s: Callable[[], float],
        before_made: Callable[[], None],
        disk: JournalDisk,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._folder = folder
        self._next_number = first_number
        self._submit = submit
        self._changed = changed
        self.size = size
        self._erase_within_s = erase_within_s
        self._before_made = before_made
        self.active: JournalFile | None = None
        self.other: JournalFile | None = None  # turned; or waiting for its turn
        self.writing = (
            False  # a batch is being written to the active one, which stays that until it has ended
        )
        self._turn_wanted = False
        self._turn_timer: asyncio.TimerHandle | None = None
        self._to_sync: deque[bytes] = deque()  # logs of the other file
        self._syncing: set[bytes] = set()
        # Logs with a failed sync: the system may have dropped what it then reports as synced.
        self._doubtful: set[bytes] = set()
        self._doubts_batch = False  # also those that get something with the batch that is being written
        self._to_tell: deque[tuple[bytes, Vouched]] = deque()
        self._released: list[tuple[bytes, Callable[[], None]]] = []
        self._making: Joinable | None = None
        self._made_path = ""
        self._made_descriptor = -1
        self._made_mark = b""
        self._rests_until = 0.0
        self._closed = False

    # -- which one is written ---------------------------------------------------------------------

    def with_room(self, size: int) -> JournalFile | None:
        """Return the file for the next batch, or None if neither has `size` bytes left."""
        if self.active is not None and self.size - self.active.end < size:
            self.turn()
        if self.active is None or self.size - self.active.end < size:
            return None
        return self.active

    def batch_begins(self, file: JournalFile, size: int) -> int:
        """Return the position in the file for a batch of `size` bytes."""
        position = file.end
        file.end += size
        self.writing = True
        if self._turn_timer is None:
            after_s = min(_TURN_AFTER_S, self._erase_within_s() / 3)
            self._turn_timer = self._loop.call_later(after_s, self._turn_in_time)
        return position

    def batch_ended(self, *, failed: bool) -> None:
        self.writing = False
        if self._doubts_batch and self.active is not None:
            self._doubts_batch = False
            self._doubtful.update(self.active.unsynced)
        if failed or self._turn_wanted:
            self.turn()

    def _turn_in_time(self) -> None:
        self._turn_timer = None
        self.turn()

    def turn(self) -> None:
        """Use the other file, and sync all logs with commits in this one."""
        self._turn_wanted = self.writing
        if self.active is None or self.writing or not self.active.in_use:
            return
        if self.other is not None and self.other.in_use:
            self._turn_wanted = True  # when that is free; what comes meanwhile may have to go its own way
            return
        turned = self.active
        self.active, self.other = self.other, turned
        if self.active is None:
            self.make()
        self._sync(turned)

    # -- syncing what a file vouches for ----------------------------------------------------------

    def _sync(self, file: JournalFile) -> None:
        """Sync the file system with all logs that have commits in the file; if that fails, sync each log."""
        failed = 0
        epoch = file.epoch

        def sync() -> None:
            nonlocal failed
            # Its descriptor is as old as the journal, so errors since then are told.
            failed = self._disk.sync_file_system(file.descriptor)

        def ended(error: Exception | None) -> None:
            if file.epoch != epoch:
                return  # all of them were synced before by commits of their own
            if error is None and not failed:
                self._all_synced(file)
            else:
                self._doubt_all()
            self._to_sync = deque(file.unsynced)
            self._sync_more()

        try:
            self._submit(sync, ended)
        except Exception as error:
            ended(error)

    def _doubt_all(self) -> None:
        """Trust no sync of the file system for the logs of either file: the one that failed was for all."""
        for file in (self.active, self.other):
            if file is not None:
                self._doubtful.update(file.unsynced)
        self._doubts_batch = self.writing

    def _all_synced(self, file: JournalFile) -> None:
        sure = [each for each in file.unsynced.items() if each[0] not in self._doubtful]
        self._to_tell.extend(sure)
        for key, _ in sure:
            del file.unsynced[key]
        self._tell_some()

    def _tell_some(self) -> None:
        """Notify logs whose files have not grown since that they are synced, some at a time."""
        files = [file for file in (self.active, self.other) if file is not None]
        for _ in range(min(len(self._to_tell), _TOLD_AT_ONCE)):
            key, log = self._to_tell.popleft()
            if not any(key in file.unsynced for file in files):
                log.was_synced()
        if self._to_tell:
            self._loop.call_soon(self._tell_some)

    def _sync_more(self) -> None:
        file = self.other
        if file is None or not file.in_use or file.clearing or self._closed:
            return
        while self._to_sync and len(self._syncing) < _SYNCS_AT_ONCE:
            key = self._to_sync.popleft()
            log = file.unsynced.get(key)
            if log is not None:
                self._syncing.add(key)
                log.sync_soon()
        if not file.unsynced:
            file.clearing = True
            self._submit(lambda: self._disk.clear(file.descriptor, file.end), self._cleared)

    def _cleared(self, error: Exception | None) -> None:
        file = self.other
        if file is None:
            return
        file.clearing = False
        if error is not None:
            _log.error("a commit journal cannot be used again: %s", error)
            self._loop.call_later(_REST_S, self._sync_more)
            return
        file.end = START
        file.epoch += 1
        file.keys.clear()
        waiting, self._released = self._released, []
        for key, then in waiting:
            self.when_released(key, then)
        if self.active is None:
            self.active, self.other = file, None
        elif self._turn_wanted:
            self.turn()

    # -- making them ------------------------------------------------------------------------------

    @property
    def making(self) -> bool:
        return self._making is not None

    def make(self) -> bool:
        """Create another file, in a thread; return False if that is not possible now."""
        if self._making is not None:
            return True
        if self._closed or self._loop.time() < self._rests_until:
            return False
        self._made_path = path = journal_path(self._folder, self._next_number)
        self._next_number += 1
        self._made_descriptor = -1
        self._made_mark = mark = new_mark()

        def make() -> None:
            try:
                self._before_made()
                self._made_descriptor = self._disk.make(path, self.size, mark)
            except (OSError, StoreError) as error:
                _log.warning("there is no commit journal, so streams are synced one by one: %s", error)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._made)

        try:
            self._making = self._disk.start_thread(make, "millstream-journal-maker")
        except RuntimeError:
            self._rests_until = self._loop.time() + _REST_S
            return False
        return True

    def wait_until_made(self) -> None:
        if self._making is not None:
            self._making.join()
            self._made()

    def _made(self) -> None:
        if self._making is None:
            return  # somebody could not wait
        self._making = None
        if self._made_descriptor < 0:
            self._rests_until = self._loop.time() + _REST_S
        elif self._closed:
            self._disk.discard(self._made_path, self._made_descriptor)
        else:
            made = JournalFile(self._made_path, self._made_descriptor, self._made_mark)
            if self.active is None:
                self.active = made
            else:  # the first one was free again before
                self.other = made
        self._changed()

    # -- what streams say -------------------------------------------------------------------------

    def synced(self, key: bytes) -> None:
        """Record that all files of a log are synced, or that the log is deleted."""
        self._syncing.discard(key)
        self._doubtful.discard(key)
        if self.active is not None:
            self.active.unsynced.pop(key, None)
        if self.other is not None:
            self.other.unsynced.pop(key, None)
            self._sync_more()

    def failed(self, key: bytes) -> None:
        """Record that a commit of a log failed: only a commit of its own writes again what may be lost."""
        if any(file is not None and key in file.unsynced for file in (self.active, self.other)):
            self._doubtful.add(key)

    def holds(self, key: bytes) -> bool:
        """Return True if a file has commits of a log."""
        return any(file is not None and key in file.keys for file in (self.active, self.other))

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        """Call `then` when no file has commits of a log; the log must not commit until then."""
        if not self.holds(key):
            then()
            return
        self._released.append((key, then))
        if self.active is not None and key in self.active.keys:
            self.turn()

    def close(self) -> None:
        """Sync all logs, and remove the files whose logs are synced."""
        self._closed = True
        if self._turn_timer is not None:
            self._turn_timer.cancel()
        for file in (self.active, self.other):
            if file is None:
                continue
            if file.unsynced and not self._sync_at_end(file):
                self._disk.close(file.descriptor)
            else:
                self._disk.discard(file.path, file.descriptor)
        self.active = self.other = None

    def _sync_at_end(self, file: JournalFile) -> bool:
        """Sync everything at once; return False if the next start needs the file."""
        sure = self._doubtful.isdisjoint(file.unsynced)
        return sure and self._disk.sync_file_system(file.descriptor) == 0
