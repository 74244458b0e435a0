"""Removal of deleted messages from disk: files are deleted, rewritten, compressed or erased in place.

    next_job ──▶ (a commit, until it is `ready`) ──▶ SegmentJob.run (any thread) ──▶ end_job

Not here: the jobs themselves (``compaction``, ``compression``, ``erasure``), and running them
(``jetstream.stream.compactor``).
"""

from __future__ import annotations

from millstream.store.compaction import Compaction
from millstream.store.compression import Compression
from millstream.store.erasure import Erasure
from millstream.store.errors import StoreError
from millstream.store.log_commits import LogCommits
from millstream.store.log_reader import LogReader
from millstream.store.log_removal import LogRemoval
from millstream.store.log_state import LogState
from millstream.store.log_writer import LogAppender
from millstream.store.next_commit import NextCommit
from millstream.store.segment import Segment
from millstream.store.segment_chain import SegmentChain
from millstream.store.segment_job import SegmentJob
from millstream.store.segment_rewrite import Rewriting


class LogUpkeep:
    """Looks after the files of one log."""

    def __init__(
        self,
        state: LogState,
        chain: SegmentChain,
        gathered: NextCommit,
        reader: LogReader,
        writer: LogAppender,
        commits: LogCommits,
        removal: LogRemoval,
    ) -> None:
        self.block_size = 0  # of the blocks in which sealed segments are compressed; 0: they are not
        self.late = 0  # segments that were to be erased since the last look, and are not (``age_removals``)
        self._state = state
        self._chain = chain
        self._gathered = gathered
        self._reader = reader
        self._writer = writer
        self._commits = commits
        self._removal = removal
        self._leftovers: list[Rewriting] = []  # whose new file could not be removed yet

    def shed(self) -> None:
        """Begin another segment if nothing in the active one is live, so that its file can be removed."""
        active = self._chain.active
        if active is None or active.live or not active.count or active.held:
            return
        segment = self._writer.roll()
        if self._state.messages == 0:
            self._gathered.raise_floor(self._state.last_seq + 1)
            if active.writing is None:
                active.drop_pending()  # it need not be written to be removed: the disk may be full
        # The file that says which sequences were used goes, so the new one does.
        self._writer.write_used(segment)
        self._removal.retire(active)

    def age_removals(self) -> int:
        """Mark the segments that contain removed content; those already marked become due.

        Call it at regular intervals: removed content is due after one to two of them, and ``next_job`` then
        works on its segment.  Also schedules a commit for files and summaries that the last commits could not
        tidy up.  Returns the number of segments with removed content.
        """
        found = self.late = 0
        self._leftovers = [each for each in self._leftovers if not each.discard()]
        for segment in list(self._chain.segments):
            if segment.live == 0:
                self._removal.retire(segment)
            if segment.exposed() <= 0:
                segment.overdue = segment.due = False
                continue
            found += 1
            self.late += segment.due
            segment.due = segment.overdue
            segment.overdue = True
        if self._chain.active is not None and self._chain.active.due:
            self.shed()
        if self._gathered.work.doomed or self._gathered.work.unsummarized:
            self._gathered.tidying = True
        return found

    # -- work on one file -------------------------------------------------------------------------

    def candidate(self) -> Segment | None:
        """Return a segment to compact, compress or erase; None if there is none, or one is in progress."""
        running, gathered = self._commits.running, self._gathered
        under_way = running is not None and running.work.folder_changed
        if self._chain.job is not None or gathered.renamed or gathered.work.folder_changed or under_way:
            return None  # two files exchanged at once could not vouch for each other
        for segment in self._chain.segments:
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

    def begin_job(self, segment: Segment) -> SegmentJob:
        """Prepare to change a segment's file: ``run`` elsewhere when it is `ready`, then ``end_job``.

        If it is not ready, the next commit makes it ready.
        """
        self._reader.load(segment)
        job = self._job_for(segment)
        segment.pins += 1
        self._chain.job = job
        commits, work = self._commits, self._gathered.work
        if commits.running is not None or commits.has_uncommitted() or work.unsynced or job.old is None:
            work.jobs.append(job)
        else:
            job.ready = True
        return job

    def _job_for(self, segment: Segment) -> SegmentJob:
        chain = self._chain
        mostly_dead = segment.sealed and _is_mostly_dead(segment)
        if segment.due and not segment.compressed and not mostly_dead:
            return self._erasure(segment)
        file = chain.tables.file(segment)
        if self.block_size and not segment.compressed and not mostly_dead:
            return Compression(chain.fs, chain.folder, segment, file, self.block_size)
        kept = self._removal.needed_removals(segment)
        return Compaction(chain.fs, chain.folder, segment, file, kept, self.block_size)

    def _erasure(self, segment: Segment) -> Erasure:
        ordinals = segment.exposed_ordinals()
        if not segment.sealed and ordinals and ordinals[-1] == segment.count - 1:
            # If power goes while the last message is overwritten, this still tells its sequence.
            self._writer.write_used(segment)
        return Erasure(self._chain.fs, self._chain.folder, segment, ordinals)

    def end_job(self, job: SegmentJob) -> bool:
        """Use what ``run`` wrote, after it returned or raised; return False if that cannot be used."""
        self._chain.job = None
        segment = job.segment
        segment.pins -= 1
        if job in self._gathered.work.jobs:
            self._gathered.work.jobs.remove(job)
        if segment not in self._chain.segments:
            self._gathered.doom(segment)
        if isinstance(job, Erasure):
            return self._end_erasure(segment, job)
        assert isinstance(job, Rewriting)
        return self._end_rewriting(segment, job)

    def _end_erasure(self, segment: Segment, erasure: Erasure) -> bool:
        if segment not in self._chain.segments:
            return False
        if erasure.sync_failed:
            self._gathered.sync_again(segment)
        if not erasure.done:
            return False
        fresh = erasure.relabelled
        if fresh is None:
            if segment.sealed:  # meanwhile: its summary is being written, and the next look erases it again
                return True
            fresh = segment.relabelled(erasure.ordinals)
        segment.adopt_tables(fresh)
        if segment.summarized:
            segment.forget_sums()
        segment.overdue = segment.due = False
        return True

    def _end_rewriting(self, segment: Segment, rewriting: Rewriting) -> bool:
        for seq in rewriting.damaged:
            ordinal = segment.ordinal_of(seq)
            if ordinal >= 0:
                self._reader.repair.report_damage(segment, ordinal)
        if rewriting.cancelled or rewriting.file is None or segment not in self._chain.segments:
            return self._discard(rewriting)
        try:
            rewriting.put_in_place()
        except StoreError:
            return self._discard(rewriting)
        self._commits.close_later([segment])
        segment.file = rewriting.file
        if rewriting.fresh is not None:
            self._exchange_tables(segment, rewriting.fresh, rewriting.removed)
        segment.compressed = rewriting.compressed
        self._gathered.renamed = True
        return True

    def _discard(self, rewriting: Rewriting) -> bool:
        if not rewriting.discard():
            self._leftovers.append(rewriting)
        return False

    def _exchange_tables(self, segment: Segment, fresh: Segment, removed: bytes) -> None:
        """Give a segment the tables of its new file, which has everything that was not in `removed`."""
        gone = segment.removed_since(removed)
        segment.become(fresh)
        self._chain.times_changed()
        for seq in gone:
            ordinal = segment.ordinal_of(seq)
            if ordinal >= 0:
                segment.mark_removed(ordinal, segment.size_of(ordinal))
        self._gathered.work.unsummarized.append(segment)


def _is_mostly_dead(segment: Segment) -> bool:
    if segment.live == 0:
        return segment.due  # it stays for what it says of others
    # With some dead messages at least: what else is needed may be more than one that is alive, for ever.
    return segment.live < segment.count and segment.live_bytes * 2 < segment.size
