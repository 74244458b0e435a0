"""Find messages by their marks, without reading the others.

The user of a log gives each message marks, bits whose meaning it knows.  A file remembers which of them its
messages have; the last file, and files without a summary, may have all of them.
"""

from __future__ import annotations

import msgspec

from millstream.store.log import Log
from millstream.store.segment import ALL_MARKS, Segment


class MarkedRange(msgspec.Struct, frozen=True):
    """Sequences that lie in one file, and the marks that some of them may have."""

    first: int
    last: int
    last_timestamp: int  # the highest
    marks: int


def marked_ranges(log: Log) -> list[MarkedRange]:
    """Return the ranges of a log, in order; together they have all messages."""
    return [
        MarkedRange(
            segment.base_seq,
            segment.last_seq,
            segment.last_timestamp,
            segment.marks if segment.summarized else ALL_MARKS,
        )
        for segment in log.chain.segments
    ]


def add_marks(log: Log, seq: int, marks: int) -> None:
    """Record the marks of a message that were found after a restart."""
    segment = log.chain.segment_of(seq)
    if segment is not None:
        segment.marks |= marks


def with_headers(log: Log, first: int) -> list[int]:
    """Return the sequences of the messages that have headers, in the range that begins with `first`."""
    segment = log.chain.segment_of(first)
    if segment is None:
        return []
    log.reader.load(segment)
    if not segment.loaded:  # its file holds something else than its summary says
        return [seq for seq in log.sequences(segment.base_seq, segment.last_seq) if log.has_headers(seq)]
    return _with_headers(segment)


def _with_headers(segment: Segment) -> list[int]:
    found = []
    ordinal = segment.next_live(0)
    while ordinal < segment.count:
        if segment.has_headers(ordinal):
            found.append(segment.seq_at(ordinal))
        ordinal = segment.next_live(ordinal + 1)
    return found
