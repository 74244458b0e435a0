"""A part of a segment, lent to a worker while it reads it.

    lease = take_lease(log, seq, last, patterns)      # on the log's thread
    picks = lease.picks(patterns)                     # in a worker
    data = lease.file.read(offset, size)              # in the worker
    lease.give_back()                                 # on the log's thread

The needed part of the tables is copied, because those of a growing segment change; the file is kept by
holding the segment (``Log.hold``).  A lease lasts milliseconds: it never waits for a client, so it hardly
delays the removal of a segment.

Messages removed during a lease may still be read; erased messages are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.arrow.picks import Picks
from millstream.store.filters import bounds, wanted_by_any

if TYPE_CHECKING:
    from millstream.store.fs import File
    from millstream.store.log import Log
    from millstream.store.segment import Segment

MOST_MESSAGES: Final = 32_768  # messages of a lease, including unwanted ones: 400 KB of tables at most


class Lease:
    """Committed messages of one segment."""

    def __init__(self, log: Log, segment: Segment, start: int, end: int, last: int, filtered: bool) -> None:
        """Lease the ordinals from `start` to before `end`, at least one; `last` bounds the range."""
        count = end - start
        self.file: File = log.tables.file(segment)
        self.through = _through(segment, end, last)  # a read lease covers up to this sequence
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
        """Return a key that is equal for leases of a segment that has only grown in between."""
        return self._segment.number, self._segment.epoch

    def picks(self, wanted: bytes | None) -> Picks:
        """Return the messages to read; `wanted` has a flag for each subject, see ``flags``."""
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
        """Return a flag for each subject of the segment: 1 if it is wanted; `known` are the first of them."""
        if len(known) >= self._segment.subjects.count:
            return known
        return known + wanted_by_any(self._segment, patterns, len(known))

    def give_back(self) -> None:
        self._log.release(self._segment)


def take_lease(
    log: Log, seq: int, last: int, patterns: tuple[bytes, ...] = (), most: int = MOST_MESSAGES
) -> Lease | None:
    """Lease the next part from `seq` on that may have wanted messages; None if there is none up to `last`.

    `last` must be committed.  The lease has at most `most` messages, including unwanted ones.
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
    """Skip sequences that cannot match according to the index."""
    lowest = highest = 0
    for pattern in patterns:
        first, final = bounds(log.index, pattern, log.last_seq)
        if final:
            lowest = min(lowest, first) if lowest else first
            highest = max(highest, final)
    if not highest:
        return seq, 0
    return max(seq, lowest), min(last, highest)
