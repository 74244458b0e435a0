"""List the sequences that are missing in a log, in pieces (``base.slices``): there may be millions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.store.log import Log
    from millstream.store.segment import Segment

_MESSAGES_AT_ONCE: Final = 128  # of a segment, that a piece of the search looks at
_MARKS_AT_ONCE: Final = 256  # bytes of a segment's bitmap, of eight messages each
_BITS: Final = tuple(tuple(bit for bit in range(8) if value >> bit & 1) for value in range(256))
_MOST_TABLES: Final = 16  # segments whose tables are looked at


def first_missing(log: Log, most: int) -> Pieces[list[int]]:
    """Return the missing sequences between the first and the last message: the first `most`.

    Skips segments without gaps; of the others it reads at most _MOST_TABLES.
    """
    missing: list[int] = []
    if not log.messages:
        return missing
    expected, looked_at = log.first_seq, 0
    for segment in list(log.chain.segments):
        if segment.last_seq < expected:
            continue
        _add_gap(missing, expected, min(segment.base_seq, segment.last_seq + 1), most)
        expected = max(expected, segment.base_seq)
        whole = segment.live == segment.count == segment.last_seq + 1 - segment.base_seq
        if not whole and segment.live:
            looked_at += 1
            if looked_at > _MOST_TABLES:
                break
            expected = yield from _gaps_of(log, segment, expected, missing, most)
        elif whole:
            expected = segment.last_seq + 1
        if len(missing) >= most:
            return missing
        _add_gap(missing, expected, segment.last_seq + 1, most)
        expected = max(expected, segment.last_seq + 1)
        yield 1
    else:
        _add_gap(missing, expected, log.last_seq + 1, most)
    return missing


def _gaps_of(log: Log, segment: Segment, expected: int, missing: list[int], most: int) -> Pieces[int]:
    """Add what is missing in a segment from `expected` on; return the next expected sequence."""
    if segment.count == segment.last_seq + 1 - segment.base_seq:  # all are there, or marked as removed
        return (yield from _marks_of(log, segment, expected, missing, most))
    while len(missing) < most and log.chain.segment_of(expected) is segment:  # it may go meanwhile
        if not segment.knows_seqs():
            log.reader.load(segment)
        ordinal = segment.next_live(segment.first_not_below(expected))
        for _ in range(_MESSAGES_AT_ONCE):
            if ordinal >= segment.count or len(missing) >= most:
                return expected
            seq = segment.seq_at(ordinal)
            _add_gap(missing, expected, seq, most)
            expected = seq + 1
            ordinal = segment.next_live(ordinal + 1)
        yield _MESSAGES_AT_ONCE
    return expected


def _marks_of(log: Log, segment: Segment, expected: int, missing: list[int], most: int) -> Pieces[int]:
    """Do the same for a segment whose sequences follow each other, by its bitmap of removed messages."""
    while len(missing) < most and log.chain.segment_of(expected) is segment:  # it may go meanwhile
        first, skipped = divmod(expected - segment.base_seq, 8)
        marks = (segment.removed or b"")[first : first + _MARKS_AT_ONCE]
        seq = segment.base_seq + 8 * first
        for mark in marks:
            if mark:
                bits = _BITS[mark >> skipped << skipped]
                missing.extend([seq + bit for bit in bits])
            seq += 8
            skipped = 0
        del missing[most:]
        if seq > segment.last_seq or len(marks) < _MARKS_AT_ONCE:
            return segment.last_seq + 1
        expected = seq
        yield _MARKS_AT_ONCE
    return expected


def _add_gap(missing: list[int], start: int, end: int, most: int) -> None:
    """Add the sequences from `start` to before `end`, up to the limit."""
    missing.extend(range(start, min(end, start + most - len(missing))))
