"""Find and read the messages of a log.

A position in the log is a segment and an ordinal in it.  Subjects are looked up in the index first, which
gives bounds for the search.  Single messages are found by the tables of their segment if those are in memory,
otherwise by its waypoints, with one read of the file (``waypoints``); that does not grow with the log.
Tables are loaded for passes over many messages (``tables``).

Not here: everything that changes the log.  Reading detects damaged and erased records; ``log_repair`` handles
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from millstream.store.filters import bounds, is_literal, wanted_subjects
from millstream.store.index import SubjectIndex, SubjectNode
from millstream.store.log_state import LogState
from millstream.store.record import WHOLE, Record, time_in
from millstream.store.segment import Segment
from millstream.store.segment_chain import SegmentChain
from millstream.store.stretches import LOST, NOT_THERE, Stretches
from millstream.subjects.match import matches

if TYPE_CHECKING:
    from millstream.store.log_repair import LogRepair, NoRepair
    from millstream.store.waypoints import Waypoints  # noqa: F401 - a type of the .pxd

_CLOSE = 8  # subjects of a segment for each message that is looked at before all subjects are
_WHOLE = WHOLE
_NOT_THERE = NOT_THERE
_LOST = LOST
_MANY = 256
_FEW = 3
_SHORT_STRETCH = 64 * 1024


class LogReader:
    """Finds and reads the messages of one log."""

    def __init__(self, state: LogState, chain: SegmentChain, index: SubjectIndex) -> None:
        self.stretches = Stretches(chain.tables)
        self.scratch = Record()  # for what is looked at and not handed out
        self.repair: LogRepair | NoRepair = None  # type: ignore[assignment]  # the log sets it: it reads, too
        self._state = state
        self._chain = chain
        self._index = index
        self._last_sought = 0
        self._in_order = 0  # how many were sought one behind the other

    # -- finding ----------------------------------------------------------------------------------

    def load(self, segment: Segment) -> None:
        """Load the segment's tables unless they are in memory."""
        if segment.loaded:
            segment.touched = True
        else:
            self.repair.came_back(segment, self._chain.tables.load(segment))

    def has(self, seq: int) -> bool:
        segment = self._chain.segment_of(seq)
        return segment is not None and self.seek(segment, seq, self.scratch) >= 0

    def subject_of(self, seq: int) -> bytes | None:
        """Return the subject of a live message, or None."""
        segment = self._chain.segment_of(seq)
        ordinal = -1 if segment is None else self.seek(segment, seq, self.scratch)
        if segment is None or ordinal < 0:
            return None
        return segment.subject_at(ordinal) if segment.loaded else self.scratch.subject()

    def size_of(self, seq: int) -> int:
        """Return the size of a live message's record; 0 if it does not exist."""
        segment = self._chain.segment_of(seq)
        ordinal = -1 if segment is None else self.seek(segment, seq, self.scratch)
        if segment is None or ordinal < 0:
            return 0
        return segment.size_of(ordinal) if segment.loaded else self.scratch.size

    def has_headers(self, seq: int) -> bool:
        """Return True if a message is live and has headers."""
        segment = self._chain.segment_of(seq)
        ordinal = -1 if segment is None else self.seek(segment, seq, self.scratch)
        if segment is None or ordinal < 0:
            return False
        return segment.has_headers(ordinal) if segment.loaded else self.scratch.header_size > 0

    def first_ordinal(self, segment: Segment, seq: int) -> int:
        """Return the ordinal of the segment's first message not below `seq`; `count` if there is none."""
        points = segment.waypoints
        if segment.loaded or points is None:
            return segment.first_not_below(seq)
        if seq <= segment.base_seq:
            return 0
        if seq > segment.last_seq:
            return segment.count
        if points.seqs is None:
            return min(seq - segment.base_seq, segment.count)
        if self.stretches.walk(segment, points, seq, self.scratch) != _LOST:
            return self.stretches.ordinal
        self.load(segment)
        return segment.first_not_below(seq)

    def seek(self, segment: Segment, seq: int, record: Record) -> int:
        """Return the ordinal of a live message, or -1.

        If the segment's tables are not in memory, `record` points at the message.
        """
        points = segment.waypoints
        if not segment.loaded and points is not None and not self._are_many(seq):
            if points.seqs is None:
                if not segment.base_seq <= seq < segment.base_seq + segment.count:
                    return _NOT_THERE
                if segment.is_removed(seq - segment.base_seq):
                    return _NOT_THERE
            ordinal = self.stretches.walk(segment, points, seq, record)
            if ordinal >= 0:
                return _NOT_THERE if segment.is_removed(ordinal) else ordinal
            if ordinal == _NOT_THERE and points.seqs is not None:
                return _NOT_THERE
        self.load(segment)
        return segment.ordinal_of(seq)

    def _meets_live(self, segment: Segment, seq: int) -> bool:
        """Return True if a walk to `seq` in a segment with gaps ends at a live message."""
        points, stretches = segment.waypoints, self.stretches
        if points is None or self._are_many(seq):
            return False
        stretches.walk(segment, points, max(seq, segment.base_seq), self.scratch)
        self._last_sought = stretches.met
        return stretches.met > 0 and not segment.is_removed(stretches.ordinal)

    def _are_many(self, seq: int) -> bool:
        """Return True if `seq` is one of many sequences sought in order, so that loading tables pays."""
        if seq != self._last_sought:
            self._in_order = self._in_order + 1 if seq == self._last_sought + 1 else 0
            self._last_sought = seq
        return self._in_order >= _MANY

    def next_seq(self, seq: int) -> int:
        """Return the first live sequence not below `seq`; 0 if there is none."""
        segments = self._chain.segments
        position = self._chain.position_of(seq)
        while position < len(segments):
            segment = segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < seq:
                continue
            if not segment.knows_seqs():
                if self._meets_live(segment, seq):
                    return self.stretches.met
                self.load(segment)
            ordinal = segment.next_live(segment.first_not_below(seq))
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def next_match(self, seq: int, pattern: bytes) -> int:
        """Return the first live sequence not below `seq` whose subject matches `pattern`; 0 if none."""
        if pattern == b">":
            return self.next_seq(seq)
        segments = self._chain.segments
        position = self._chain.position_of(seq)
        if position < len(segments) and not is_literal(pattern):  # whose bounds cost less than a look
            segment = segments[position]
            close = self._match_close(segment, seq, pattern)
            if not close and self.stretches.is_sure(segment, seq):
                close = self._match_near(segment, seq, pattern)
            if close:
                return close
        literal = is_literal(pattern)
        lowest, highest = bounds(self._index, pattern, self._state.last_seq)
        if seq < lowest:
            seq = lowest
        position = self._chain.position_of(seq)
        while position < len(segments) and seq <= highest:
            segment = segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < seq:
                continue
            if segment.base_seq > highest:
                return 0
            if not segment.loaded:
                near = self._match_near(segment, seq, pattern)
                if near:
                    return near
                self.load(segment)
            if literal:
                ordinal = self._next_of(segment, seq, pattern)
            else:
                close = self._match_close(segment, seq, pattern)
                if close:
                    return close
                wanted = wanted_subjects(segment, pattern)
                if wanted is None:
                    continue
                ordinal = segment.next_match(segment.next_live(segment.first_not_below(seq)), wanted)
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def _next_of(self, segment: Segment, seq: int, subject: bytes) -> int:
        """Return the ordinal of the segment's next message of a subject; `count` if there is none."""
        number = segment.subject_id(subject)
        return segment.count if number < 0 else segment.next_of(number, segment.first_not_below(seq))

    def _match_close(self, segment: Segment, seq: int, pattern: bytes) -> int:
        """Return the next match if it is among the next messages; 0 if it is not, or tables are not loaded.

        Flags of all subjects of the segment would cost more than looking at so many messages.
        """
        if not segment.loaded:
            return 0
        left = 1 + len(segment.subjects) // _CLOSE
        ordinal = segment.next_live(segment.first_not_below(seq))
        while left > 0 and ordinal < segment.count:
            if matches(segment.subject_at(ordinal), pattern):
                return segment.seq_at(ordinal)
            ordinal = segment.next_live(ordinal + 1)
            left -= 1
        return 0

    def _match_near(self, segment: Segment, seq: int, pattern: bytes) -> int:
        """Return the next match if it is in the same stretch as `seq`; 0 if the tables are needed."""
        points = segment.waypoints
        if points is None or self._are_many(seq):
            return 0
        found = self.stretches.match(segment, points, seq, pattern, self.scratch)
        if found:
            self._last_sought = found
        return found

    def last_match(self, seq: int, pattern: bytes) -> int:
        """Return the last live sequence not above `seq` whose subject matches `pattern`; 0 if none."""
        lowest, highest = bounds(self._index, pattern, self._state.last_seq)
        if seq > highest:
            seq = highest
        position = self._chain.count_up_to(seq)
        while position > 0 and seq > 0:
            position -= 1
            segment = self._chain.segments[position]
            if segment.last_seq < lowest:
                return 0
            if segment.live == 0:
                continue
            self.load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.previous_match(segment.first_not_below(seq + 1) - 1, wanted)
            if ordinal >= 0:
                return segment.seq_at(ordinal)
        return 0

    def count_of(self, subject: bytes) -> int:
        """Return the number of messages of a literal subject."""
        node = self._index.find(subject)
        return 0 if node is None else node.count

    def subjects(self, pattern: bytes) -> Iterator[bytes]:
        """Yield every subject that matches `pattern`, in no order; see ``SubjectIndex.match``."""
        for subject, _ in self._index.match(pattern):
            yield subject

    def first_of(self, subject: bytes) -> int:
        """Return the first sequence of a literal subject; 0 if it has none."""
        node = self._index.find(subject)
        return 0 if node is None else self.first_of_node(node, subject)

    def first_of_node(self, node: SubjectNode, subject: bytes) -> int:
        if not node.first_exact:
            node.first = self.next_match(node.first, subject)
            node.first_exact = True
        return node.first

    def last_of(self, subject: bytes) -> int:
        """Return the last sequence of a literal subject; 0 if it has none."""
        node = self._index.find(subject)
        return 0 if node is None else self._last_of_node(node, subject)

    def lasts(self, pattern: bytes) -> Iterator[int]:
        """Yield the last sequence of every subject that matches `pattern`, in no order."""
        for subject, node in self._index.match(pattern):
            yield self._last_of_node(node, subject)

    def _last_of_node(self, node: SubjectNode, subject: bytes) -> int:
        if not node.last_exact:
            node.last = self.last_match(node.last, subject)
            node.last_exact = True
        return node.last

    def seq_at_time(self, timestamp: int) -> int:
        """Return the first live sequence stored at or after `timestamp`; 0 if there is none."""
        position = self._chain.position_at_time(timestamp)
        if position < len(self._chain.segments):
            seq = self._near_time(self._chain.segments[position], timestamp)
            if seq:
                return self.next_seq(seq)
        record = Record()
        for segment in self._chain.segments[position:]:  # a damaged one may go while it is looked at
            if segment.live == 0 or segment.last_timestamp < timestamp:
                continue
            seq = self._near_time(segment, timestamp)
            if seq:
                return self.next_seq(seq)
            self.load(segment)
            ordinal = 0 if segment.times_fall else self._ordinal_at_time(segment, timestamp, record)
            ordinal = segment.next_live(ordinal)
            while ordinal < segment.count:
                if not segment.times_fall:
                    return segment.seq_at(ordinal)
                if self.look(segment, ordinal, record) and record.timestamp >= timestamp:
                    return segment.seq_at(ordinal)
                ordinal = segment.next_live(ordinal + 1)
        return 0

    def _near_time(self, segment: Segment, timestamp: int) -> int:
        """Return the first sequence in a segment stored at or after `timestamp`; 0: use the tables."""
        points = segment.waypoints
        if points is None or segment.times_fall or segment.last_timestamp < timestamp:
            return 0
        return self.stretches.at_time(segment, points, timestamp, self.scratch)

    def _ordinal_at_time(self, segment: Segment, timestamp: int, record: Record) -> int:
        low, high = 0, segment.count
        if segment.times.count:
            known = segment.times.first_not_below(timestamp if timestamp > 0 else 0)
            if known < segment.times.count:
                high = segment.timed.at(known)
            if known > 0:
                low = segment.timed.at(known - 1)
            found = self._ordinal_between(segment, low, high, timestamp, record)
            if found >= 0:
                return found
        while low < high:
            middle = (low + high) // 2
            probe = middle
            while probe < high and not self.look(segment, probe, record):
                probe += 1
            if probe < high and record.timestamp < timestamp:
                low = probe + 1
            else:
                high = middle
        return low

    def _ordinal_between(self, segment: Segment, low: int, high: int, timestamp: int, record: Record) -> int:
        """Search the records from `low` to before `high` with one read; return -1 to read them singly."""
        if high - low < _FEW:
            return -1
        start, end = segment.offset_at(low), segment.end_of(high - 1)
        written = segment.pending.base if segment.pending.size else segment.size
        if segment.writing is not None:
            written = segment.writing.base
        if end > written or end - start > _SHORT_STRETCH:
            return -1
        data = self._bytes(segment, start, end - start)
        first, last = low, high
        while first < last:
            middle = (first + last) // 2
            if time_in(data, segment.offset_at(middle) - start, len(data)) < timestamp:
                first = middle + 1
            else:
                last = middle
        # These times are not verified; the two at which the search ended are, and tell the same.
        for ordinal in range(max(first - 1, low), min(first + 1, high)):
            whole = record.read(data, segment.offset_at(ordinal) - start, len(data), True, start) == _WHOLE
            if not whole or (record.timestamp >= timestamp) != (ordinal == first):
                return -1
        return first

    def seq_behind(self, count: int) -> int:
        """Return the sequence of the message with `count` others before it; the next new one if none."""
        for segment in self._chain.segments:
            if count >= segment.live:
                count -= segment.live
                continue
            if not segment.knows_seqs():
                self.load(segment)
            return segment.seq_at(segment.nth_live(0, count))
        return self._state.last_seq + 1

    def after(self, seq: int, most: int) -> int:
        """Return the end of a part of the log that begins with `seq` and has at most `most` messages."""
        segment = self._chain.segment_of(seq)
        if segment is None or seq > segment.last_seq:
            return self._state.last_seq + 1
        return min(segment.last_seq + 1, seq + most)

    # -- reading ----------------------------------------------------------------------------------

    def get(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message; return False if it does not exist (any more)."""
        return seq <= self._state.committed and self.peek(seq, record)

    def peek(self, seq: int, record: Record) -> bool:
        """Point `record` at a message, committed or not; return False if it does not exist."""
        segment = self._chain.segment_of(seq)
        if segment is None:
            return False
        ordinal = self.seek(segment, seq, record)
        if ordinal < 0:
            return False
        if not segment.loaded:  # and so the record was read and verified
            if not record.is_message():
                self.repair.was_erased(seq)
            return record.is_message()
        return self.look(segment, ordinal, record) and record.is_message()

    def peek_removed(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message that was removed, if it is still in its file."""
        segment = self._chain.segment_of(seq)
        if segment is None or seq > self._state.committed:
            return False
        points = segment.waypoints
        if not segment.loaded and points is not None:
            found = self.stretches.walk(segment, points, seq, record)
            if found != _LOST:
                return found >= 0 and record.is_message()
        self.load(segment)
        ordinal = segment.first_not_below(seq)
        if ordinal >= segment.count or segment.seq_at(ordinal) != seq:
            return False
        offset = segment.offset_at(ordinal)
        data = self._bytes(segment, offset, segment.size_of(ordinal))
        whole = record.read(data, 0, len(data), True, offset) == _WHOLE
        return whole and record.seq == seq and record.is_message()

    def look(self, segment: Segment, ordinal: int, record: Record) -> bool:
        """Point `record` at a live or erased message; report damage and give up the message."""
        offset = segment.offset_at(ordinal)
        size = segment.size_of(ordinal)
        seq = segment.seq_at(ordinal)
        data = self._bytes(segment, offset, size)
        verify = seq <= self._state.committed  # checksums are filled in when it is written
        found = record.read(data, 0, len(data), verify, offset)
        if found == _WHOLE and record.seq == seq and record.is_numbered():
            if not record.is_message():
                self.repair.was_erased(seq)
            return True
        self.repair.report_damage(segment, ordinal)
        return False

    def _bytes(self, segment: Segment, offset: int, size: int) -> bytes:
        if segment.pending.size and offset >= segment.pending.base:
            return segment.pending.slice(offset - segment.pending.base, size)
        writing = segment.writing
        if writing is not None and offset >= writing.base:
            return writing.slice(offset - writing.base, size)
        data: bytes = self._chain.tables.file(segment).read(offset, size)
        return data

    def sequences(self, first: int, last: int) -> Iterator[int]:
        """Yield the live sequences from `first` to `last`."""
        seq = self.next_seq(first)
        while seq and seq <= last:
            yield seq
            seq = self.next_seq(seq + 1)
