"""Find the last message of each of several subjects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from millstream.subjects.tokens import is_literal

if TYPE_CHECKING:
    from millstream.store.log import Log

_FEW_SUBJECTS: Final = 1024


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


def last_of_each(log: Log, patterns: Iterable[bytes], up_to: int, most: int) -> list[int] | None:
    """Return the last sequence, not above `up_to`, of every subject that matches a pattern, in order.

    Returns None if there are more than `most`.
    """
    subjects: dict[bytes, int] = {}
    early = 0  # subjects that have a message up to there, as far as that is known
    for pattern in patterns:
        for subject, node in log.index.match(pattern):
            if subject in subjects:
                continue
            subjects[subject] = node.last
            early += node.first_exact and node.first <= up_to
            if early > most:
                return None
    found = (
        log.last_of(subject) if last <= up_to else log.last_match(up_to, subject)
        for subject, last in subjects.items()
    )
    seqs = sorted(seq for seq in found if seq)
    return seqs if len(seqs) <= most else None
