"""Remove deleted messages from disk: rewrite mostly dead segments, erase or compress others.

Checks a moment after commits, because only those remove something or seal a segment, or when the eraser
reports that something is due (``eraser``).  One segment of a stream at a time: the work is done in a worker,
the exchange of files on the loop (``store.segment_job``), and the next commit makes it durable.  If a disk
refuses it, the stream is skipped for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.jetstream.stream.worker_job import WorkerJob
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, Host
    from millstream.jetstream.stream.committed_log import Committing
    from millstream.store.segment_job import SegmentJob

_log = logging.getLogger("millstream.jetstream")

_DELAY_S: Final = 0.25
_REST_S: Final = 60.0  # after a failure
_LOOKS_AT_ONCE: Final = 64  # streams that are looked at before others have their turn
_MOST_RUNNING: Final = 2  # of an account; commits use the same workers


class Compactor:
    """The compactor of all streams of an account."""

    def __init__(self, world: Host, dirty: Callable[[Committing], None]) -> None:
        self._world = world
        self._dirty = dirty
        self._due: dict[Committing, None] = {}
        self._waiting: dict[Committing, SegmentJob] = {}  # for a commit that makes them ready
        self._running: dict[Committing, tuple[SegmentJob, WorkerJob]] = {}
        self._resting: dict[Committing, Cancel] = {}
        self._timer: Cancel | None = None

    def consider(self, stream: Committing) -> None:
        """Check a stream later, for example after a commit has ended."""
        if stream in self._due or stream in self._resting:
            return
        self._due[stream] = None
        self._look_after(_DELAY_S)

    def hurry(self, stream: Committing) -> None:
        """Check a stream at once, because something must be erased."""
        if stream not in self._resting:
            self._due[stream] = None
            self._look_after(0.0)

    def _look_after(self, delay_s: float) -> None:
        if self._timer is not None and delay_s > 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._world.call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        due, self._due = self._due, {}
        looked = 0
        for stream in due:
            if stream in self._running or stream in self._resting:
                continue
            if len(self._running) >= _MOST_RUNNING or looked == _LOOKS_AT_ONCE:
                self._due[stream] = None  # looked at when one has ended, or others had their turn
            else:
                looked += 1
                self._begin(stream)
        if looked == _LOOKS_AT_ONCE and self._due:
            self._look_after(0.0)

    def _begin(self, stream: Committing) -> None:
        job = self._waiting.pop(stream, None)
        try:
            if job is None:
                job = stream.log.next_job()
            if job is None:
                return
        except StoreError as error:
            self._fail(stream, error)
            return
        if job.ready:
            self._run(stream, job)
        else:
            self._waiting[stream] = job
            self._dirty(stream)

    def _run(self, stream: Committing, job: SegmentJob) -> None:
        work = WorkerJob(job.run)
        self._running[stream] = (job, work)
        try:
            self._world.run_in_worker(work.run, lambda _: self._ended(stream, job, work))
        except Exception as error:  # no thread can be had
            work.error = error
            self._ended(stream, job, work)

    def _ended(self, stream: Committing, job: SegmentJob, work: WorkerJob) -> None:
        if work.settled:
            return
        work.settled = True
        del self._running[stream]
        if stream.log.end_job(job):
            self._dirty(stream)  # if a file was exchanged, there may be another one when that is durable
            self.hurry(stream)
        elif work.error is not None and not job.cancelled:
            self._fail(stream, work.error)
        elif stream.log.uncommitted:  # the segment was dropped meanwhile: its file is to be removed
            self._dirty(stream)
        if self._due:
            self._look_after(0.0)

    def _fail(self, stream: Committing, error: Exception) -> None:
        _log.error("a segment is not compacted or erased: %s", error)
        if stream.journal_key:
            self._world.journal.failed(stream.journal_key)  # it may have the only copy of what a sync dropped
        if stream.log.uncommitted:
            self._dirty(stream)
        self._resting[stream] = self._world.call_later(_REST_S, lambda: self._rested(stream))

    def _rested(self, stream: Committing) -> None:
        del self._resting[stream]
        self.consider(stream)

    def forget(self, stream: Committing) -> None:
        """Stop writing this stream; return when nothing is being written."""
        self._due.pop(stream, None)
        if stream in self._resting:
            self._resting.pop(stream).cancel()
        waiting = self._waiting.pop(stream, None)
        if waiting is not None:
            waiting.cancelled = True
            stream.log.end_job(waiting)
        job, work = self._running.pop(stream, (None, None))
        if job is not None and work is not None:
            job.cancelled = True
            work.finish()
            work.settled = True
            stream.log.end_job(job)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for resting in self._resting.values():
            resting.cancel()
        self._resting.clear()
