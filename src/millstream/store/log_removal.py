"""Remove messages from a log, one or many, and segments that are no longer needed.

A removal changes memory at once.  The next commit records which messages are gone (``log_writer``).  A
segment without live messages is dropped: a commit removes its file, after everything that it records about
other files was recorded again.

Not here: which messages to keep (``jetstream``), many removals in turn with other work (``purge``), and how
removed content leaves a file that stays (``log_upkeep``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from millstream.base.numbers import Numbers
from millstream.base.slices import Pieces
from millstream.store.commit import Commit
from millstream.store.errors import StoreError
from millstream.store.filters import bounds, is_literal, wanted_subjects
from millstream.store.index import SubjectIndex, SubjectNode, freeing
from millstream.store.log_reader import LogReader
from millstream.store.log_state import LogState
from millstream.store.log_writer import LogAppender
from millstream.store.next_commit import NextCommit
from millstream.store.record import Record, erased_record
from millstream.store.segment import Segment
from millstream.store.segment_chain import SegmentChain

_log = logging.getLogger("millstream.store")

_REMOVED_AT_ONCE = 8  # messages of a subject that has too many
_MOST_GATHERED = 4096  # removals that wait for the next commit; more are written to its buffer at once


class LogRemoval:
    """Removes messages and segments of one log.

    A removal may have to read tables first.  If that raises StoreError, messages removed so far are gone,
    durably with the next commit, and the rest is unchanged.
    """

    def __init__(
        self,
        state: LogState,
        chain: SegmentChain,
        index: SubjectIndex,
        gathered: NextCommit,
        reader: LogReader,
        writer: LogAppender,
    ) -> None:
        self.gone: list[int] | None = None  # if somebody wants to know: what was removed since it looked
        # Gets the work of freeing the tree of subjects when all are gone.
        self.free: Callable[[Pieces[None]], object] = id
        self._drops_many = False  # ``_look_again`` follows
        self._dropped = False  # a segment, meanwhile
        self._state = state
        self._chain = chain
        self._index = index
        self._gathered = gathered
        self._reader = reader
        self._writer = writer

    # -- removing ---------------------------------------------------------------------------------

    def remove(self, seq: int) -> bool:
        """Remove one message; return False if it does not exist."""
        segment = self._chain.segment_of(seq)
        if segment is None:
            return False
        is_first = seq == self._state.first_seq
        if is_first:  # those behind it follow, more often than not
            self._reader.load(segment)
        ordinal = self._reader.seek(segment, seq, self._reader.scratch)
        if ordinal < 0:
            if is_first and self._state.messages:
                self.advance_first(seq)  # the disk could not be read when it was looked for
            return False
        after = self._following(segment, seq) if is_first else 0  # which may fail: before anything changes
        if segment.loaded:
            self.forget(segment, ordinal)
        else:
            found = self._reader.scratch
            self._discount(segment, ordinal, seq, found.size, found.header_size > 0, found.subject())
        self._gathered.removing.append(seq)
        if is_first:
            self._state.first_seq = after
        self.retire(segment)
        self._write_many()
        return True

    def keep_of_newest(self, most: int) -> bool:
        """Remove the first messages of the subject that was appended last, until it has `most`.

        Removes a few at a time; returns True if it still has more.
        """
        node, subject = self._index.newest, self._index.newest_subject
        left = _REMOVED_AT_ONCE
        while node is not None and subject is not None and node.count > most:
            if left == 0:
                return True
            if not self.remove(self._reader.first_of_node(node, subject)):
                break
            left -= 1
        return False

    def remove_below(self, seq: int) -> int:
        """Remove every message below `seq`; return their number."""
        if seq > self._state.last_seq:
            return self._remove_all()
        before = self._state.messages
        reached = seq
        self._drops_many = True
        try:
            for segment in list(self._chain.segments):
                if segment.base_seq >= seq:
                    break
                if segment.live:
                    reached = segment.base_seq
                    self._reader.load(segment)
                    reached = seq
                    start = segment.first_not_below(self._state.first_seq)  # nothing is live before
                    self._forget_range(segment, start, segment.first_not_below(seq), None)
                self.retire(segment)
        finally:  # if a part cannot be read, what lies before it is gone
            self._look_again()
            if self._state.messages != before:
                self._gathered.raise_floor(reached)
            self.advance_first(max(reached, self._state.first_seq))
        return before - self._state.messages

    def _remove_all(self) -> int:
        """Remove everything, without visiting any message; return the number of messages."""
        before = self._state.messages
        if self.gone is not None:
            self.gone.extend(self._reader.sequences(self._state.first_seq, self._state.last_seq))
        self._drops_many = True
        try:
            for segment in list(self._chain.segments):
                segment.mark_all_removed()
                self.retire(segment)
        finally:
            self._look_again()
        self.free_subjects()
        self._state.is_empty_now()
        if before:
            self._gathered.raise_floor(self._state.first_seq)
        return before

    def free_subjects(self) -> None:
        """Forget all subjects; `free` gets the work, if there is any."""
        root = self._index.clear()
        if root.children:
            self.free(freeing(root))

    def remove_matching(self, pattern: bytes, below: int) -> int:
        """Remove every message that matches `pattern` below sequence `below`; return their number."""
        before = self._state.messages
        if is_literal(pattern):
            self._remove_known(pattern, below)
        lowest, highest = bounds(self._index, pattern, self._state.last_seq)
        if below > highest + 1:
            below = highest + 1
        if lowest >= below:
            return before - self._state.messages
        try:
            for segment in self._chain.segments[self._chain.position_of(lowest) :]:
                if segment.base_seq >= below:
                    break
                if segment.live == 0:
                    continue
                self._reader.load(segment)
                wanted = wanted_subjects(segment, pattern)
                if wanted is None:
                    continue
                start = segment.first_not_below(lowest)
                self._remove_flagged(segment, start, segment.first_not_below(below), wanted)
        finally:
            if self._state.messages != before:
                self.advance_first(self._state.first_seq)
            self._write_many()
        return before - self._state.messages

    def remove_flagged(self, segment: Segment, start: int, end: int, wanted: bytes) -> int:
        """Remove messages of wanted subjects from a segment with loaded tables; return their number.

        Searches the ordinals from `start` to before `end`; none of these subjects is left before `start`.
        """
        before = self._state.messages
        self._remove_flagged(segment, start, end, wanted)
        if self._state.messages != before:
            self.advance_first(self._state.first_seq)
        self._write_many()
        return before - self._state.messages

    def _write_many(self) -> None:
        """Write which messages were removed, if they are so many that the next commit would begin late."""
        if len(self._gathered.removing) >= _MOST_GATHERED:
            self._writer.write_removals()

    def _remove_flagged(self, segment: Segment, start: int, end: int, wanted: bytes) -> None:
        ordinal = start = segment.next_match(start, wanted)
        while ordinal < end:
            self._gathered.removing.append(segment.seq_at(ordinal))
            ordinal = segment.next_match(ordinal + 1, wanted)
        self._forget_range(segment, start, end, wanted)
        self.retire(segment)

    def _remove_known(self, subject: bytes, below: int) -> None:
        """Remove messages of a subject while the index knows its first one."""
        node: SubjectNode | None = self._index.find(subject)
        while node is not None and node.first_exact and node.first < below:
            if not self.remove(node.first):
                return
            node = self._index.find(subject)

    def erase(self, seq: int) -> bool:
        """Remove a message; the next commit also overwrites its content on disk."""
        segment = self._chain.segment_of(seq)
        if segment is None:
            return False
        record = Record()
        ordinal = self._reader.seek(segment, seq, record)
        if ordinal < 0:
            return False
        if not segment.loaded:
            offset = self._reader.stretches.start + record.start
        elif self._reader.look(segment, ordinal, record):
            offset = segment.offset_at(ordinal)
        else:
            return False
        self.overwrite(segment, offset, erased_record(seq, record.timestamp, record.size, offset))
        self._gathered.erasing.append(seq)
        return self.remove(seq)

    def overwrite(self, segment: Segment, offset: int, data: bytes) -> None:
        """Let the next commit overwrite bytes of a file."""
        self._chain.cancel_job(segment)
        self._gathered.add_overwrite(segment, offset, data)

    def forget(self, segment: Segment, ordinal: int) -> None:
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
            self._state.with_headers -= 1
        self._index.remove(subject, seq)
        if self.gone is not None:
            self.gone.append(seq)
        segment.mark_removed(ordinal, size)
        self._state.messages -= 1
        self._state.record_bytes -= size

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
        self._state.with_headers -= segment.remove_range(start, end, wanted, counts)
        self._state.messages -= live - segment.live
        self._state.record_bytes -= live_bytes - segment.live_bytes
        self._index.newest = None
        if counts.count <= end - start:
            for number in range(counts.count):
                if counts.at(number):
                    self._index.discount_many(segment.subjects.at(number), counts.at(number), below)
            return
        for ordinal in range(start, end):  # a stretch costs what it has, not what the segment has
            number = segment.subject_number(ordinal)
            if counts.at(number):
                self._index.discount_many(segment.subjects.at(number), counts.at(number), below)
                counts.set(number, 0)

    def _following(self, segment: Segment, seq: int) -> int:
        """Return the first message after the removal of `seq`, which is in `segment`."""
        segment.pins += 1  # its tables stay, however many others are brought in
        try:
            return self._reader.next_seq(seq + 1) or self._state.last_seq + 1
        finally:
            segment.pins -= 1

    def advance_first(self, seq: int) -> None:
        """Set `first_seq` after everything below `seq` was removed; ``remove`` retries if reading fails."""
        try:
            found = self._reader.next_seq(seq) if self._state.messages else 0
        except StoreError as error:
            _log.error("%s", error)
            found = max(seq, min([each.base_seq for each in self._chain.segments if each.live]))
        self._state.first_seq = found or self._state.last_seq + 1

    # -- segments go ------------------------------------------------------------------------------

    def retire(self, segment: Segment) -> None:
        """Drop a sealed segment without live messages, unless its records about others are needed."""
        if not segment.sealed or segment.live or segment.held:
            return
        # Not before it is written: a file is complete when the next one is there.
        if segment.pending.size or segment.writing is not None or segment not in self._chain.segments:
            return
        needed = self.needed_removals(segment)
        if len(needed) * 6 < segment.size:  # otherwise saying it again saves no room
            self._drop(segment)

    def retire_written(self, commit: Commit) -> None:
        """Drop segments that only waited for a commit, which has ended."""
        for segment, _ in commit.parts:
            self.retire(segment)
        self._chain.tables.trim()

    def hold(self, segment: Segment) -> None:
        """Keep the segment and its file unchanged until ``release`` (see ``frozen``)."""
        segment.held += 1
        segment.pins += 1
        job = self._chain.job
        if job is not None and job.replaces_file:
            self._chain.cancel_job(segment)

    def release(self, segment: Segment) -> None:
        """Release a held segment."""
        segment.held -= 1
        segment.pins -= 1
        if self._chain.closed and not segment.held:
            segment.close()
            return
        self.retire(segment)

    def needed_removals(self, segment: Segment) -> list[int]:
        """Return the removals that the segment records and that are still in the files of others."""
        return [seq for seq in segment.removals.to_list() if self._lies_elsewhere(seq, segment)]

    def _drop(self, segment: Segment) -> None:
        self._chain.drop(segment)
        self._index.newest = None
        # What its removals were about may still lie in older files: say it again.
        self._gathered.removing.extend(self.needed_removals(segment))
        if segment.floor > self._chain.segments[0].base_seq:
            self._gathered.raise_floor(segment.floor)
        if not self._chain.cancel_job(segment):  # otherwise its end dooms the segment
            self._gathered.doom(segment)
        if self._drops_many:
            self._dropped = True
        else:
            self._retire_empty()

    def _retire_empty(self) -> None:
        """Drop segments that were kept for what they say of one that was dropped, perhaps."""
        for other in list(self._chain.segments):
            if other.live == 0:
                self.retire(other)

    def _look_again(self) -> None:
        """Do after many drops what otherwise follows each: it looks at all segments."""
        self._drops_many = False
        if self._dropped:
            self._dropped = False
            self._retire_empty()

    def _lies_elsewhere(self, seq: int, segment: Segment) -> bool:
        """Return True if the file of another segment may have `seq`."""
        other = self._chain.segment_of(seq)
        if other is None or other is segment or seq > other.last_seq:
            return False
        return other.holds(seq) if other.loaded else True
