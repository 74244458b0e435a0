"""Append to a log, and commit: how collected bytes become durable.

    append, remove ──▶ pending ──begin_commit──▶ Commit.run (write, fdatasync) ──end_commit──▶ committed

Appending changes memory at once and collects bytes; ``begin_commit`` moves those and the removals to a
``Commit``, whose ``run`` writes and syncs them in any thread, and ``end_commit`` completes it.  Meanwhile the
next batch is collected.  One commit is in progress at a time.

Not here: what a removal does to segments (``log``), and the writing itself (``commit``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.base.numbers import pack_rising
from millstream.store.commit import Commit, Work
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem
from millstream.store.index import SubjectNode
from millstream.store.log_reader import LogReading
from millstream.store.recent import Recent
from millstream.store.record import Kind
from millstream.store.scan import FARTHEST_JUMP
from millstream.store.segment import Segment
from millstream.store.segment_job import SegmentJob

_REMOVED = int(Kind.REMOVED)
_FLOOR = int(Kind.FLOOR)
_SKIP = int(Kind.SKIP)
_MESSAGE = int(Kind.MESSAGE)
_ERASE = int(Kind.ERASE)
_FARTHEST_JUMP = FARTHEST_JUMP
_MOST_MESSAGES = 65_536  # of a segment: the event loop waits while the tables of one are loaded


def close_files(files: list[File]) -> None:
    for file in files:
        file.close()


class LogWriting(LogReading):
    """The part of ``Log`` without removals."""

    def __init__(self, fs: FileSystem, folder: str, segment_size: int) -> None:
        LogReading.__init__(self, fs, folder)
        self.keeps_recent = False  # somebody waits for the next commit, to read what it wrote
        self.recent: Recent | None = None
        self.closer: Callable[[list[File]], None] = close_files  # of files that have no name any more
        self._segment_size = segment_size
        self._active: Segment | None = None
        self._last_subject: bytes | None = None
        self._last_node: SubjectNode | None = None
        self._commit: Commit | None = None
        self._closed = False
        # For the next commit:
        self._removing: list[int] = []
        self._erasing: list[int] = []
        self._floor = 0
        self._doomed: list[Segment] = []
        self._doubt = False  # something that counts already may not survive a power cut
        self._renamed = False  # a compacted file took the place of another
        self._tidying = False  # a commit is worth it for summaries and files of the ones before alone
        self._work = Work()  # and what the commits before it left
        self._spare_work: Work | None = None  # for the next commit

    # -- appending --------------------------------------------------------------------------------

    def append(
        self,
        subject: bytes,
        source: bytes,
        start: int,
        header_size: int,
        size: int,
        timestamp: int,
        marks: int,
    ) -> int:
        """Store ``source[start:start + size]``, which begins with headers; return its sequence."""
        segment = self._active
        if segment is None or segment.size >= self._segment_size or segment.count >= _MOST_MESSAGES:
            segment = self._roll()
        seq = self.last_seq + 1
        total = segment.write(_MESSAGE, seq, timestamp, subject, source, start, header_size, size)
        segment.note(seq, timestamp, subject, header_size > 0, total)
        if marks:
            segment.marks |= marks
        node = self._last_node
        if node is not None and subject == self._last_subject:
            self.index.count_one(node, seq)
        else:
            self._last_node = self.index.add(subject, seq)
            self._last_subject = subject
        if self.messages == 0:
            self.first_seq = seq
        self.last_seq = seq
        self.last_timestamp = timestamp
        self.messages += 1
        self.record_bytes += total
        if header_size > 0:
            self.with_headers += 1
        return seq

    def skip_to(self, seq: int, timestamp: int) -> None:
        """Use up all sequences up to and including `seq` without storing anything."""
        if seq <= self.last_seq:
            raise ValueError(f"sequence {seq} is used up already")
        if seq - self.last_seq > _FARTHEST_JUMP:
            self.last_seq = seq
            # The new file says where it begins, the number left out that this is no loss.
            segment = self.begin_segment(self._next_number() + 1)
        else:
            segment = self._writable()
        segment.note_other(segment.write(_SKIP, seq, timestamp, b"", b"", 0, 0, 0))
        segment.last_seq = seq
        self.last_seq = seq
        self.last_timestamp = timestamp
        if self.messages == 0:
            self.first_seq = seq + 1

    def _writable(self) -> Segment:
        segment = self._active
        if segment is None or segment.size >= self._segment_size:
            segment = self._roll()
        return segment

    def _roll(self) -> Segment:
        return self.begin_segment(self._next_number())

    def _next_number(self) -> int:
        return self._active.number + 1 if self._active is not None else 1

    def begin_segment(self, number: int) -> Segment:
        """Seal the active segment and begin another."""
        if self._active is not None:
            self._seal(self._active)
        segment = Segment(number, self.last_seq + 1)
        self.segments.append(segment)
        self._bases.append(segment.base_seq)
        self._latest = None
        self._active = segment
        return segment

    def _seal(self, segment: Segment) -> None:
        segment.sealed = True
        if segment.loaded:
            self.tables.keep(segment)
        if not segment.summarized:
            self._work.unsummarized.append(segment)

    # -- committing -------------------------------------------------------------------------------

    @property
    def committing(self) -> bool:
        """Return True while a commit is in progress."""
        return self._commit is not None

    @property
    def uncommitted(self) -> bool:
        """Return True if there is something for the next commit."""
        return self.has_uncommitted()

    def has_uncommitted(self) -> bool:
        """Return True if there is something for the next commit."""
        active = self._active
        if active is not None and active.pending.size:
            return True
        return bool(
            self._removing
            or self._erasing
            or self._floor
            or self._doomed
            or self._renamed
            or self._doubt
            or self._tidying
            or self._work.jobs
        )

    def unwritten(self) -> int:
        """Return the number of bytes of records that are not completely in a file yet."""
        total = 0
        at = len(self.segments)
        while at > 0:
            at -= 1
            segment = self.segments[at]
            size = segment.pending.size
            if segment.writing is not None:
                size += segment.writing.size
            if size == 0 and segment is not self._active:
                break
            total += size
        return total

    def gathered(self) -> int:
        """Return the number of bytes of records that await the next commit."""
        total = 0
        at = len(self.segments)
        while at > 0:
            at -= 1
            segment = self.segments[at]
            if segment.pending.size == 0:
                break
            total += segment.pending.size
        return total

    def begin_commit(self, flush: bool = False) -> Commit | None:
        """Return the next commit, or None if there is nothing to write or a commit is running.

        With `flush`, unsynced writes and unfinished cleanup of earlier commits also count.
        """
        if self._commit is not None or self._active is None:
            return None
        if not self.has_uncommitted() and not (flush and (self._work.unsynced or self._work.needs_sync())):
            return None
        removes = bool(self._removing or self._erasing or self._floor)
        if removes:
            self._log_removals()
        changed = self._changed()
        work, self._work = self._work, self._spare_work or Work()
        self._spare_work = None
        if work.unsynced:
            work.unsynced = [each for each in work.unsynced if each not in changed]
        if self._doomed:
            work.doomed += self._doomed
            self._doomed = []
        work.folder_changed = work.folder_changed or self._renamed
        self._renamed = False
        self._doubt = False
        self._tidying = False
        pending = self._active.pending
        pending.room = max(0, self._segment_size - pending.base - pending.size)
        self._commit = Commit(self.fs, self.folder, changed, self._active, work, self.last_seq)
        self._commit.only_appends = not removes and work.is_nothing()
        return self._commit

    def _changed(self) -> list[Segment]:
        """Return the segments with bytes to write; these are always the last ones."""
        at = len(self.segments)
        while at > 0:
            segment = self.segments[at - 1]
            if segment.pending.size == 0:
                break
            at -= 1
        return self.segments[at:]

    def end_commit(self, commit: Commit) -> None:
        """Complete a commit whose ``run`` returned."""
        self.committed = commit.last_seq
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
            self._close_later(commit.removed)
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

    def _close_later(self, segments: Sequence[Segment]) -> None:
        """Close files without a name in another thread: closing the last reference frees all its pages."""
        files = [segment.file for segment in segments if segment.file is not None]
        for segment in segments:
            segment.file = None
        if files:
            self.closer(files)

    def fail_commit(self, commit: Commit) -> None:
        """Undo a commit whose ``run`` raised: nothing of it is durable; its bytes are kept for a retry."""
        commit.give_back()
        self._finish(commit, commit.work)

    def _finish(self, commit: Commit, left: Work) -> None:
        """Put what was left undone before what was collected since."""
        self._commit = None
        since = self._work
        # Publishers wait for this, and nearly always there is nothing.
        if commit.folder_changed or not (left.is_nothing() and since.is_nothing()):
            if since.is_nothing() and not (left.doomed or self._doomed or commit.removed):
                left.folder_changed = commit.folder_changed
                self._work, self._spare_work = left, since
            else:
                self._work = self._together(commit, left, since)
        if self._closed:
            self.close()

    def _together(self, commit: Commit, left: Work, since: Work) -> Work:
        gone = set(left.doomed) | set(self._doomed) | set(commit.removed)
        return Work(
            [each for each in dict.fromkeys(left.unsynced + since.unsynced) if each not in gone],
            left.overwrites + since.overwrites,
            [each for each in dict.fromkeys(left.unsummarized + since.unsummarized) if each not in gone],
            left.doomed + since.doomed,
            commit.folder_changed or since.folder_changed,
            left.jobs + since.jobs,
        )

    def _make_ready(self, jobs: list[SegmentJob]) -> None:
        for job in jobs:
            try:
                job.old = job.old or self.tables.file(job.segment)
            except StoreError:
                job.cancelled = True  # it is tried again with the next look
            job.ready = True

    def _log_removals(self) -> None:
        if self._removing and min(self._removing) < self.first_seq:
            self._floor = max(self._floor, self.first_seq)
        if self._floor:
            segment = self._writable()
            segment.note_other(segment.write(_FLOOR, self._floor, self.last_timestamp, b"", b"", 0, 0, 0))
            segment.floor = max(segment.floor, self._floor)
        self._log_list(_REMOVED, sorted({seq for seq in self._removing if seq >= self._floor}))
        self._log_list(_ERASE, sorted(self._erasing))
        self._removing = []
        self._erasing = []
        self._floor = 0

    def _log_list(self, kind: int, seqs: list[int]) -> None:
        if not seqs:
            return
        segment = self._writable()
        body = pack_rising(seqs)
        total = segment.write(kind, len(seqs), self.last_timestamp, b"", body, 0, 0, len(body))
        segment.note_other(total)
        segment.removals.extend(seqs)

    def was_synced(self) -> None:
        """Record that everything written so far, and the names of files, were synced by the caller."""
        if self._commit is not None or self._doubt or any(each.doubtful for each in self._work.unsynced):
            return  # the next commit with a sync finds out
        for segment in self._work.unsynced:
            segment.synced = segment.size - segment.pending.size
        self._work.unsynced = []
        self._work.folder_changed = False

    def doubt(self, segment: Segment) -> None:
        """Let the next commit write and sync a segment that could not be synced."""
        segment.doubtful = True
        self._work.unsynced.append(segment)
        self._work.folder_changed = True
        self._doubt = True

    def close(self) -> None:
        """Close all files, after a running commit has ended.

        Files of held segments are closed on release: a descriptor closed under a reader could become another
        file's.
        """
        self._closed = True
        if self._commit is not None and self._commit.running:
            return
        self.tables.drop_all()
        for segment in [*self.segments, *self._doomed, *self._work.doomed]:
            if not segment.held:
                segment.close()
