"""The commits of a log: how collected bytes become durable.

    append, remove ──▶ pending ──begin──▶ Commit.run (write, fdatasync) ──end──▶ committed

``begin`` moves collected bytes and removals to a ``Commit``, whose ``run`` writes and syncs them in any
thread, and ``end`` completes it.  Meanwhile the next batch is collected.  One commit is in progress at a
time.  Not here: the writing itself (``commit``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from millstream.store import unsynced
from millstream.store.commit import Commit, Work
from millstream.store.errors import StoreError
from millstream.store.fs import File, close_files
from millstream.store.log_state import LogState
from millstream.store.log_writer import LogAppender
from millstream.store.next_commit import NextCommit
from millstream.store.recent import Recent
from millstream.store.segment import Segment
from millstream.store.segment_chain import SegmentChain
from millstream.store.segment_job import SegmentJob

if TYPE_CHECKING:
    from millstream.store.record import RecordBuffer  # noqa: F401 - a type of the .pxd


class LogCommits:
    """Begins and ends the commits of one log."""

    def __init__(
        self, state: LogState, chain: SegmentChain, gathered: NextCommit, writer: LogAppender
    ) -> None:
        self.marks_ends = False  # commits end with a record that tells where they began
        self.keeps_recent = False  # somebody waits for the next commit, to read what it wrote
        self.recent: Recent | None = None
        self.closer: Callable[[list[File]], None] = close_files  # of files that have no name any more
        self.running: Commit | None = None
        self._state = state
        self._chain = chain
        self._gathered = gathered
        self._writer = writer

    def has_uncommitted(self) -> bool:
        """Return True if there is something for the next commit."""
        active = self._chain.active
        return (active is not None and active.pending.size > 0) or not self._gathered.is_nothing()

    def begin(self, flush: bool) -> Commit | None:
        """Return the next commit, or None if there is nothing to write or a commit is running.

        With `flush`, unsynced writes and unfinished cleanup of earlier commits also count.
        """
        gathered = self._gathered
        work = gathered.work
        if self.running is not None or self._chain.active is None:
            return None
        if not self.has_uncommitted() and not (flush and (work.unsynced or work.needs_sync())):
            return None
        removes = bool(gathered.removing or gathered.erasing or gathered.floor)
        if removes:
            self._writer.write_removals()
        active = self._chain.active
        if self.marks_ends and active.pending.size > 0:
            self._writer.write_end(active)
        changed = self._chain.changed()
        work = gathered.take(changed)
        active = self._chain.active
        pending = active.pending
        pending.room = max(0, self._writer.segment_size - pending.base - pending.size)
        commit = Commit(self._chain.fs, self._chain.folder, changed, active, work, self._state.last_seq)
        commit.stores = self._state.last_seq > self._state.committed
        commit.only_appends = not removes and work.is_nothing()
        self.running = commit
        return commit

    def end(self, commit: Commit) -> None:
        """Complete a commit whose ``run`` returned."""
        self._state.committed = commit.last_seq
        work = commit.work
        self.recent = Recent(*commit.parts[-1]) if self.keeps_recent and commit.parts else None
        for segment, buffer in commit.parts:
            segment.writing = None
            if self.recent is None or segment is not self.recent.segment:
                buffer.recycle()
        if commit.synced and not work.is_nothing():
            self._make_ready(work.jobs)
            for each in work.overwrites:
                each.segment.pins -= 1
            self.close_later(commit.removed)
            for segment in commit.summarized:
                segment.summarized = True
                segment.forget_sums()
            work = Work(
                unsummarized=[each for each in work.unsummarized if not each.summarized],
                doomed=[] if commit.removed else work.doomed,
            )
        elif not commit.synced:
            for segment, _ in commit.parts:
                work.unsynced.append(segment)
        self._finish(commit, work)

    def fail(self, commit: Commit) -> None:
        """Undo a commit whose ``run`` raised: nothing of it is durable; its bytes are kept for a retry."""
        commit.give_back()
        self._finish(commit, commit.work)

    def _finish(self, commit: Commit, left: Work) -> None:
        self.running = None
        self._gathered.put_back(commit, left)
        if self._chain.closed:
            self.close()

    def _make_ready(self, jobs: list[SegmentJob]) -> None:
        for job in jobs:
            try:
                job.old = job.old or self._chain.tables.file(job.segment)
            except StoreError:
                job.cancelled = True  # it is tried again with the next look
            job.ready = True

    def was_synced(self) -> None:
        """Record that everything written so far, and the names of files, were synced by the caller."""
        if self.running is None:
            self._gathered.was_synced()

    def close_later(self, segments: Sequence[Segment]) -> None:
        """Close files without a name in another thread: closing the last reference frees all its pages."""
        files = [segment.file for segment in segments if segment.file is not None]
        for segment in segments:
            segment.file = None
        if files:
            self.closer(files)

    def close(self) -> None:
        """Close all files, after a running commit has ended.

        Files of held segments are closed on release: a descriptor closed under a reader could become another
        file's.
        """
        chain = self._chain
        chain.closed = True
        if self.running is not None and self.running.running:
            return
        for segment in chain.segments:
            if segment.noted and segment.synced == segment.size:
                unsynced.clear(chain.fs, chain.folder, segment.number)
                segment.noted = False
        chain.tables.drop_all()
        for segment in [*chain.segments, *self._gathered.doomed, *self._gathered.work.doomed]:
            if not segment.held:
                segment.close()
