"""Find single messages of a sealed segment in its file, without the segment's tables.

A stretch lies between two waypoints (``waypoints``), about 4 KiB of records.  A walk goes from record to
record by their sizes, and verifies the last one.  If that is not the message sought, the walk is repeated and
verifies every record: only then is "not there" an answer.  If a record is damaged the answer is LOST, and the
caller uses the tables.

In most streams there are stretches whose records all have the same size and whose sequences have no gap.
There the position of a message is computed, and only its record is read.

The last message that was verified is remembered with its stretch: a search for a time, the match of its
subject and the read are three looks at one message.

A time is sought among the times of the waypoints, which leads to one or two stretches.  Times read for that
are not verified; the message found is.
"""

from __future__ import annotations

from millstream.store.record import HEADER_SIZE, WHOLE, Record, seq_in, size_in, time_in
from millstream.store.segment import Segment
from millstream.store.tables import Tables
from millstream.store.waypoints import Waypoints
from millstream.subjects.match import matches

NOT_THERE = -1
LOST = -2  # the file is not as the waypoints say

_WHOLE = WHOLE
_NOT_THERE = NOT_THERE
_LOST = LOST
_HEADER_SIZE = HEADER_SIZE


class Stretches:
    """Reads the stretches of one log's segments; keeps the last one."""

    def __init__(self, tables: Tables) -> None:
        self.start = 0  # where the bytes begin, in the file, that the last walk read
        self.ordinal = 0  # of the message at which the last walk ended
        self.met = 0  # its sequence; 0 if it lies behind the stretch
        self._tables = tables
        self._kept = b""  # the last stretch, which begins at:
        self._kept_start = 0  # and is of:
        self._segment: Segment | None = None
        self._epoch = 0
        self._live = 0
        self._index = 0
        self._sure_seq = 0  # the message in it that was verified last; 0: none
        self._sure_at = 0
        self._sure_ordinal = 0
        self._before = 0  # the record before the one that was found, in the stretch

    def walk(self, segment: Segment, points: Waypoints, seq: int, record: Record) -> int:
        """Point `record` at the message `seq`; return its ordinal, NOT_THERE or LOST.

        Sets `ordinal` and `met` to those of the first message not below `seq`.
        """
        self.ordinal = self.met = 0
        if self.is_sure(segment, seq):
            record.read(self._kept, self._sure_at, len(self._kept), False, self._kept_start)
            self.start = self._kept_start
            self.ordinal = self._sure_ordinal
            self.met = seq
            return self.ordinal
        index = points.before(seq)
        if index < 0:
            return _NOT_THERE
        if self._is_guessed(segment, points, index, seq, record):
            return self.ordinal
        data = self._read(segment, points, index)
        at = self._skim(data, seq)
        if at >= 0 and record.read(data, at, len(data), True, self.start) == _WHOLE and record.seq == seq:
            self.ordinal += points.ordinals.at(index)
            self.met = seq
            self._remember(seq, at, self.ordinal)
            return self.ordinal
        return self._verified_walk(data, points, index, seq, record)

    def match(self, segment: Segment, points: Waypoints, seq: int, pattern: bytes, record: Record) -> int:
        """Return the first live match from `seq` on in its stretch; 0: use the tables."""
        if self.is_sure(segment, seq):
            data = self._kept
            self.start = self._kept_start
            at = known = self._sure_at
            ordinal = self._sure_ordinal
        else:
            index = points.before(seq if seq > segment.base_seq else segment.base_seq)
            if index < 0:
                return 0
            data = self._read(segment, points, index)
            ordinal = points.ordinals.at(index)
            at = known = self._skim(data, seq)
            if at >= 0 and record.read(data, at, len(data), True, self.start) == _WHOLE and record.seq == seq:
                ordinal += self.ordinal
            else:
                at, known = 0, -1
        while at < len(data):
            if record.read(data, at, len(data), at != known, self.start) != _WHOLE:
                return 0
            if record.is_numbered():
                live = record.is_message() and not segment.is_removed(ordinal)
                if live and record.seq >= seq and matches(record.subject(), pattern):
                    self._remember(record.seq, at, ordinal)
                    return record.seq
                ordinal += 1
            at += record.size
        return 0

    def at_time(self, segment: Segment, points: Waypoints, timestamp: int, record: Record) -> int:
        """Return the first sequence stored at or after `timestamp`, removed or not; 0: use the tables.

        Times must not fall in the segment, and its last one must not be earlier.
        """
        first = self._waypoint_at_time(segment, points, timestamp)
        for index in range(first, min(first + 2, points.offsets.count)):  # or the next one begins with it
            data = self._read(segment, points, index)
            at = self._skim_time(data, timestamp)
            if at > 0 or index == first > 0:
                # What lies before should be earlier; if it is not, something damaged misled us.
                if record.read(data, self._before, len(data), True, self.start) != _WHOLE:
                    return 0
                if record.timestamp >= timestamp or self._before + record.size != at:
                    return 0
            if at < len(data):
                if record.read(data, at, len(data), True, self.start) != _WHOLE or not record.is_numbered():
                    return 0
                self._remember(record.seq, at, points.ordinals.at(index) + self.ordinal)
                return record.seq
        return 0

    # -- within a stretch ---------------------------------------------------------------------------

    def _is_guessed(self, segment: Segment, points: Waypoints, index: int, seq: int, record: Record) -> bool:
        """Read only the record of `seq`, if its stretch is even; return True if it was found."""
        if points.seqs is not None or self._keeps(segment, index):
            return False
        start = points.start(index)
        room = points.end(index) - start
        first = points.ordinals.at(index)
        count = points.ordinal_end(index, segment.count) - first
        behind = seq - points.base_seq - first
        if count < 2 or room % count or behind >= count:
            return False
        size = room // count
        at = start + behind * size
        file = segment.file
        if file is None:
            file = self._tables.file(segment)
        data: bytes = file.read(at, size)
        if record.read(data, 0, len(data), True, at) != _WHOLE or record.seq != seq:
            return False
        if not record.is_numbered():
            return False
        self.start = at
        self.ordinal = first + behind
        self.met = seq
        return True

    def _skim(self, data: bytes, seq: int) -> int:
        """Return the position of the first record not below `seq`, by sizes only; -1 if there is none.

        Sets `ordinal` to the number of messages before it.
        """
        end = len(data)
        at = 0
        passed = 0
        while end - at >= _HEADER_SIZE:
            found = seq_in(data, at, end)  # 0: of no message
            if found >= seq:
                self.ordinal = passed
                return at
            if found > 0:
                passed += 1
            size = size_in(data, at)
            if size < _HEADER_SIZE:
                break
            at += size
        return -1

    def _skim_time(self, data: bytes, timestamp: int) -> int:
        """Return the position of the first message not earlier than `timestamp`, by sizes only.

        Returns the end of the data if there is none.  Sets `_before` to the start of the record before it,
        and `ordinal` to the number of messages before it.
        """
        end = len(data)
        at = 0
        self.ordinal = self._before = 0
        while end - at >= _HEADER_SIZE:
            if seq_in(data, at, end) > 0:
                if time_in(data, at, end) >= timestamp:
                    return at
                self.ordinal += 1
            size = size_in(data, at)
            if size < _HEADER_SIZE:
                break
            self._before = at
            at += size
        return end

    def _verified_walk(self, data: bytes, points: Waypoints, index: int, seq: int, record: Record) -> int:
        self.ordinal = self.met = 0
        size = points.end(index) - self.start
        ordinal = points.ordinals.at(index)
        at = 0
        while at < size:
            if record.read(data, at, len(data), True, self.start) != _WHOLE:
                return _LOST
            if record.is_numbered():
                if record.seq >= seq:
                    break
                ordinal += 1
            at += record.size
        self.ordinal = ordinal
        if at >= size:
            return _NOT_THERE
        self.met = record.seq
        return ordinal if record.seq == seq else _NOT_THERE

    def _read(self, segment: Segment, points: Waypoints, index: int) -> bytes:
        """Return the bytes from a waypoint to the next one, and set `start` to their offset."""
        self.start = points.start(index)
        if self._keeps(segment, index):
            return self._kept
        file = segment.file
        if file is None:
            file = self._tables.file(segment)
        data: bytes = file.read(self.start, points.end(index) - self.start)
        self._kept = data
        self._kept_start = self.start
        self._sure_seq = 0
        self._segment = segment
        self._epoch = segment.epoch
        self._live = segment.live  # what was removed since may be overwritten in the file
        self._index = index
        return data

    def _keeps(self, segment: Segment, index: int) -> bool:
        return (
            self._segment is segment
            and self._index == index
            and self._epoch == segment.epoch
            and self._live == segment.live
        )

    def is_sure(self, segment: Segment, seq: int) -> bool:
        """Return True if this message was the last to be verified, and nothing has changed since."""
        return seq > 0 and seq == self._sure_seq and self._keeps(segment, self._index)

    def _remember(self, seq: int, at: int, ordinal: int) -> None:
        """Note a verified message of the stretch that is kept."""
        self._sure_seq = seq
        self._sure_at = at
        self._sure_ordinal = ordinal

    def forget(self) -> None:
        """Drop the stretch that is kept."""
        self._segment = None
        self._kept = b""

    # -- times --------------------------------------------------------------------------------------

    def _waypoint_at_time(self, segment: Segment, points: Waypoints, timestamp: int) -> int:
        """Return the last waypoint that seems earlier than `timestamp`, or the first one."""
        if points.times is not None:
            low = points.times.first_not_below(timestamp if timestamp > 0 else 0)
        else:
            low = self._sought_time(segment, points, timestamp)
        return low - 1 if low else 0

    def _sought_time(self, segment: Segment, points: Waypoints, timestamp: int) -> int:
        """Return the first waypoint that is not earlier than `timestamp`, by times read from the file.

        Messages mostly come at an even pace, so every other look is where that would put the moment, between
        the times that are known; the looks between them halve what is left.
        """
        low, high = 0, points.offsets.count  # waypoints before `low` are earlier, from `high` on are not
        before, behind = segment.first_timestamp, segment.last_timestamp  # about the times of these two
        even = True
        while low < high:
            middle = _between(low, high, before, behind, timestamp) if even else (low + high) // 2
            even = not even
            moment = self._time_at(segment, points, middle)
            if moment < timestamp:
                low, before = middle + 1, moment
            else:
                high, behind = middle, moment
        return low

    def _time_at(self, segment: Segment, points: Waypoints, index: int) -> int:
        """Return the unverified time of a waypoint's message, from the file."""
        file = segment.file
        if file is None:
            file = self._tables.file(segment)
        data: bytes = file.read(points.start(index), _HEADER_SIZE)
        return time_in(data, 0, len(data))


def _between(low: int, high: int, before: int, behind: int, timestamp: int) -> int:
    """Return the waypoint from `low` to before `high` at which a moment is, if time passes evenly there."""
    if timestamp <= before or low >= high:
        return low
    if timestamp >= behind:
        return high - 1
    part = float(timestamp - before) / float(behind - before)  # of two integers, C would drop the fraction
    return min(low + int(part * (high - low)), high - 1)
