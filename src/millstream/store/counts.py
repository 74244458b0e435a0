"""Count the messages in a range, optionally of some subjects (a consumer's pending), and list its subjects.

Whole segments are counted by their sums, and subjects that lie completely in the range by the index; only the
rest is counted message by message, in compiled code.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.store.filters import wanted_by_any
from millstream.store.log import Log

_FEW_SUBJECTS = 1024  # so many are summed up by the index before the tables are asked


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
    total = looked_at = 0
    for pattern in patterns:
        for _, node in log.index.match(pattern):
            looked_at += 1
            if looked_at > _FEW_SUBJECTS:
                return None
            if node.last < first or node.first > last:
                continue
            if node.first < first or node.last > last:
                return None
            total += node.count
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
            wanted = wanted_by_any(segment, patterns, 0)
        if wanted is None or b"\x01" in wanted:
            start = log.reader.first_ordinal(segment, first)
            end = log.reader.first_ordinal(segment, last + 1)
            total += segment.count_live(start, end, wanted)
    return total


def counts_of(log: Log, subjects: Iterable[bytes]) -> list[int]:
    """Return the number of messages of each of these literal subjects."""
    nodes = map(log.index.find, subjects)
    return [0 if node is None else node.count for node in nodes]
