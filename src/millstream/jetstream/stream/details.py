"""The subjects of STREAM.INFO with their counts.

There may be millions, so they are collected in pieces (``base.slices``) and returned as a page.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from millstream.base.slices import Pieces
from millstream.base.sorted_page import AT_ONCE, SortedPage
from millstream.jetstream.long_answers import counted
from millstream.jsapi.limits import SUBJECTS_PER_PAGE
from millstream.store.counts import counts_of

if TYPE_CHECKING:
    from millstream.store.log import Log


def page_of_subjects(log: Log, pattern: bytes, offset: int) -> Pieces[tuple[bytes, int]]:
    """Return subjects that match `pattern` with their counts, sorted, from `offset` on; and their total.

    They are the members of a JSON object (``long_answers.counted``).  Messages may be added and removed
    meanwhile; whether their subjects are found is undefined.
    """
    page: SortedPage[bytes] = SortedPage(offset, SUBJECTS_PER_PAGE)
    found = log.subjects(pattern)
    while batch := list(itertools.islice(found, AT_ONCE)):
        page.add(batch)
        yield len(batch)
    parts: list[bytes] = []
    for chunk in page.chunks():
        parts.append(counted(_counts(log, chunk)))
        yield len(chunk)
    return b"".join(parts), page.total


def _counts(log: Log, subjects: list[bytes]) -> dict[str, int]:
    """Return the message count of each subject, without those that have none any more."""
    found = zip(subjects, counts_of(log, subjects), strict=True)
    return {subject.decode(errors="replace"): count for subject, count in found if count}
