"""Group commit: what all streams gathered while input was processed becomes durable together.

A stream that has something to commit says so with ``dirty``.  When the input at hand is processed,
each of them starts one commit in a worker thread; what it gathers meanwhile goes with the next.  Only
when the commit has ended are publishers answered and readers told.

Streams that do not wait for the disk (``sync`` is false) are written at once and synced by a timer.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Protocol

from millrace.store.errors import StoreError

if TYPE_CHECKING:
    from millrace.jetstream.ports import Cancel, World
    from millrace.store.commit import Commit
    from millrace.store.fs import File
    from millrace.store.log import Log

_log = logging.getLogger("millrace.jetstream")

DEFAULT_SYNC_INTERVAL_S: Final = 120.0  # for what is not synced at every commit; nats-server's


class Committing(Protocol):
    """A stream, as the committer sees it."""

    log: Log
    in_memory: bool
    sync: bool  # whether a commit is only done when it is on disk

    def commit_begins(self) -> None:
        """What has gathered so far belongs to this commit."""

    def commit_waits(self) -> None:
        """There is more to commit, but the last commit has not ended yet."""

    def commit_ended(self) -> None: ...

    def commit_failed(self, error: Exception) -> None: ...


class _Running:
    """A commit on its way through a worker; whoever takes it first runs it."""

    def __init__(self, commit: Commit, *, sync: bool) -> None:
        self.commit = commit
        self.error: Exception | None = None
        self.settled = False  # its end is dealt with
        self._sync = sync
        self._untaken = threading.Lock()
        self._ended = threading.Event()

    def run(self) -> None:
        if not self._untaken.acquire(blocking=False):
            return
        try:
            self.commit.run(sync=self._sync)
        except Exception as error:
            self.error = error
        finally:
            self._ended.set()

    def finish(self) -> None:
        """Return when it has ended, wherever it runs."""
        self.run()
        self._ended.wait()


class Committer:
    """For all streams of an account."""

    def __init__(self, world: World, sync_interval_s: float | None = None) -> None:
        self._world = world
        self._interval_s = sync_interval_s if sync_interval_s is not None else DEFAULT_SYNC_INTERVAL_S
        self._dirty: dict[Committing, None] = {}
        self._running: dict[Committing, _Running] = {}
        self._again: set[Committing] = set()  # became dirty while a commit was under way
        self._planned = False
        self._unsynced: dict[Committing, None] = {}
        self._syncing: set[Committing] = set()
        self._timer: Cancel | None = None

    def dirty(self, stream: Committing) -> None:
        """The stream has something to commit, or answers that wait for a commit."""
        self._dirty[stream] = None
        if not self._planned:
            self._planned = True
            self._world.call_soon(self._run)

    def forget(self, stream: Committing) -> None:
        """Nothing of this stream is to be written any more; returns when nothing is."""
        self._dirty.pop(stream, None)
        self._again.discard(stream)
        self._unsynced.pop(stream, None)
        self._syncing.discard(stream)
        running = self._running.pop(stream, None)
        if running is not None:
            running.finish()
            running.settled = True

    def _run(self) -> None:
        self._planned = False
        dirty, self._dirty = self._dirty, {}
        for stream in dirty:
            self._start(stream)

    def _start(self, stream: Committing) -> None:
        if stream in self._running:
            self._again.add(stream)
            stream.commit_waits()
            return
        commit = stream.log.begin_commit()
        stream.commit_begins()
        if commit is None:
            stream.commit_ended()
        elif stream.in_memory:
            commit.run(sync=False)
            stream.log.end_commit(commit)
            stream.commit_ended()
        else:
            running = _Running(commit, sync=stream.sync)
            self._running[stream] = running
            self._world.run_in_worker(running.run, lambda error: self._ended(stream, running, error))

    def _ended(self, stream: Committing, running: _Running, error: Exception | None) -> None:
        if running.settled:
            return  # somebody could not wait
        running.error = running.error or error
        self._settle(stream, running)
        if stream in self._again or (stream.log.uncommitted and running.error is None):
            self._again.discard(stream)
            self._start(stream)

    def _settle(self, stream: Committing, running: _Running) -> None:
        running.settled = True
        self._running.pop(stream, None)
        if running.error is not None:
            stream.log.fail_commit(running.commit)
            stream.commit_failed(running.error)
            return
        stream.log.end_commit(running.commit)
        if not stream.sync:
            self._sync_later(stream)
        stream.commit_ended()

    def flush(self, stream: Committing) -> None:
        """Make everything durable now and here, for shutdown; StoreError if that fails."""
        running = self._running.get(stream)
        if running is not None:
            running.finish()
            self._settle(stream, running)
        self._again.discard(stream)
        commit = stream.log.begin_commit()
        stream.commit_begins()
        if commit is not None:
            try:
                commit.run(sync=not stream.in_memory)
            except Exception as error:
                stream.log.fail_commit(commit)
                stream.commit_failed(error)
                raise
            stream.log.end_commit(commit)
        if stream in self._unsynced:
            del self._unsynced[stream]
            _sync(stream.log, _open_files(stream.log))
        stream.commit_ended()

    # -- syncing by a timer -----------------------------------------------------------------------

    def _sync_later(self, stream: Committing) -> None:
        self._unsynced[stream] = None
        if self._timer is None:
            self._timer = self._world.call_later(self._interval_s, self._sync_all)

    def _sync_all(self) -> None:
        self._timer = None
        unsynced, self._unsynced = self._unsynced, {}
        for stream in unsynced:
            self._sync_one(stream)

    def _sync_one(self, stream: Committing) -> None:
        log, files = stream.log, _open_files(stream.log)
        self._syncing.add(stream)

        def ended(error: Exception | None) -> None:
            forgotten = stream not in self._syncing
            self._syncing.discard(stream)
            if error is not None and not forgotten:
                _log.error("%s", error)
                self._sync_later(stream)

        self._world.run_in_worker(lambda: _sync(log, files), ended)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _open_files(log: Log) -> list[File]:
    return [segment.file for segment in log.segments if segment.file is not None]


def _sync(log: Log, files: list[File]) -> None:
    """Make durable what was written without waiting; a file that was closed since needs nothing."""
    for file in files:
        try:
            file.sync()
        except StoreError:
            if any(segment.file is file for segment in list(log.segments)):
                raise
    log.fs.sync_folder(log.folder)
