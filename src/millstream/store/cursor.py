"""Read committed messages in order, many at a time.

A cursor has a position before a sequence and moves on: over the tables of each segment to find live, wanted
messages, and over the file in chunks, so that one read serves many records.  A chunk is small at first and
grows while most of it is used, so that few matches far apart do not read everything.

    cursor = Cursor(log, 1, (b"orders.>",))
    while cursor.next(record): ...      # False: nothing more is committed; call again after a commit

Where matches are rare, finding the next one can take long, and so can entering a segment: its tables are
loaded and its subjects compared with the patterns.  A caller that serves others too uses ``step``, which does
either only for a while:

    cursor.allow(50_000)
    while cursor.step(record): ...      # False and `tired`: the limit is reached; continue another time

Messages may be removed, segments dropped or compacted between two calls.  Each record is verified when the
cursor reaches it; a damaged one is reported to the log and left out.  Runs on the log's thread.
"""

from millstream.store.counts import count_between
from millstream.store.filters import FEW_PATTERNS, bounds, wanted_by_any
from millstream.store.log import Log
from millstream.store.record import WHOLE, Record
from millstream.store.segment import Segment

_SMALLEST_CHUNK = 4 * 1024
_LARGEST_CHUNK = 256 * 1024
_ANY_NUMBER = 2**62
_LARGE = 4096  # messages of a segment; the next one is as large, and entering it takes half a millisecond
_FEW_PATTERNS = FEW_PATTERNS
_COMPARED_WITH_FEW = 32_768  # subjects at a time: 1.5 ms
_COMPARED_WITH_MANY = 2_048
_WHOLE = WHOLE


class Cursor:
    """A position in a log."""

    def __init__(self, log: Log, seq: int = 1, patterns: tuple[bytes, ...] = ()) -> None:
        """Start with the first message not below `seq`; `patterns` selects subjects."""
        self.seq = seq  # the next one to look at
        self._log = log
        self._patterns = () if b">" in patterns else patterns
        self._segment: Segment | None = None
        self._epoch = 0  # of the segment, when `_ordinal` was right
        self._ordinal = 0
        self._wanted = b""  # a flag for each subject of the segment
        self._chunk = b""
        self._chunk_start = 0  # its place in the file
        self._chunk_size = _SMALLEST_CHUNK
        self._used = 0  # bytes of the chunk that were asked for
        self._left = 0  # how many messages ``step`` may still pass over
        self.tired = False  # it passed over as many as it was allowed to

    def move(self, seq: int) -> None:
        """Move to before `seq`."""
        segment = self._segment
        self.seq = seq
        if segment is None or segment.epoch != self._epoch or not segment.base_seq <= seq <= segment.last_seq:
            self._segment = None
        else:
            self._ordinal = segment.first_not_below(seq)

    def release(self) -> None:
        """Free the chunk, which may be of 256 KiB; the next message is read again."""
        self._chunk = b""

    def next(self, record: Record) -> bool:
        """Point `record` at the next message and move after it; return False if there is none yet."""
        self._left = _ANY_NUMBER
        return self.step(record)

    def allow(self, count: int) -> None:
        """Let ``step`` pass over about `count` unwanted messages."""
        self._left = count
        self.tired = False

    def step(self, record: Record) -> bool:
        """Do the same as ``next``, but also return False when the limit of ``allow`` is reached (`tired`)."""
        log = self._log
        while True:
            if self._left <= 0:
                self.tired = True
                return False
            segment = self._segment
            if segment is None or segment.epoch != self._epoch:
                segment = self._enter()
                if segment is None:
                    return False
            if len(self._patterns) > 0 and not self._know_subjects(segment, self._left < _ANY_NUMBER // 2):
                self.tired = True
                return False
            ordinal = self._find(segment)
            self._left -= ordinal - self._ordinal
            if ordinal >= segment.count:
                if not self._leave(segment):
                    return False
                if segment.count > _LARGE and self._left < _ANY_NUMBER // 2:
                    self._left = 0
                continue
            seq = segment.seq_at(ordinal)
            if seq > log.state.committed:
                self._ordinal = ordinal
                self.seq = seq
                return False
            whole = self._read(segment, ordinal, record)
            self._ordinal = ordinal + 1
            self.seq = seq + 1
            if whole:
                return True
            log.repair.report_damage(segment, ordinal)

    def count_from(self, seq: int) -> int:
        """Return the number of committed messages not below `seq` that the cursor would return."""
        segment = self._segment
        if segment is None or segment.epoch != self._epoch or segment.sealed or seq < segment.base_seq:
            return count_between(self._log, seq, self._log.state.committed, self._patterns)
        start = segment.first_not_below(seq)
        end = segment.first_not_below(self._log.state.committed + 1)
        if not self._patterns:
            return segment.count_live(start, end, None)
        self._know_subjects(segment, False)
        return segment.count_live(start, end, self._wanted)

    def _find(self, segment: Segment) -> int:
        if not self._patterns:
            return segment.next_live(self._ordinal)
        return segment.next_match(self._ordinal, self._wanted)

    def _know_subjects(self, segment: Segment, for_a_while: bool) -> bool:
        """Compare the segment's subjects with the patterns; return False if some are left for later."""
        known = len(self._wanted)
        end = segment.subjects.count
        if known == end:
            return True
        # The index has all subjects of a segment of which nothing was removed; else it may lack one that gets
        # messages again.
        if known == 0 and segment.live == segment.count and self._covers_all():
            self._wanted = b"\x01" * end
            return True
        if for_a_while:
            few = len(self._patterns) <= _FEW_PATTERNS
            end = min(end, known + (_COMPARED_WITH_FEW if few else _COMPARED_WITH_MANY))
        self._wanted += wanted_by_any(segment, self._patterns, known, end)
        return len(self._wanted) == segment.subjects.count

    def _covers_all(self) -> bool:
        return any(self._log.index.is_covered_by(pattern) for pattern in self._patterns)

    def _enter(self) -> Segment | None:
        """Enter the first segment with a committed message at or after `seq`."""
        log = self._log
        self._segment = None
        if self.seq > log.state.committed:
            return None
        if self._patterns:
            self._skip_to_first_match()
        segments = log.chain.segments
        position = log.chain.position_of(self.seq)
        while position < len(segments):
            segment = segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < self.seq:
                continue
            if segment.base_seq > log.state.committed:
                return None
            log.reader.load(segment)
            if segment.live == 0:
                continue
            self._segment = segment
            self._epoch = segment.epoch
            self._ordinal = segment.first_not_below(self.seq)
            self._wanted = b""
            self._chunk = b""
            return segment
        return None

    def _skip_to_first_match(self) -> None:
        """Skip sequences that cannot match according to the index."""
        log = self._log
        lowest = 0
        for pattern in self._patterns:
            first, last = bounds(log.index, pattern, log.state.last_seq)
            if last and last >= self.seq and (lowest == 0 or first < lowest):
                lowest = first
        if lowest == 0:
            self.seq = log.state.committed + 1
        elif lowest > self.seq:
            self.seq = min(lowest, log.state.committed + 1)

    def _leave(self, segment: Segment) -> bool:
        """Leave a segment at its end; return False if it still grows."""
        self._ordinal = segment.count
        if not segment.sealed:
            self.seq = max(self.seq, min(segment.last_seq, self._log.state.committed) + 1)
            return False
        self.seq = max(self.seq, segment.last_seq + 1)
        self._segment = None
        return True

    def _read(self, segment: Segment, ordinal: int, record: Record) -> bool:
        offset = segment.offset_at(ordinal)
        at = offset - self._chunk_start
        have = len(self._chunk)
        if at < 0 or at >= have or record.read(self._chunk, at, have, True, self._chunk_start) != _WHOLE:
            # Not all of it is at hand, or it is damaged: then it will be so again.
            self._fetch(segment, offset, segment.end_of(ordinal))
            at = offset - self._chunk_start
            if record.read(self._chunk, at, len(self._chunk), True, self._chunk_start) != _WHOLE:
                return False
        self._used += record.size
        return record.seq == segment.seq_at(ordinal) and record.is_message()

    def _fetch(self, segment: Segment, offset: int, end: int) -> None:
        recent = self._log.commits.recent
        if recent is not None and recent.segment is segment and recent.start <= offset < recent.end:
            self._chunk = recent.data()
            self._chunk_start = recent.start
            return
        if self._used * 2 >= self._chunk_size:
            self._chunk_size = min(self._chunk_size * 2, _LARGEST_CHUNK)
        else:
            self._chunk_size = max(self._chunk_size // 2, _SMALLEST_CHUNK)
        self._used = 0
        segment.touched = True
        self._chunk = self._log.chain.tables.file(segment).read(offset, max(self._chunk_size, end - offset))
        self._chunk_start = offset
