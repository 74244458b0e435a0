"""Taking messages away from a log, one or many, and segments that nobody needs any more.

A removal changes memory at once.  The next commit writes which messages are gone (``log_writing``), and a
segment without live messages is dropped: its file goes with a commit, after all that it says of others was
said again.

Not here: which messages to keep (``jetstream``), and how removed content leaves a file that stays (``log``).
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable

from millstream.store.commit import Commit, Overwrite
from millstream.store.errors import StoreError
from millstream.store.filters import bounds, is_literal, wanted_subjects
from millstream.store.fs import FileSystem
from millstream.store.index import SubjectNode
from millstream.store.log_writing import LogWriting
from millstream.store.numbers import Numbers
from millstream.store.record import Record, erased_record
from millstream.store.segment import Segment
from millstream.store.segment_job import SegmentJob

_log = logging.getLogger("millstream.store")

_REMOVED_AT_ONCE = 8  # messages of a subject that has too many


class LogRemoval(LogWriting):
    """What ``Log`` can do but for opening, damage and compaction.

    What takes messages away may have to read tables first.  If that fails (StoreError), what was taken away
    so far is gone, for good with the next commit, and the rest is as it was.
    """

    def __init__(self, fs: FileSystem, folder: str, segment_size: int) -> None:
        LogWriting.__init__(self, fs, folder, segment_size)
        self.gone: list[int] | None = None  # if somebody wants to know: what was removed since it looked
        self.free: Callable[[SubjectNode], object] = id  # gets the tree of subjects when all are gone
        self._compaction: SegmentJob | None = None

    # -- removing ---------------------------------------------------------------------------------

    def remove(self, seq: int) -> bool:
        """Take one message away; False if it is not there."""
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
        """Take away the first messages of the subject that was appended last, until it has `most`.

        Returns whether it still has more: a few are taken away at a time.
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
        """Take every message below `seq` away; how many there were."""
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
        """However many there are: no message is looked at."""
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
        """Take away every message under `pattern` whose sequence is below `below`; how many."""
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
        """Take away messages of a segment, whose tables are loaded: those of wanted subjects; how many.

        They are sought from ordinal `start` to before `end`; none of these subjects is left before `start`.
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
        """Take messages of a subject away as long as the index knows which one is the first."""
        node: SubjectNode | None = self.index.find(subject)
        while node is not None and node.first_exact and node.first < below:
            if not self.remove(node.first):
                return
            node = self.index.find(subject)

    def after(self, seq: int, most: int) -> int:
        """The end of a stretch of the log that begins with `seq` and has at most so many messages."""
        segment = self.segment_of(seq)
        if segment is None or seq > segment.last_seq:
            return self.last_seq + 1
        return min(segment.last_seq + 1, seq + most)

    def seq_behind(self, count: int) -> int:
        """The sequence of the message with `count` others before it; the next to be given out if none."""
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
        """Have the next commit destroy what is there."""
        segment.pins += 1  # its file stays open for the thread that will do it
        if self._compaction is not None and self._compaction.segment is segment:
            self._compaction.cancelled = True
        self._work.overwrites.append(Overwrite(segment, offset, data))

    def _forget(self, segment: Segment, ordinal: int) -> None:
        """Take a live message out of every count; the tables of its segment are loaded."""
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
        """Take a live message out of every count."""
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
        """Take live messages out of every count: those of wanted subjects, of which none is left before."""
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
        """What is the first message when `seq`, which is in `segment`, is gone."""
        segment.pins += 1  # its tables stay, however many others are brought in
        try:
            return self.next_seq(seq + 1) or self.last_seq + 1
        finally:
            segment.pins -= 1

    def _advance_first(self, seq: int) -> None:
        """Nothing is left below `seq`.  If it cannot be read what is, ``remove`` of the first looks again."""
        try:
            found = self.next_seq(seq) if self.messages else 0
        except StoreError as error:
            _log.error("%s", error)
            found = max(seq, next(each.base_seq for each in self.segments if each.live))
        self.first_seq = found or self.last_seq + 1

    # -- segments go ------------------------------------------------------------------------------

    def _retire(self, segment: Segment) -> None:
        """A sealed segment without live messages is not needed, unless for what it says of others."""
        if not segment.sealed or segment.live or segment.held:
            return
        # Not before it is written: a file is complete when the next one is there.
        if segment.pending.size or segment.writing is not None or segment not in self.segments:
            return
        needed = self._needed_removals(segment)
        if len(needed) * 6 < segment.size:  # otherwise saying it again saves no room
            self._drop(segment)

    def end_commit(self, commit: Commit) -> None:
        """The commit's ``run`` returned."""
        LogWriting.end_commit(self, commit)
        for segment, _ in commit.parts:
            self._retire(segment)
        self.tables.trim()

    def hold(self, segment: Segment) -> None:
        """Keep the segment and its file as they are until ``release`` (see ``frozen``)."""
        segment.held += 1
        segment.pins += 1
        job = self._compaction
        if job is not None and job.segment is segment and job.replaces_file:
            job.cancelled = True

    def release(self, segment: Segment) -> None:
        """Whoever held the segment does not need it any more."""
        segment.held -= 1
        segment.pins -= 1
        if self._closed and not segment.held:
            segment.close()
            return
        self._retire(segment)

    def move(self, folder: str) -> None:
        """Its folder was renamed."""
        self.folder = folder
        self.tables.move(folder)

    def _needed_removals(self, segment: Segment) -> list[int]:
        """What it says was removed, and still lies in the file of another."""
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
        """Whether the file of another segment may have `seq`."""
        position = bisect.bisect_right(self._bases, seq) - 1
        if position < 0:
            return False
        other = self.segments[position]
        if other is segment or seq > other.last_seq:
            return False
        return other.holds(seq) if other.loaded else True
