"""A part of a log, lent to another thread while that reads it.

    extent = lend_extent(log, seq, last, patterns)    # on the log's thread
    data = extent.read(offset, size)                  # in a worker
    extent.give_back()                                # on the log's thread

An extent is a run of records in one file, described by columns: bytes with one number for each message, in
the order of the file.  It is all that a reader of columns sees of a log.

    offsets   u32, little endian: where the record begins; one more for the end of the last one
    seqs      u64: its sequence; empty if there are no gaps: then `first_seq` and so on
    removed   one bit, from the bit `first_bit` on: the message is removed; missing bits are zeros
    subjects  u32: a number for its subject in the lower 31 bits, the index of ``flags``; empty if unfiltered

The columns are copies, because the tables of a growing segment change; the file is kept by holding the
segment.  An extent is lent for milliseconds: it never waits for a client, so it hardly delays the removal of
a segment.  Messages removed meanwhile may still be read; erased messages are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.store.filters import bounds, wanted_by_any

if TYPE_CHECKING:
    from millstream.store.log import Log
    from millstream.store.segment import Segment

MOST_MESSAGES: Final = 32_768  # messages of an extent, including unwanted ones: 400 KB of columns at most


class Extent:
    """Committed messages of one file."""

    def __init__(self, log: Log, segment: Segment, start: int, end: int, last: int, filtered: bool) -> None:
        """Lend the ordinals from `start` to before `end`, at least one; `last` bounds the range."""
        count = end - start
        self._file = log.chain.tables.file(segment)
        self._log = log
        self._segment = segment
        self.count = count
        self.through = _through(segment, end, last)  # an extent that was read covers up to this sequence
        self.first_seq = segment.seq_at(start)
        ends = segment.end_of(end - 1).to_bytes(4, "little")
        self.offsets = segment.offsets.cut(4 * start, 4 * count) + ends
        self.seqs = segment.seqs.cut(8 * start, 8 * count) if segment.seqs is not None else b""
        self.removed = bytes(segment.removed[start >> 3 :]) if segment.removed is not None else b""
        self.first_bit = start & 7
        self.subjects = segment.subject_of.cut(4 * start, 4 * count) if filtered else b""
        log.removal.hold(segment)

    @property
    def identity(self) -> tuple[int, int]:
        """Return a key that is equal for extents whose subjects have the same numbers."""
        return self._segment.number, self._segment.epoch

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file; raise StoreError if it cannot be read."""
        return self._file.read(offset, size)

    def flags(self, patterns: tuple[bytes, ...], known: bytes) -> bytes:
        """Return a flag for each number of a subject: 1 if it is wanted; `known` are the first of them."""
        if len(known) >= self._segment.subjects.count:
            return known
        return known + wanted_by_any(self._segment, patterns, len(known), self._segment.subjects.count)

    def give_back(self) -> None:
        """Release the file."""
        self._log.removal.release(self._segment)


def lend_extent(
    log: Log, seq: int, last: int, patterns: tuple[bytes, ...] = (), most: int = MOST_MESSAGES
) -> Extent | None:
    """Lend the next part from `seq` on that may have wanted messages; None if there is none up to `last`.

    `last` must be committed.  The extent has at most `most` messages, including unwanted ones.
    """
    if patterns:
        seq, last = _narrow(log, seq, last, patterns)
    segments = log.chain.segments
    position = log.chain.position_of(seq)
    while position < len(segments):
        segment = segments[position]
        position += 1
        if segment.live == 0 or segment.last_seq < seq:
            continue
        if segment.base_seq > last:
            return None
        log.reader.load(segment)
        start = segment.next_live(segment.first_not_below(seq))
        end = segment.first_not_below(last + 1)
        if start < end:
            return Extent(log, segment, start, min(end, start + most), last, bool(patterns))
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
