"""The log of one stream: segments in order, the index over them, and what is durable.

    ``log_reader``   finding and reading
    ``log_writer``   appending, and commits
    ``log_removal``   removing messages and segments
    here              opening, damage, and files that are rewritten

Always true:  sequences only rise and are never used twice;  everything at or below `committed` survives a
crash;  a message whose removal was committed does not come back;  ``get`` reads committed messages only.
Not here:     which messages to keep, and what their headers mean (``jetstream``);  reading many
(``cursor``);  opening (``recovery``).  Everything but ``Commit.run`` and ``Rewriting.run`` is called on one
thread (docs/concurrency.md).
"""

from __future__ import annotations

import itertools
import logging

from millstream.store.commit import segment_path
from millstream.store.compaction import Compaction
from millstream.store.compression import Compression
from millstream.store.erasure import Erasure
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem
from millstream.store.log_removal import LogRemoval
from millstream.store.losses import MOST_LISTED, Damage
from millstream.store.record import Kind
from millstream.store.segment import Segment
from millstream.store.segment_job import SegmentJob
from millstream.store.segment_rewrite import Rewriting

_SKIP = int(Kind.SKIP)

_log = logging.getLogger("millstream.store")

DEFAULT_SEGMENT_SIZE = 16 * 1024 * 1024


class Log(LogRemoval):
    """The log of one stream; see the module.  Created by ``recovery.open_log``."""

    def __init__(self, fs: FileSystem, folder: str, segment_size: int = DEFAULT_SEGMENT_SIZE) -> None:
        LogRemoval.__init__(self, fs, folder, segment_size)
        self.block_size = 0  # of the blocks in which sealed segments are compressed; 0: they are not
        self.late = 0  # segments that were to be erased since the last look, and are not (``age_removals``)
        self._leftovers: list[Rewriting] = []  # whose new file could not be removed yet

    # -- opening (see ``recovery``) ---------------------------------------------------------------

    def adopt(self, segment: Segment) -> None:
        """Add the next segment found on disk; its subjects are already in the index."""
        if self._active is not None:
            self._seal(self._active)
        self.segments.append(segment)
        self._bases.append(segment.base_seq)
        self._latest = None
        self._active = segment
        self.messages += segment.count
        self.record_bytes += segment.all_bytes
        self.with_headers += segment.with_headers
        if segment.last_seq > self.last_seq:
            self.last_seq = segment.last_seq
        if segment.last_timestamp > self.last_timestamp:
            self.last_timestamp = segment.last_timestamp

    def settle(self) -> None:
        """Apply the removals recorded in the segments, after all of them were added."""
        if self.segments:
            self.first_seq = self.segments[0].base_seq
        floor = max([segment.floor for segment in self.segments], default=0)
        if floor:
            self.remove_below(floor)
        removed: list[int] = []
        for segment in self.segments:
            removed += segment.removals.to_list()
        removed.sort()  # so that the tables of each segment are loaded once
        for seq in removed:
            target = self.segment_of(seq)
            if target is None or not target.base_seq <= seq <= target.last_seq:
                continue
            self.load(target)
            ordinal = target.ordinal_of(seq)
            if ordinal >= 0:
                self._forget(target, ordinal)
        for segment in list(self.segments):
            self._retire(segment)
        self._floor = 0
        self._advance_first(self.first_seq)
        self.committed = self.last_seq

    # -- what reading finds out -------------------------------------------------------------------

    def came_back(self, segment: Segment, found: Segment | None) -> None:
        if found is not None:
            self._relearn(segment, found)
        if not segment.summarized and segment not in self._work.unsummarized:
            self._work.unsummarized.append(segment)

    def was_erased(self, seq: int) -> None:
        self.remove(seq)

    def report_damage(self, segment: Segment, ordinal: int) -> None:
        """Report a damaged record and give up its message."""
        seq = segment.seq_at(ordinal)
        if self.remove(seq):
            path = segment_path(self.folder, segment.number)
            offset, size = segment.offset_at(ordinal), segment.size_of(ordinal)
            self.losses.add(Damage(path, offset, size, "damaged record", [seq]), 1)
            _log.error("%s: damaged record, %d bytes at %d, sequence %d is lost", path, size, offset, seq)

    def _relearn(self, segment: Segment, found: Segment) -> None:
        """Count again: summary and file are damaged, and the file contains less than was known."""
        gone = set(self._removing)
        for each in self.segments:
            gone.update(each.removals.to_list())
        path = segment_path(self.folder, segment.number)
        first, last = max(segment.base_seq, self.first_seq), segment.last_seq
        sequences = _missing(found, first, last, gone)
        most = max(segment.live - found.count, len(sequences))
        self.losses.add(Damage(path, 0, segment.size, "damaged segment", sequences), most)
        _log.error("%s: damaged segment without a summary, at most %d messages lost", path, most)
        segment.become(found)
        self._latest = None
        for ordinal in range(segment.count):
            seq = segment.seq_at(ordinal)
            if seq in gone or seq < self.first_seq:
                segment.mark_removed(ordinal, segment.size_of(ordinal))
        self.count_again()

    def count_again(self) -> None:
        """Rebuild the index and all counts from the segments."""
        self.index.clear()
        self._last_node = None
        self.messages = self.record_bytes = self.with_headers = 0
        for segment in list(self.segments):
            self.load(segment)
            ordinal = segment.next_live(0)
            while ordinal < segment.count:
                self.index.add(segment.subject_at(ordinal), segment.seq_at(ordinal))
                self.messages += 1
                self.record_bytes += segment.size_of(ordinal)
                self.with_headers += segment.has_headers(ordinal)
                ordinal = segment.next_live(ordinal + 1)
        self._advance_first(self.first_seq)

    # -- what was removed leaves the disk ---------------------------------------------------------

    def shed(self) -> None:
        """Begin another segment if nothing in the active one is live, so that its file can be removed."""
        active = self._active
        if active is None or active.live or not active.count or active.held:
            return
        segment = self._roll()
        if self.messages == 0:
            self._floor = max(self._floor, self.last_seq + 1)
            if active.writing is None:
                active.drop_pending()  # it need not be written to be removed: the disk may be full
        # The file that says which sequences were used goes, so the new one does.
        segment.note_other(segment.write(_SKIP, self.last_seq, self.last_timestamp, b"", b"", 0, 0, 0))
        self._retire(active)

    def age_removals(self) -> int:
        """Mark the segments that contain removed content; those already marked become due.

        Call it at regular intervals: removed content is due after one to two of them, and
        ``compaction_candidate`` then returns its segment.  Also schedules a commit for files and summaries
        that the last commits could not tidy up.  Returns the number of segments with removed content.
        """
        found = self.late = 0
        self._leftovers = [each for each in self._leftovers if not each.discard()]
        for segment in list(self.segments):
            if segment.live == 0:
                self._retire(segment)
            if segment.exposed() <= 0:
                segment.overdue = segment.due = False
                continue
            found += 1
            self.late += segment.due
            segment.due = segment.overdue
            segment.overdue = True
        if self._active is not None and self._active.due:
            self.shed()
        if self._work.doomed or self._work.unsummarized:
            self._tidying = True
        return found

    # -- compaction (see ``compaction``, ``compression`` and ``erasure``) -------------------------

    def compaction_candidate(self) -> Segment | None:
        """Return a segment to compact, compress or erase; None if there is none, or one is in progress."""
        under_way = self._commit is not None and self._commit.work.folder_changed
        if self._compaction is not None or self._renamed or self._work.folder_changed or under_way:
            return None  # two files exchanged at once could not vouch for each other
        for segment in self.segments:
            if segment.pins:
                continue
            if not segment.sealed:
                if segment.due:
                    return segment
                continue
            wanted = segment.due or _is_mostly_dead(segment) or (self.block_size and not segment.compressed)
            if wanted and segment.summarized and segment.pending.size == 0:
                return segment
        return None

    def begin_compaction(self, segment: Segment) -> SegmentJob:
        """Prepare to change a segment's file: ``run`` elsewhere when it is `ready`, then ``end_compaction``.

        If it is not ready, the next commit makes it ready.
        """
        self.load(segment)
        mostly_dead = segment.sealed and _is_mostly_dead(segment)
        job: SegmentJob
        if segment.due and not segment.compressed and not mostly_dead:
            job = self._erasure(segment)
        elif self.block_size and not segment.compressed and not mostly_dead:
            file = self.tables.file(segment)
            job = Compression(self.fs, self.folder, segment, file, self.block_size)
        else:
            file, kept = self.tables.file(segment), self._needed_removals(segment)
            job = Compaction(self.fs, self.folder, segment, file, kept, self.block_size)
        segment.pins += 1
        self._compaction = job
        if self._commit is not None or self.uncommitted or self._work.unsynced or job.old is None:
            self._work.jobs.append(job)
        else:
            job.ready = True
        return job

    def _erasure(self, segment: Segment) -> Erasure:
        ordinals = segment.exposed_ordinals()
        if not segment.sealed and ordinals and ordinals[-1] == segment.count - 1:
            # If power goes while the last message is overwritten, this still tells its sequence.
            segment.note_other(segment.write(_SKIP, self.last_seq, self.last_timestamp, b"", b"", 0, 0, 0))
        return Erasure(self.fs, self.folder, segment, ordinals)

    def end_compaction(self, job: SegmentJob) -> bool:
        """Use what ``run`` wrote, after it returned or raised; return False if that cannot be used."""
        self._compaction = None
        segment = job.segment
        segment.pins -= 1
        if job in self._work.jobs:
            self._work.jobs.remove(job)
        if segment not in self.segments:
            self._doom(segment)
        if isinstance(job, Erasure):
            return self._end_erasure(segment, job)
        assert isinstance(job, Rewriting)
        return self._end_rewriting(segment, job)

    def _end_erasure(self, segment: Segment, erasure: Erasure) -> bool:
        if not erasure.done or segment not in self.segments:
            return False
        fresh = erasure.relabelled
        if fresh is None:
            if segment.sealed:
                return (
                    True  # meanwhile; its summary is being written, so it is erased again with the next look
                )
            fresh = segment.relabelled(erasure.ordinals)
        segment.adopt_tables(fresh)
        if segment.summarized:
            segment.forget_sums()
        segment.overdue = segment.due = False
        return True

    def _end_rewriting(self, segment: Segment, compaction: Rewriting) -> bool:
        for seq in compaction.damaged:
            ordinal = segment.ordinal_of(seq)
            if ordinal >= 0:
                self.report_damage(segment, ordinal)
        if compaction.cancelled or compaction.file is None or segment not in self.segments:
            return self._discard(compaction)
        try:
            compaction.put_in_place()
        except StoreError:
            return self._discard(compaction)
        self._close_later([segment])
        segment.file = compaction.file
        if compaction.fresh is not None:
            self._exchange_tables(segment, compaction.fresh, compaction.removed)
        segment.compressed = compaction.compressed
        self._renamed = True
        return True

    def _discard(self, compaction: Rewriting) -> bool:
        if not compaction.discard():
            self._leftovers.append(compaction)
        return False

    def _exchange_tables(self, segment: Segment, fresh: Segment, removed: bytes) -> None:
        """Give a segment the tables of its new file, which has everything that was not in `removed`."""
        gone = segment.removed_since(removed)
        segment.become(fresh)
        self._latest = None
        for seq in gone:
            ordinal = segment.ordinal_of(seq)
            if ordinal >= 0:
                segment.mark_removed(ordinal, segment.size_of(ordinal))
        self._work.unsummarized.append(segment)


def _is_mostly_dead(segment: Segment) -> bool:
    if segment.live == 0:
        return segment.due  # it stays for what it says of others
    # With some dead messages at least: what else is needed may be more than one that is alive, for ever.
    return segment.live < segment.count and segment.live_bytes * 2 < segment.size


def _missing(found: Segment, first: int, last: int, gone: set[int]) -> list[int]:
    """Return the first sequences that should be in the segment and are not."""
    missing = (seq for seq in range(first, last + 1) if seq not in gone and not found.holds(seq))
    return list(itertools.islice(missing, MOST_LISTED))
