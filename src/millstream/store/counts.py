"""Count the messages in a range, optionally of some subjects (a consumer's pending), and list its subjects.

Whole segments are counted by their sums, and subjects that lie completely in the range by the index; only the
rest is counted message by message, in compiled code.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.base.build import pure_requested
from millstream.base.slices import Pieces
from millstream.store.filters import wanted_by_any
from millstream.store.log import Log
from millstream.store.segment import Segment

_FEW_SUBJECTS = 4096  # so many are summed up by the index before the tables are asked
_NODES_OF_AN_ITEM = 8  # nodes of the index that count for one item of a slice
_FEW_SEGMENTS = 1  # whose tables are asked at once
_LOADED = 1024  # items that loading the tables of a segment counts for: nothing else follows in the slice
_COMPARED = 64 if pure_requested() else 1024  # subjects of a piece


def count_between(log: Log, first: int, last: int, patterns: tuple[bytes, ...] = ()) -> int:
    """Count live messages from `first` to `last`; `patterns` selects subjects and must not overlap."""
    first = max(first, log.first_seq)
    if first > last or not log.messages:
        return 0
    if any(log.index.is_covered_by(pattern) for pattern in patterns):
        patterns = ()
    if patterns:
        known = _count_by_index(log, first, last, patterns)
        if known is not None:
            return known
    elif first <= log.first_seq and last >= log.last_seq:
        return log.messages
    return _count_by_tables(log, first, last, patterns)


def is_long(log: Log, first: int, patterns: tuple[bytes, ...]) -> bool:
    """Return True if counting messages of these subjects from `first` on reads the tables of segments."""
    segments = log.chain.segments
    if not patterns or len(segments) - log.chain.position_of(first) <= _FEW_SEGMENTS:
        return False
    if any(log.index.is_covered_by(pattern) for pattern in patterns):
        return False
    return _count_by_index(log, max(first, log.first_seq), log.last_seq, patterns) is None


def count_in_pieces(log: Log, first: int, last: int, patterns: tuple[bytes, ...]) -> Pieces[int]:
    """Count as ``count_between`` does, in pieces: each pattern by the index, or else by the tables.

    Messages that are removed meanwhile may be counted or not.
    """
    total, seq = 0, first
    left = []
    for pattern in patterns:
        known = log.index.count_between(pattern, max(first, log.first_seq), last, _FEW_SUBJECTS)
        if known < 0:
            left.append(pattern)
        else:
            total += known
        yield max(1, log.index.looked_at // _NODES_OF_AN_ITEM)
    if patterns and not left:
        return total
    patterns = tuple(left)
    while seq <= last and (segment := _segment_from(log, seq, last)) is not None:
        if not segment.loaded:
            log.reader.load(segment)
            yield _LOADED
            continue
        epoch, wanted = segment.epoch, b""
        while segment.epoch == epoch and len(wanted) < segment.subjects.count:
            known = len(wanted)
            end = min(segment.subjects.count, known + _COMPARED)
            wanted += wanted_by_any(segment, patterns, known, end)
            yield len(wanted) - known
        if segment.epoch != epoch:  # unloaded or compacted: its subjects have other numbers
            continue
        start = log.reader.first_ordinal(segment, seq)
        end = log.reader.first_ordinal(segment, last + 1)
        total += segment.count_live(start, end, wanted)
        seq = segment.last_seq + 1
    return total


def _segment_from(log: Log, seq: int, last: int) -> Segment | None:
    """Return the first segment that has live messages from `seq` to `last`."""
    segments = log.chain.segments
    for position in range(log.chain.position_of(seq), len(segments)):
        segment = segments[position]
        if segment.base_seq > last:
            return None
        if segment.live and segment.last_seq >= seq:
            return segment
    return None


def subjects_between(log: Log, first: int, last: int) -> set[bytes]:
    """Return the subjects of the messages from `first` to `last`, including removed ones."""
    found: set[bytes] = set()
    segments = log.chain.segments
    for position in range(log.chain.position_of(first), len(segments)):
        segment = segments[position]
        if segment.base_seq > last:
            break
        if segment.live == 0 or segment.last_seq < first:
            continue
        log.reader.load(segment)
        end = min(segment.first_not_below(last + 1), segment.count)
        found.update(segment.subjects_between(segment.first_not_below(first), end))
    return found


def _count_by_index(log: Log, first: int, last: int, patterns: tuple[bytes, ...]) -> int | None:
    """Return the count, or None if a subject is only partly in the range or there are too many."""
    total, left = 0, _FEW_SUBJECTS
    for pattern in patterns:
        known = log.index.count_between(pattern, first, last, left)
        if known < 0:
            return None
        total += known
        left -= log.index.looked_at
    return total


def _count_by_tables(log: Log, first: int, last: int, patterns: tuple[bytes, ...]) -> int:
    total = 0
    segments = log.chain.segments
    for position in range(log.chain.position_of(first), len(segments)):
        segment = segments[position]
        if segment.base_seq > last:
            break
        if segment.live == 0 or segment.last_seq < first:
            continue
        if not patterns and segment.base_seq >= first and segment.last_seq <= last:
            total += segment.live
            continue
        wanted = None
        if patterns:
            log.reader.load(segment)
            wanted = wanted_by_any(segment, patterns, 0, segment.subjects.count)
        if wanted is None or b"\x01" in wanted:
            start = log.reader.first_ordinal(segment, first)
            end = log.reader.first_ordinal(segment, last + 1)
            total += segment.count_live(start, end, wanted)
    return total


def counts_of(log: Log, subjects: Iterable[bytes]) -> list[int]:
    """Return the number of messages of each of these literal subjects."""
    nodes = map(log.index.find, subjects)
    return [0 if node is None else node.count for node in nodes]
