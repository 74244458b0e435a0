"""The log of one stream: numbered messages, durable after a commit.

Users of the store see this class and talk of sequences, subjects and times.  It holds parts with one idea
each, which know segments and ordinals and which only modules of the store use:

    ``log_state``     bounds and sums            ``log_commits``   commits
    ``segment_chain`` the segments in order      ``log_removal``   removing messages and segments
    ``index``         subjects                   ``log_repair``    opening, damage
    ``next_commit``   work for the next commit   ``log_upkeep``    files that are rewritten, erased, given up
    ``log_reader``    finding and reading        ``log_writer``    appending

Always true:  sequences only rise and are never used twice;  everything at or below `committed` survives a
crash;  a message whose removal was committed does not come back;  ``get`` reads committed messages only.
Not here:     which messages to keep, and what their headers mean (``jetstream``);  reading many
(``cursor``);  opening (``recovery``).  Everything but ``Commit.run`` and ``SegmentJob.run`` is called on one
thread (docs/concurrency.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from millstream.base.slices import Pieces
from millstream.store.blocks import BLOCK_SIZE
from millstream.store.commit import Commit
from millstream.store.fs import File, FileSystem
from millstream.store.index import SubjectIndex
from millstream.store.log_commits import LogCommits
from millstream.store.log_reader import LogReader
from millstream.store.log_removal import LogRemoval
from millstream.store.log_repair import NO_REPAIR, LogRepair
from millstream.store.log_state import LogState
from millstream.store.log_upkeep import LogUpkeep
from millstream.store.log_writer import LogAppender
from millstream.store.losses import Losses
from millstream.store.next_commit import NextCommit
from millstream.store.record import Record
from millstream.store.segment_chain import SegmentChain
from millstream.store.segment_job import SegmentJob

if TYPE_CHECKING:
    from millstream.store.segment import Segment  # noqa: F401 - a type of the .pxd

DEFAULT_SEGMENT_SIZE = 16 * 1024 * 1024


class Log:
    """The log of one stream; see the module.  Created by ``recovery.open_log``."""

    def __init__(self, fs: FileSystem, folder: str, segment_size: int = DEFAULT_SEGMENT_SIZE) -> None:
        state = self.state = LogState()
        chain = self.chain = SegmentChain(fs, folder)
        index = self.index = SubjectIndex()
        gathered = self.next_commit = NextCommit()
        reader = self.reader = LogReader(state, chain, index)
        writer = self.writer = LogAppender(state, chain, index, gathered, segment_size)
        self.commits = LogCommits(state, chain, gathered, writer)
        self.removal = LogRemoval(state, chain, index, gathered, reader, writer)
        self.losses = Losses()  # what was lost by damage
        self.repair = LogRepair(state, chain, index, gathered, reader, writer, self.removal, self.losses)
        self.upkeep = LogUpkeep(state, chain, gathered, reader, writer, self.commits, self.removal)
        reader.repair = self.repair

    # -- bounds and sums; compiled modules that need them for each message read `state` -------------

    @property
    def folder(self) -> str:
        return self.chain.folder

    @property
    def first_seq(self) -> int:
        """Return the sequence of the first live message; `last_seq` + 1 if there is none."""
        return self.state.first_seq

    @property
    def last_seq(self) -> int:
        return self.state.last_seq

    @property
    def last_timestamp(self) -> int:
        return self.state.last_timestamp

    @property
    def committed(self) -> int:
        """Return the last sequence that is durable."""
        return self.state.committed

    @property
    def messages(self) -> int:
        return self.state.messages

    @property
    def record_bytes(self) -> int:
        """Return the size of all live messages on disk."""
        return self.state.record_bytes

    @property
    def with_headers(self) -> int:
        """Return the number of live messages that have headers."""
        return self.state.with_headers

    # -- what the user of a log sets --------------------------------------------------------------

    @property
    def gone(self) -> list[int] | None:
        """Return the messages that were removed since it was set to an empty list; None: nobody asks."""
        return self.removal.gone

    @gone.setter
    def gone(self, gone: list[int] | None) -> None:
        self.removal.gone = gone

    def free_with(self, free: Callable[[Pieces[None]], object]) -> None:
        """Let `free` do the work of freeing very many subjects, slice by slice."""
        self.removal.free = free

    def close_with(self, closer: Callable[[list[File]], None]) -> None:
        """Let `closer` close files that have no name any more."""
        self.commits.closer = closer

    def keep_recent(self, keep: bool) -> None:
        """Drop the bytes of the last commit; keep those of the next if `keep`, for readers that wait."""
        self.commits.recent = None
        self.commits.keeps_recent = keep

    def compress(self, on: bool) -> None:
        """Compress sealed segments from now on, or leave them as they are."""
        self.upkeep.block_size = BLOCK_SIZE if on else 0

    @property
    def compresses(self) -> bool:
        """Return True if sealed segments are compressed."""
        return self.upkeep.block_size > 0

    def mark_ends(self, on: bool) -> None:
        """Write where commits end, so that a start can tell a commit that a power loss tore from damage."""
        self.commits.marks_ends = on

    def move(self, folder: str) -> None:
        """Use the new name of the folder."""
        self.chain.move(folder)

    # -- finding and reading (see ``log_reader``) ---------------------------------------------------

    def has(self, seq: int) -> bool:
        return self.reader.has(seq)

    def get(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message; return False if it does not exist (any more)."""
        return seq <= self.state.committed and self.reader.peek(seq, record)

    def peek(self, seq: int, record: Record) -> bool:
        """Point `record` at a message, committed or not; return False if it does not exist."""
        return self.reader.peek(seq, record)

    def had(self, seq: int) -> bool:
        """Return True if the message of a used sequence was stored: it is there, or it was removed.

        Returns False if the sequence was skipped, or if its message was lost before the log was opened.
        """
        return self.repair.had(seq)

    def peek_removed(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message that was removed, if it is still in its file."""
        return self.reader.peek_removed(seq, record)

    def subject_of(self, seq: int) -> bytes | None:
        """Return the subject of a live message, or None."""
        return self.reader.subject_of(seq)

    def size_of(self, seq: int) -> int:
        """Return the size of a live message's record; 0 if it does not exist."""
        return self.reader.size_of(seq)

    def has_headers(self, seq: int) -> bool:
        """Return True if a message is live and has headers."""
        return self.reader.has_headers(seq)

    def next_seq(self, seq: int) -> int:
        """Return the first live sequence not below `seq`; 0 if there is none."""
        return self.reader.next_seq(seq)

    def next_match(self, seq: int, pattern: bytes) -> int:
        """Return the first live sequence not below `seq` whose subject matches `pattern`; 0 if none."""
        return self.reader.next_match(seq, pattern)

    def last_match(self, seq: int, pattern: bytes) -> int:
        """Return the last live sequence not above `seq` whose subject matches `pattern`; 0 if none."""
        return self.reader.last_match(seq, pattern)

    def first_of(self, subject: bytes) -> int:
        """Return the first sequence of a literal subject; 0 if it has none."""
        return self.reader.first_of(subject)

    def last_of(self, subject: bytes) -> int:
        """Return the last sequence of a literal subject; 0 if it has none."""
        return self.reader.last_of(subject)

    def seq_at_time(self, timestamp: int) -> int:
        """Return the first live sequence stored at or after `timestamp`; 0 if there is none."""
        return self.reader.seq_at_time(timestamp)

    def first_time(self) -> int:
        """Return the time of the first live message if it is known without a read; otherwise 0.

        It is if the message is the first of the file that grows: this process wrote it, or verified it.
        """
        segment, seq = self.chain.active, self.state.first_seq
        if segment is None or not segment.loaded or seq > self.state.committed:
            return 0
        return segment.first_timestamp if segment.ordinal_of(seq) == 0 else 0

    def seq_behind(self, count: int) -> int:
        """Return the sequence of the message with `count` others before it; the next new one if none."""
        return self.reader.seq_behind(count)

    def sequences(self, first: int, last: int) -> Iterator[int]:
        """Return an iterator over the live sequences from `first` to `last`."""
        return self.reader.sequences(first, last)

    def count_of(self, subject: bytes) -> int:
        """Return the number of messages of a literal subject."""
        return self.reader.count_of(subject)

    @property
    def subject_count(self) -> int:
        """Return the number of subjects that have messages."""
        return self.index.subjects

    def subjects(self, pattern: bytes) -> Iterator[bytes]:
        """Return an iterator over the subjects that match `pattern`, in no order.

        Messages may be added and removed between two steps; whether those are found is undefined.
        """
        return self.reader.subjects(pattern)

    def lasts(self, pattern: bytes) -> Iterator[int]:
        """Return an iterator over the last sequences of these subjects."""
        return self.reader.lasts(pattern)

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
        return self.writer.append(subject, source, start, header_size, size, timestamp, marks)

    def skip_to(self, seq: int, timestamp: int) -> None:
        """Use up all sequences up to and including `seq` without storing anything."""
        self.writer.skip_to(seq, timestamp)

    def roll(self) -> None:
        """Seal the last file and begin another."""
        self.writer.roll()

    # -- removing (see ``log_removal``) -------------------------------------------------------------

    def remove(self, seq: int) -> bool:
        """Remove one message; return False if it does not exist."""
        return self.removal.remove(seq)

    def erase(self, seq: int) -> bool:
        """Remove a message; the next commit also overwrites its content on disk."""
        return self.removal.erase(seq)

    def keep_of_newest(self, most: int) -> bool:
        """Remove the first messages of the subject that was appended last, until it has `most`.

        Removes a few at a time; returns True if it still has more.
        """
        return self.removal.keep_of_newest(most)

    def remove_below(self, seq: int) -> int:
        """Remove every message below `seq`; return their number."""
        return self.removal.remove_below(seq)

    def remove_matching(self, pattern: bytes, below: int) -> int:
        """Remove every message that matches `pattern` below sequence `below`; return their number."""
        return self.removal.remove_matching(pattern, below)

    def free_subjects(self) -> None:
        """Forget all subjects of a log that is not needed any more (``free_with``)."""
        self.removal.free_subjects()

    # -- commits (see ``log_commits``) --------------------------------------------------------------

    @property
    def committing(self) -> bool:
        """Return True while a commit is in progress."""
        return self.commits.running is not None

    @property
    def uncommitted(self) -> bool:
        """Return True if there is something for the next commit."""
        return self.commits.has_uncommitted()

    def has_uncommitted(self) -> bool:
        """Return True if there is something for the next commit."""
        return self.commits.has_uncommitted()

    def unwritten(self) -> int:
        """Return the number of bytes of records that are not completely in a file yet."""
        return self.chain.unwritten()

    def gathered(self) -> int:
        """Return the number of bytes of records that await the next commit."""
        return self.chain.gathered()

    def begin_commit(self, flush: bool = False) -> Commit | None:
        """Return the next commit, or None if there is nothing to write or a commit is running.

        With `flush`, unsynced writes and unfinished cleanup of earlier commits also count.
        """
        return self.commits.begin(flush)

    def end_commit(self, commit: Commit) -> None:
        """Complete a commit whose ``run`` returned."""
        self.commits.end(commit)
        self.removal.retire_written(commit)

    def fail_commit(self, commit: Commit) -> None:
        """Undo a commit whose ``run`` raised: nothing of it is durable; its bytes are kept for a retry."""
        self.commits.fail(commit)

    def was_synced(self) -> None:
        """Record that everything written so far, and the names of files, were synced by the caller."""
        self.commits.was_synced()

    def close(self) -> None:
        """Close all files, after a running commit has ended."""
        self.commits.close()
        self.reader.repair = NO_REPAIR

    # -- what was removed leaves the disk (see ``log_upkeep``) ----------------------------------------

    def is_whole(self) -> bool:
        """Return True if there is one file without removed messages, so that nothing is to be tidied up."""
        segments = self.chain.segments
        if len(segments) != 1:
            return False
        segment = segments[0]
        return segment.live == segment.count

    def has_removed_none(self, first_seq: int) -> bool:
        """Return True if no message was removed since the log began at `first_seq`; some may be damaged."""
        segments = self.chain.segments
        begun = bool(segments) and segments[0].start_seq <= first_seq
        return begun and all(each.live == each.count for each in segments)

    def shed(self) -> None:
        """Let the next commit remove the last file, too, if nothing in it is live."""
        self.upkeep.shed()

    def age_removals(self) -> int:
        """Look for removed content on disk; return the number of files that have some.

        Call it at regular intervals: removed content is due after one to two of them.
        """
        return self.upkeep.age_removals()

    @property
    def late(self) -> int:
        """Return the number of files that were due at the last look, and are not done."""
        return self.upkeep.late

    def next_job(self) -> SegmentJob | None:
        """Return the next work on a file; None if there is none, or one is in progress.

        ``run`` it elsewhere when it is `ready`, then call ``end_job``.
        """
        segment = self.upkeep.candidate()
        return None if segment is None else self.upkeep.begin_job(segment)

    def end_job(self, job: SegmentJob) -> bool:
        """Use what ``run`` wrote, after it returned or raised; return False if that cannot be used."""
        return self.upkeep.end_job(job)

    def rest(self) -> Pieces[None]:
        """Return the work of dropping tables that were not used since the last call."""
        return self.chain.tables.rest()
