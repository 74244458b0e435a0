"""Finding and reading in a log: the segments in order, and the index over them.

A place in the log is a segment and an ordinal in it.  Tables of old segments are loaded when they are needed
(``tables``), subjects are looked up in the index first, which knows between which sequences to look.

Not here: everything that changes what is there (``log_writing``, ``log``).  Reading finds out what is damaged
or erased; what is done then is ``Log``'s.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from millstream.store.filters import bounds, wanted_subjects
from millstream.store.fs import FileSystem
from millstream.store.index import SubjectIndex
from millstream.store.losses import Losses
from millstream.store.record import WHOLE, Record
from millstream.store.segment import Segment
from millstream.store.tables import Tables

_WHOLE = WHOLE


class LogReading:
    """What ``Log`` can do without changing anything."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self.fs = fs
        self.folder = folder
        self.index = SubjectIndex()
        self.losses = Losses()
        self.first_seq = 1  # of the first live message; `last_seq` + 1 if there is none
        self.last_seq = 0
        self.last_timestamp = 0
        self.messages = 0
        self.record_bytes = 0  # of live messages
        self.with_headers = 0  # live messages that have headers
        self.committed = 0  # last_seq as of the last commit
        self.segments: list[Segment] = []
        self.tables = Tables(fs, folder)
        self._bases: list[int] = []

    # -- what reading finds out (see ``Log``) -----------------------------------------------------

    def came_back(self, segment: Segment, found: Segment | None) -> None:
        """Its tables were loaded; `found`: what its file holds, if that is less and there is no summary."""
        raise NotImplementedError

    def was_erased(self, seq: int) -> None:
        """What is there of the message has no content any more."""
        raise NotImplementedError

    def report_damage(self, segment: Segment, ordinal: int) -> None:
        """A record is not what it should be."""
        raise NotImplementedError

    # -- finding ----------------------------------------------------------------------------------

    def position_of(self, seq: int) -> int:
        """Of the segment that has or had `seq`, or of the first one behind it."""
        position = bisect.bisect_right(self._bases, seq) - 1
        return position if position > 0 else 0

    def segment_of(self, seq: int) -> Segment | None:
        """The segment that has or had `seq`, its tables loaded."""
        position = bisect.bisect_right(self._bases, seq) - 1
        if position < 0:
            return None
        segment = self.segments[position]
        if not segment.loaded:
            self.load(segment)
        return segment

    def load(self, segment: Segment) -> None:
        """Make sure that the segment's tables are there."""
        if not segment.loaded:
            self.came_back(segment, self.tables.load(segment))

    def has(self, seq: int) -> bool:
        segment = self.segment_of(seq)
        return segment is not None and segment.ordinal_of(seq) >= 0

    def next_seq(self, seq: int) -> int:
        """The first live sequence that is not below `seq`; 0 if there is none."""
        position = self.position_of(seq)
        while position < len(self.segments):
            segment = self.segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < seq:
                continue
            self.load(segment)
            ordinal = segment.next_live(segment.first_not_below(seq))
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def next_match(self, seq: int, pattern: bytes) -> int:
        """The first live sequence not below `seq` whose subject falls under `pattern`; 0 if none."""
        lowest, highest = bounds(self.index, pattern, self.last_seq)
        if seq < lowest:
            seq = lowest
        position = self.position_of(seq)
        while position < len(self.segments) and seq <= highest:
            segment = self.segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < seq:
                continue
            if segment.base_seq > highest:
                return 0
            self.load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.next_match(segment.first_not_below(seq), wanted)
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def last_match(self, seq: int, pattern: bytes) -> int:
        """The last live sequence not above `seq` whose subject falls under `pattern`; 0 if none."""
        lowest, highest = bounds(self.index, pattern, self.last_seq)
        if seq > highest:
            seq = highest
        position = bisect.bisect_right(self._bases, seq)
        while position > 0 and seq > 0:
            position -= 1
            segment = self.segments[position]
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

    def first_of(self, subject: bytes) -> int:
        """The first sequence of a literal subject; 0 if it has none."""
        node = self.index.find(subject)
        if node is None:
            return 0
        if not node.first_exact:
            node.first = self.next_match(node.first, subject)
            node.first_exact = True
        return node.first

    def last_of(self, subject: bytes) -> int:
        """The last sequence of a literal subject; 0 if it has none."""
        node = self.index.find(subject)
        if node is None:
            return 0
        if not node.last_exact:
            node.last = self.last_match(node.last, subject)
            node.last_exact = True
        return node.last

    def seq_at_time(self, timestamp: int) -> int:
        """The first live sequence stored at or after `timestamp`; 0 if there is none."""
        record = Record()
        for segment in list(self.segments):  # a damaged one may go while it is looked at
            if segment.live == 0 or segment.last_timestamp < timestamp:
                continue
            self.load(segment)
            ordinal = 0 if segment.times_fall else self._ordinal_at_time(segment, timestamp, record)
            ordinal = segment.next_live(ordinal)
            while ordinal < segment.count:
                if not segment.times_fall:
                    return segment.seq_at(ordinal)
                if self._look(segment, ordinal, record) and record.timestamp >= timestamp:
                    return segment.seq_at(ordinal)
                ordinal = segment.next_live(ordinal + 1)
        return 0

    def _ordinal_at_time(self, segment: Segment, timestamp: int, record: Record) -> int:
        low, high = 0, segment.count
        while low < high:
            middle = (low + high) // 2
            probe = middle
            while probe < high and not self._look(segment, probe, record):
                probe += 1
            if probe < high and record.timestamp < timestamp:
                low = probe + 1
            else:
                high = middle
        return low

    # -- reading ----------------------------------------------------------------------------------

    def get(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message; False if it is not there (any more)."""
        return seq <= self.committed and self.peek(seq, record)

    def peek(self, seq: int, record: Record) -> bool:
        """The same for messages that are not committed yet as well."""
        segment = self.segment_of(seq)
        if segment is None:
            return False
        ordinal = segment.ordinal_of(seq)
        if ordinal < 0:
            return False
        return self._look(segment, ordinal, record) and record.is_message()

    def _look(self, segment: Segment, ordinal: int, record: Record) -> bool:
        """Point `record` at what is or was a message; damage is reported and the message given up."""
        offset = segment.offset_at(ordinal)
        size = segment.size_of(ordinal)
        seq = segment.seq_at(ordinal)
        data = self._bytes(segment, offset, size)
        verify = seq <= self.committed  # checksums are filled in when it is written
        found = record.read(data, 0, len(data), verify, offset)
        if found == _WHOLE and record.seq == seq and record.is_numbered():
            if not record.is_message():
                self.was_erased(seq)
            return True
        self.report_damage(segment, ordinal)
        return False

    def _bytes(self, segment: Segment, offset: int, size: int) -> bytes:
        if segment.pending.size and offset >= segment.pending.base:
            return segment.pending.slice(offset - segment.pending.base, size)
        writing = segment.writing
        if writing is not None and offset >= writing.base:
            return writing.slice(offset - writing.base, size)
        data: bytes = self.tables.file(segment).read(offset, size)
        return data

    def sequences(self, first: int, last: int) -> Iterator[int]:
        """Live sequences from `first` to `last`."""
        seq = self.next_seq(first)
        while seq and seq <= last:
            yield seq
            seq = self.next_seq(seq + 1)
