"""A stretch of a segment, lent to a worker for as long as it takes to read it.

    lease = take_lease(log, seq, last, patterns)      # on the log's thread
    picks = lease.picks(patterns)                     # in a worker
    data = lease.file.read(offset, size)              # the same
    lease.give_back()                                 # on the log's thread

What of the tables is needed is copied, because those of a segment that grows change; the file is kept as it
is by holding the segment (``Log.hold``).  A lease is meant for milliseconds: it never waits for a client, so
a segment can be dropped as soon as it could without readers.

What is removed while a lease is out may still be read; what is erased is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.arrow.picks import Picks
from millstream.store.filters import bounds, wanted_by_any

if TYPE_CHECKING:
    from millstream.store.fs import File
    from millstream.store.log import Log
    from millstream.store.segment import Segment

MOST_MESSAGES: Final = 32_768  # of a lease, with those that are not wanted: 400 KB of tables at most


class Lease:
    """Committed messages of one segment."""

    def __init__(self, log: Log, segment: Segment, start: int, end: int, last: int, filtered: bool) -> None:
        """Ordinals from `start` to before `end`, of which there must be some; `last` bounds the range."""
        count = end - start
        self.file: File = log.tables.file(segment)
        self.through = _through(segment, end, last)  # when all is read, so is everything up to this sequence
        self._log = log
        self._segment = segment
        self._start = start
        self._count = count
        self._first_seq = segment.seq_at(start)
        ends = segment.end_of(end - 1).to_bytes(4, "little")
        self._offsets = segment.offsets.cut(4 * start, 4 * count) + ends
        self._seqs = segment.seqs.cut(8 * start, 8 * count) if segment.seqs is not None else b""
        self._removed = bytes(segment.removed) if segment.removed is not None else b""
        self._subject_of = segment.subject_of.cut(4 * start, 4 * count) if filtered else b""
        log.hold(segment)

    @property
    def identity(self) -> tuple[int, int]:
        """The same for leases of a segment that has not changed, but for growing."""
        return self._segment.number, self._segment.epoch

    def picks(self, wanted: bytes | None) -> Picks:
        """Those of the messages that are to be read; `wanted` has a flag for each subject, see ``flags``."""
        return Picks(
            self._count,
            self._offsets,
            self._seqs,
            self._first_seq,
            self._removed,
            self._start,
            self._subject_of,
            wanted,
        )

    def flags(self, patterns: tuple[bytes, ...], known: bytes) -> bytes:
        """For each subject of the segment whether it is wanted; those that are `known` stay as they are."""
        if len(known) >= self._segment.subjects.count:
            return known
        return known + wanted_by_any(self._segment, patterns, len(known))

    def give_back(self) -> None:
        self._log.release(self._segment)


def take_lease(
    log: Log, seq: int, last: int, patterns: tuple[bytes, ...] = (), most: int = MOST_MESSAGES
) -> Lease | None:
    """The next stretch from `seq` on that may have something wanted; None if there is nothing up to `last`.

    `last` must be committed.  It has at most `most` messages, with those that are not wanted.
    """
    if patterns:
        seq, last = _narrow(log, seq, last, patterns)
    position = log.position_of(seq)
    while position < len(log.segments):
        segment = log.segments[position]
        position += 1
        if segment.live == 0 or segment.last_seq < seq:
            continue
        if segment.base_seq > last:
            return None
        log.load(segment)
        start = segment.next_live(segment.first_not_below(seq))
        end = segment.first_not_below(last + 1)
        if start < end:
            return Lease(log, segment, start, min(end, start + most), last, bool(patterns))
    return None


def _through(segment: Segment, end: int, last: int) -> int:
    if end < segment.count:
        return min(segment.seq_at(end) - 1, last)
    return min(segment.last_seq, last)


def _narrow(log: Log, seq: int, last: int, patterns: tuple[bytes, ...]) -> tuple[int, int]:
    """Pass over what cannot match, where the index knows."""
    lowest = highest = 0
    for pattern in patterns:
        first, final = bounds(log.index, pattern, log.last_seq)
        if final:
            lowest = min(lowest, first) if lowest else first
            highest = max(highest, final)
    if not highest:
        return seq, 0
    return max(seq, lowest), min(last, highest)
