"""Gives back room on the disk: segments that are mostly dead are written anew, sealed ones compressed.

Looked for a moment after commits, because only those remove something or seal a segment, and one segment
of a stream at a time: the copying is done in a worker, the exchange of the files on the loop
(``store.compaction``, ``store.compression``), and the next commit makes it durable.  If a disk does not
take it, the stream is left alone for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.jetstream.worker_job import WorkerJob
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.committer import Committing
    from millstream.jetstream.ports import Cancel, World
    from millstream.store.rewriting import Rewriting

_log = logging.getLogger("millstream.jetstream")

_DELAY_S: Final = 0.25
_REST_S: Final = 60.0  # after a failure


class Compactor:
    """For all streams of an account."""

    def __init__(self, world: World, dirty: Callable[[Committing], None]) -> None:
        self._world = world
        self._dirty = dirty
        self._due: dict[Committing, None] = {}
        self._running: dict[Committing, tuple[Rewriting, WorkerJob]] = {}
        self._resting: dict[Committing, Cancel] = {}
        self._timer: Cancel | None = None

    def consider(self, stream: Committing) -> None:
        """There may be something to do: a commit of the stream has ended, for one thing."""
        if stream in self._due or stream in self._resting:
            return
        self._due[stream] = None
        if self._timer is None:
            self._timer = self._world.call_later(_DELAY_S, self._look)

    def _look(self) -> None:
        self._timer = None
        due, self._due = self._due, {}
        for stream in due:
            if stream not in self._running and stream not in self._resting:
                self._begin(stream)

    def _begin(self, stream: Committing) -> None:
        try:
            segment = stream.log.compaction_candidate()
            if segment is None:
                return
            compaction = stream.log.begin_compaction(segment)
        except StoreError as error:
            self._fail(stream, error)
            return
        job = WorkerJob(compaction.run)
        self._running[stream] = (compaction, job)
        self._world.run_in_worker(job.run, lambda _: self._ended(stream, compaction, job))

    def _ended(self, stream: Committing, compaction: Rewriting, job: WorkerJob) -> None:
        if job.settled:
            return
        job.settled = True
        del self._running[stream]
        if stream.log.end_compaction(compaction):
            self._dirty(stream)  # there may be another one when this is durable
        elif job.error is not None and not compaction.cancelled:
            self._fail(stream, job.error)

    def _fail(self, stream: Committing, error: Exception) -> None:
        _log.error("a segment is not compacted: %s", error)
        self._resting[stream] = self._world.call_later(_REST_S, lambda: self._rested(stream))

    def _rested(self, stream: Committing) -> None:
        del self._resting[stream]
        self.consider(stream)

    def forget(self, stream: Committing) -> None:
        """Nothing of this stream is to be written any more; returns when nothing is."""
        self._due.pop(stream, None)
        if stream in self._resting:
            self._resting.pop(stream).cancel()
        compaction, job = self._running.pop(stream, (None, None))
        if compaction is not None and job is not None:
            compaction.cancelled = True
            job.finish()
            job.settled = True
            stream.log.end_compaction(compaction)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for resting in self._resting.values():
            resting.cancel()
        self._resting.clear()
