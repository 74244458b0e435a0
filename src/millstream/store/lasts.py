"""Find the last message of each of several subjects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.subjects.tokens import is_literal

if TYPE_CHECKING:
    from millstream.store.log import Log

_FEW_SUBJECTS: Final = 1024
_AT_ONCE: Final = 64  # subjects of a piece
_SEARCH_COST: Final = 32  # items of a slice that a search through tables counts for


def last_of(log: Log, pattern: bytes) -> int:
    """Return the last sequence whose subject matches `pattern`; 0 if there is none."""
    if is_literal(pattern):
        return log.last_of(pattern)
    if log.index.is_covered_by(pattern):
        return log.last_match(log.last_seq, b">")
    subjects = list(itertools.islice(log.subjects(pattern), _FEW_SUBJECTS + 1))
    if len(subjects) > _FEW_SUBJECTS:  # then one of them is not far from the end
        return log.last_match(log.last_seq, pattern)
    return max((log.last_of(subject) for subject in subjects), default=0)


def last_of_each(log: Log, patterns: Iterable[bytes], up_to: int, most: int) -> Pieces[list[int] | None]:
    """Find the last sequence, not above `up_to`, of every subject that matches a pattern, in pieces.

    Returns them in order, or None if there are more than `most`.  Messages may come and go meanwhile.
    """
    subjects: set[bytes] = set()
    early = looked_at = 0  # early: subjects that have a message up to there, as far as that is known
    for pattern in patterns:
        for subject, node in log.index.match(pattern):
            looked_at += 1
            if looked_at % _AT_ONCE == 0:
                yield _AT_ONCE
            if node.first > up_to or subject in subjects:
                continue
            subjects.add(subject)
            early += node.first_exact
            if early > most:
                return None
    seqs: list[int] = []
    for number, subject in enumerate(subjects, 1):
        seq = log.last_of(subject)
        if seq > up_to:
            seq = log.last_match(up_to, subject)
            yield _SEARCH_COST
        elif number % _AT_ONCE == 0:
            yield _AT_ONCE
        if seq:
            seqs.append(seq)
    return sorted(seqs) if len(seqs) <= most else None
