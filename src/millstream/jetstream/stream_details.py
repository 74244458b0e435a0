"""What STREAM.INFO tells on request: subjects with their counts, and sequences that are gone.

There may be millions of either, and everybody waits for the loop.  Subjects are gathered in steps, between
which others have their turn; of the sequences that are gone, the first ones are told.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from millstream.jsapi.limits import DELETED_LISTED, SUBJECTS_PER_PAGE

if TYPE_CHECKING:
    from millstream.store.log import Log

_AT_ONCE: Final = 20_000  # subjects of a step: some ten milliseconds
_MOST_TABLES: Final = 16  # segments whose tables are looked at


def page_of_subjects(
    log: Log, pattern: bytes, offset: int
) -> Generator[None, None, tuple[dict[str, int], int]]:
    """Subjects under `pattern` with their counts, sorted, from `offset` on; and how many there are in all.

    Every step sorts some of them; at the end the sorted parts are merged as far as they are asked for.
    """
    found = log.index.match(pattern)
    parts: list[list[tuple[str, int]]] = []
    total = 0
    while part := [
        (subject.decode(errors="replace"), node.count) for subject, node in itertools.islice(found, _AT_ONCE)
    ]:
        part.sort()
        parts.append(part)
        total += len(part)
        if len(part) == _AT_ONCE:
            yield
    merged = itertools.islice(heapq.merge(*parts), offset, offset + SUBJECTS_PER_PAGE)
    page: dict[str, int] = {}
    while chunk := dict(itertools.islice(merged, _AT_ONCE)):
        page.update(chunk)
        if len(chunk) == _AT_ONCE:
            yield
    return page, total


def first_deleted(log: Log) -> list[int]:
    """Sequences between the first and the last message that are not there: the first DELETED_LISTED.

    Segments in which nothing is missing are passed over; of the others at most _MOST_TABLES are looked at.
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
            log.load(segment)
            ordinal = segment.next_live(segment.first_not_below(expected))
            while ordinal < segment.count and len(missing) < DELETED_LISTED:
                seq = segment.seq_at(ordinal)
                _add_gap(missing, expected, seq)
                expected = seq + 1
                ordinal = segment.next_live(ordinal + 1)
        elif whole:
            expected = segment.last_seq + 1
        if len(missing) >= DELETED_LISTED:
            return missing
        _add_gap(missing, expected, segment.last_seq + 1)
        expected = max(expected, segment.last_seq + 1)
    else:
        _add_gap(missing, expected, log.last_seq + 1)
    return missing


def _add_gap(missing: list[int], start: int, end: int) -> None:
    """Sequences from `start` to before `end`, as far as they are still told."""
    missing.extend(range(start, min(end, start + DELETED_LISTED - len(missing))))
