"""The details of STREAM.INFO: subjects with their counts, and deleted sequences.

There may be millions of either, so they are collected in pieces (``base.slices``).  Subjects are returned as
a page, deleted sequences up to a limit.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.base.sorted_page import AT_ONCE, SortedPage
from millstream.jetstream.long_answers import counted
from millstream.jsapi.limits import DELETED_LISTED, SUBJECTS_PER_PAGE

if TYPE_CHECKING:
    from millstream.store.log import Log
    from millstream.store.segment import Segment

_ORDINALS_AT_ONCE: Final = 128  # messages of a segment that a piece of the search looks at
_MARKS_AT_ONCE: Final = 256  # bytes of a segment's bitmap, of eight messages each
_BITS: Final = tuple(tuple(bit for bit in range(8) if value >> bit & 1) for value in range(256))
_MOST_TABLES: Final = 16  # segments whose tables are looked at


def page_of_subjects(log: Log, pattern: bytes, offset: int) -> Pieces[tuple[bytes, int]]:
    """Return subjects that match `pattern` with their counts, sorted, from `offset` on; and their total.

    They are the members of a JSON object (``long_answers.counted``).  Messages may be added and removed
    meanwhile; whether their subjects are found is undefined.
    """
    page: SortedPage[bytes] = SortedPage(offset, SUBJECTS_PER_PAGE)
    found = log.index.match(pattern)
    while batch := [subject for subject, _ in itertools.islice(found, AT_ONCE)]:
        page.add(batch)
        yield len(batch)
    parts: list[bytes] = []
    for chunk in page.chunks():
        parts.append(counted(_counts(log, chunk)))
        yield len(chunk)
    return b"".join(parts), page.total


def _counts(log: Log, subjects: list[bytes]) -> dict[str, int]:
    """Return the message count of each subject, without those that have none any more."""
    found = ((subject, log.index.find(subject)) for subject in subjects)
    return {subject.decode(errors="replace"): node.count for subject, node in found if node is not None}


def first_deleted(log: Log) -> Pieces[list[int]]:
    """Return the missing sequences between the first and the last message: the first DELETED_LISTED.

    Skips segments without gaps; of the others it reads at most _MOST_TABLES.
    """
    missing: list[int] = []
    if not log.messages:
        return missing
    expected, looked_at = log.first_seq, 0
    for segment in list(log.segments):
        if segment.last_seq < expected:
            continue
        _add_gap(missing, expected, min(segment.base_seq, segment.last_seq + 1))
        expected = max(expected, segment.base_seq)
        whole = segment.live == segment.count == segment.last_seq + 1 - segment.base_seq
        if not whole and segment.live:
            looked_at += 1
            if looked_at > _MOST_TABLES:
                break
            expected = yield from _gaps_of(log, segment, expected, missing)
        elif whole:
            expected = segment.last_seq + 1
        if len(missing) >= DELETED_LISTED:
            return missing
        _add_gap(missing, expected, segment.last_seq + 1)
        expected = max(expected, segment.last_seq + 1)
        yield 1
    else:
        _add_gap(missing, expected, log.last_seq + 1)
    return missing


def _gaps_of(log: Log, segment: Segment, expected: int, missing: list[int]) -> Pieces[int]:
    """Add what is missing in a segment from `expected` on; return the next expected sequence."""
    if segment.count == segment.last_seq + 1 - segment.base_seq:  # all are there, or marked as removed
        return (yield from _marks_of(log, segment, expected, missing))
    while len(missing) < DELETED_LISTED and log.segment_of(expected) is segment:  # it may go meanwhile
        ordinal = segment.next_live(segment.first_not_below(expected))
        for _ in range(_ORDINALS_AT_ONCE):
            if ordinal >= segment.count or len(missing) >= DELETED_LISTED:
                return expected
            seq = segment.seq_at(ordinal)
            _add_gap(missing, expected, seq)
            expected = seq + 1
            ordinal = segment.next_live(ordinal + 1)
        yield _ORDINALS_AT_ONCE
    return expected


def _marks_of(log: Log, segment: Segment, expected: int, missing: list[int]) -> Pieces[int]:
    """Do the same for a segment whose sequences follow each other, by its bitmap of removed messages."""
    while len(missing) < DELETED_LISTED and log.segment_of(expected) is segment:  # it may go meanwhile
        first, skipped = divmod(expected - segment.base_seq, 8)
        marks = (segment.removed or b"")[first : first + _MARKS_AT_ONCE]
        seq = segment.base_seq + 8 * first
        for mark in marks:
            if mark:
                bits = _BITS[mark >> skipped << skipped]
                missing.extend([seq + bit for bit in bits])
            seq += 8
            skipped = 0
        del missing[DELETED_LISTED:]
        if seq > segment.last_seq or len(marks) < _MARKS_AT_ONCE:
            return segment.last_seq + 1
        expected = seq
        yield _MARKS_AT_ONCE
    return expected


def _add_gap(missing: list[int], start: int, end: int) -> None:
    """Add the sequences from `start` to before `end`, up to the limit."""
    missing.extend(range(start, min(end, start + DELETED_LISTED - len(missing))))
