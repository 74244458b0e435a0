"""Remove messages from a log, one or many, and segments that are no longer needed.

A removal changes memory at once.  The next commit records which messages are gone (``log_writer``).  A
segment without live messages is dropped: a commit removes its file, after everything that it records about
other files was recorded again.

Not here: which messages to keep (``jetstream``), and how removed content leaves a file that stays (``log``).
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable

from millstream.base.numbers import Numbers
from millstream.store.commit import Commit, Overwrite
from millstream.store.errors import StoreError
from millstream.store.filters import bounds, is_literal, wanted_subjects
from millstream.store.fs import FileSystem
from millstream.store.index import SubjectNode
from millstream.store.log_writer import LogWriting
from millstream.store.record import Record, erased_record
from millstream.store.segment import Segment
from millstream.store.segment_job import SegmentJob

_log = logging.getLogger("millstream.store")

_REMOVED_AT_ONCE = 8  # messages of a subject that has too many


class LogRemoval(LogWriting):
    """The part of ``Log`` without opening, damage and compaction.

    A removal may have to read tables first.  If that raises StoreError, messages removed so far are gone,
    durably with the next commit, and the rest is unchanged.
    """

    def __init__(self, fs: FileSystem, folder: str, segment_size: int) -> None:
        LogWriting.__init__(self, fs, folder, segment_size)
        self.gone: list[int] | None = None  # if somebody wants to know: what was removed since it looked
        self.free: Callable[[SubjectNode], object] = id  # gets the tree of subjects when all are gone
        self._compaction: SegmentJob | None = None

    # -- removing ---------------------------------------------------------------------------------

    def remove(self, seq: int) -> bool:
        """Remove one message; return False if it does not exist."""
        segment = self.segment_of(seq)
        if segment is None:
            return False
        is_first = seq == self.first_seq
        if is_first:  # those behind it follow, more often than not
            self.load(segment)
        ordinal = self._seek(segment, seq, self._scratch)
        if ordinal < 0:
            if is_first and self.messages:
                self._advance_first(seq)  # the disk could not be read when it was looked for
            return False
        after = self._following(segment, seq) if is_first else 0  # which may fail: before anything changes
        if segment.loaded:
            self._forget(segment, ordinal)
        else:
            found = self._scratch
            self._discount(segment, ordinal, seq, found.size, found.header_size > 0, found.subject())
        self._removing.append(seq)
        if is_first:
            self.first_seq = after
        self._retire(segment)
        return True

    def keep_of_newest(self, most: int) -> bool:
        """Remove the first messages of the subject that was appended last, until it has `most`.

        Removes a few at a time; returns True if it still has more.
        """
        node, subject = self._last_node, self._last_subject
        left = _REMOVED_AT_ONCE
        while node is not None and subject is not None and node.count > most:
            if left == 0:
                return True
            if not self.remove(self._first_of_node(node, subject)):
                break
            left -= 1
        return False

    def remove_below(self, seq: int) -> int:
        """Remove every message below `seq`; return their number."""
        if seq > self.last_seq:
            return self._remove_all()
        before = self.messages
        reached = seq
        try:
            for segment in list(self.segments):
                if segment.base_seq >= seq:
                    break
                if segment.live:
                    reached = segment.base_seq
                    self.load(segment)
                    reached = seq
                    start = segment.first_not_below(self.first_seq)  # nothing is live before
                    self._forget_range(segment, start, segment.first_not_below(seq), None)
                self._retire(segment)
        finally:  # if a part cannot be read, what lies before it is gone
            if self.messages != before:
                self._floor = max(self._floor, reached)
            self._advance_first(max(reached, self.first_seq))
        return before - self.messages

    def _remove_all(self) -> int:
        """Remove everything, without visiting any message; return the number of messages."""
        before = self.messages
        if self.gone is not None:
            self.gone.extend(self.sequences(self.first_seq, self.last_seq))
        for segment in list(self.segments):
            segment.mark_all_removed()
            self._retire(segment)
        self.free(self.index.clear())
        self._last_node = None
        self.messages = self.record_bytes = self.with_headers = 0
        self.first_seq = self.last_seq + 1
        if before:
            self._floor = self.first_seq
        return before

    def remove_matching(self, pattern: bytes, below: int) -> int:
        """Remove every message that matches `pattern` below sequence `below`; return their number."""
        before = self.messages
        if is_literal(pattern):
            self._remove_known(pattern, below)
        lowest, highest = bounds(self.index, pattern, self.last_seq)
        if below > highest + 1:
            below = highest + 1
        if lowest >= below:
            return before - self.messages
        try:
            for segment in self.segments[self.position_of(lowest) :]:
                if segment.base_seq >= below:
                    break
                if segment.live == 0:
                    continue
                self.load(segment)
                wanted = wanted_subjects(segment, pattern)
                if wanted is None:
                    continue
                start = segment.first_not_below(lowest)
                self._remove_flagged(segment, start, segment.first_not_below(below), wanted)
        finally:
            if self.messages != before:
                self._advance_first(self.first_seq)
        return before - self.messages

    def remove_flagged(self, segment: Segment, start: int, end: int, wanted: bytes) -> int:
        """Remove messages of wanted subjects from a segment with loaded tables; return their number.

        Searches the ordinals from `start` to before `end`; none of these subjects is left before `start`.
        """
        before = self.messages
        self._remove_flagged(segment, start, end, wanted)
        if self.messages != before:
            self._advance_first(self.first_seq)
        return before - self.messages

    def _remove_flagged(self, segment: Segment, start: int, end: int, wanted: bytes) -> None:
        ordinal = start = segment.next_match(start, wanted)
        while ordinal < end:
            self._removing.append(segment.seq_at(ordinal))
            ordinal = segment.next_match(ordinal + 1, wanted)
        self._forget_range(segment, start, end, wanted)
        self._retire(segment)

    def _remove_known(self, subject: bytes, below: int) -> None:
        """Remove messages of a subject while the index knows its first one."""
        node: SubjectNode | None = self.index.find(subject)
        while node is not None and node.first_exact and node.first < below:
            if not self.remove(node.first):
                return
            node = self.index.find(subject)

    def after(self, seq: int, most: int) -> int:
        """Return the end of a part of the log that begins with `seq` and has at most `most` messages."""
        segment = self.segment_of(seq)
        if segment is None or seq > segment.last_seq:
            return self.last_seq + 1
        return min(segment.last_seq + 1, seq + most)

    def seq_behind(self, count: int) -> int:
        """Return the sequence of the message with `count` others before it; the next new one if none."""
        for segment in self.segments:
            if count >= segment.live:
                count -= segment.live
                continue
            if not segment.knows_seqs():
                self.load(segment)
            return segment.seq_at(segment.nth_live(0, count))
        return self.last_seq + 1

    def erase(self, seq: int) -> bool:
        """Remove a message; the next commit also overwrites its content on disk."""
        segment = self.segment_of(seq)
        if segment is None:
            return False
        record = Record()
        ordinal = self._seek(segment, seq, record)
        if ordinal < 0:
            return False
        if not segment.loaded:
            offset = self._stretches.start + record.start
        elif self._look(segment, ordinal, record):
            offset = segment.offset_at(ordinal)
        else:
            return False
        self.overwrite(segment, offset, erased_record(seq, record.timestamp, record.size, offset))
        self._erasing.append(seq)
        return self.remove(seq)

    def overwrite(self, segment: Segment, offset: int, data: bytes) -> None:
        """Let the next commit overwrite bytes of a file."""
        segment.pins += 1  # its file stays open for the thread that will do it
        if self._compaction is not None and self._compaction.segment is segment:
            self._compaction.cancelled = True
        self._work.overwrites.append(Overwrite(segment, offset, data))

    def _forget(self, segment: Segment, ordinal: int) -> None:
        """Remove a live message from all counts; the tables of its segment must be loaded."""
        self._discount(
            segment,
            ordinal,
            segment.seq_at(ordinal),
            segment.size_of(ordinal),
            segment.has_headers(ordinal),
            segment.subject_at(ordinal),
        )

    def _discount(
        self, segment: Segment, ordinal: int, seq: int, size: int, has_headers: bool, subject: bytes
    ) -> None:
        """Remove a live message from all counts."""
        if has_headers:
            self.with_headers -= 1
        node = self._last_node
        if node is not None and node.count > 1 and subject == self._last_subject:
            self.index.discount_node(node, seq)
        else:
            self.index.discount(subject, seq)
            self._last_node = None
        if self.gone is not None:
            self.gone.append(seq)
        segment.mark_removed(ordinal, size)
        self.messages -= 1
        self.record_bytes -= size

    def _forget_range(self, segment: Segment, start: int, end: int, wanted: bytes | None) -> None:
        """Remove live messages of wanted subjects from all counts; none of them is left before `start`."""
        if start >= end:
            return
        if self.gone is not None:
            ordinal = start
            while ordinal < end:
                ordinal = (
                    segment.next_live(ordinal) if wanted is None else segment.next_match(ordinal, wanted)
                )
                if ordinal < end:
                    self.gone.append(segment.seq_at(ordinal))
                ordinal += 1
        below = segment.seq_at(end) if end < segment.count else segment.last_seq + 1
        counts = Numbers(4, bytes(4 * segment.subjects.count))
        live, live_bytes = segment.live, segment.live_bytes
        self.with_headers -= segment.remove_range(start, end, wanted, counts)
        self.messages -= live - segment.live
        self.record_bytes -= live_bytes - segment.live_bytes
        self._last_node = None
        if counts.count <= end - start:
            for number in range(counts.count):
                if counts.at(number):
                    self.index.discount_many(segment.subjects.at(number), counts.at(number), below)
            return
        for ordinal in range(start, end):  # a stretch costs what it has, not what the segment has
            number = segment.subject_number(ordinal)
            if counts.at(number):
                self.index.discount_many(segment.subjects.at(number), counts.at(number), below)
                counts.set(number, 0)

    def _following(self, segment: Segment, seq: int) -> int:
        """Return the first message after the removal of `seq`, which is in `segment`."""
        segment.pins += 1  # its tables stay, however many others are brought in
        try:
            return self.next_seq(seq + 1) or self.last_seq + 1
        finally:
            segment.pins -= 1

    def _advance_first(self, seq: int) -> None:
        """Set `first_seq` after everything below `seq` was removed; ``remove`` retries if reading fails."""
        try:
            found = self.next_seq(seq) if self.messages else 0
        except StoreError as error:
            _log.error("%s", error)
            found = max(seq, next(each.base_seq for each in self.segments if each.live))
        self.first_seq = found or self.last_seq + 1

    # -- segments go ------------------------------------------------------------------------------

    def _retire(self, segment: Segment) -> None:
        """Drop a sealed segment without live messages, unless its records about others are needed."""
        if not segment.sealed or segment.live or segment.held:
            return
        # Not before it is written: a file is complete when the next one is there.
        if segment.pending.size or segment.writing is not None or segment not in self.segments:
            return
        needed = self._needed_removals(segment)
        if len(needed) * 6 < segment.size:  # otherwise saying it again saves no room
            self._drop(segment)

    def end_commit(self, commit: Commit) -> None:
        """Complete a commit whose ``run`` returned."""
        LogWriting.end_commit(self, commit)
        for segment, _ in commit.parts:
            self._retire(segment)
        self.tables.trim()

    def hold(self, segment: Segment) -> None:
        """Keep the segment and its file unchanged until ``release`` (see ``frozen``)."""
        segment.held += 1
        segment.pins += 1
        job = self._compaction
        if job is not None and job.segment is segment and job.replaces_file:
            job.cancelled = True

    def release(self, segment: Segment) -> None:
        """Release a held segment."""
        segment.held -= 1
        segment.pins -= 1
        if self._closed and not segment.held:
            segment.close()
            return
        self._retire(segment)

    def move(self, folder: str) -> None:
        """Use the new name of the folder."""
        self.folder = folder
        self.tables.move(folder)

    def _needed_removals(self, segment: Segment) -> list[int]:
        """Return the removals that the segment records and that are still in the files of others."""
        return [seq for seq in segment.removals.to_list() if self._lies_elsewhere(seq, segment)]

    def _drop(self, segment: Segment) -> None:
        position = self.segments.index(segment)
        del self.segments[position]
        del self._bases[position]
        self._latest = None
        segment.epoch += 1
        self.tables.drop(segment)
        self._last_node = None
        # What its removals were about may still lie in older files: say it again.
        self._removing.extend(self._needed_removals(segment))
        if segment.floor > self.segments[0].base_seq:
            self._floor = max(self._floor, segment.floor)
        if self._compaction is not None and self._compaction.segment is segment:
            self._compaction.cancelled = True  # its end dooms the segment
        else:
            self._doom(segment)
        for other in list(self.segments):
            if other.live == 0:  # it was kept for what it says of this one, perhaps
                self._retire(other)

    def _doom(self, segment: Segment) -> None:
        self._doomed.append(segment)
        for waiting in (self._work.unsynced, self._work.unsummarized):
            if segment in waiting:
                waiting.remove(segment)

    def _lies_elsewhere(self, seq: int, segment: Segment) -> bool:
        """Return True if the file of another segment may have `seq`."""
        position = bisect.bisect_right(self._bases, seq) - 1
        if position < 0:
            return False
        other = self.segments[position]
        if other is segment or seq > other.last_seq:
            return False
        return other.holds(seq) if other.loaded else True
