"""Find the subjects that match a pattern, in one segment and in the whole log."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from millstream.store.index import SubjectIndex
from millstream.store.segment import Segment
from millstream.store.subject_list import SubjectList
from millstream.subjects.match import matches
from millstream.subjects.tree import SubjectTree

_FEW_SUBJECTS = 64  # so many are looked at one by one to narrow a search
FEW_PATTERNS = 8  # so many are tried one by one


def is_literal(pattern: bytes) -> bool:
    return b"*" not in pattern and b">" not in pattern


def wanted_subjects(segment: Segment, pattern: bytes) -> bytes | None:
    """Return a flag for each subject of the segment that matches `pattern`; None if none does."""
    if pattern == b">":
        return b"\x01" * len(segment.subjects)
    if is_literal(pattern):
        number = segment.subject_id(pattern)
        return bytes(number) + b"\x01" if number >= 0 else None
    flags = _tried(segment.subjects, 0, segment.subjects.count, (pattern,))
    return flags if b"\x01" in flags else None


def flags_between(subjects: SubjectList, start: int, end: int, pattern: bytes) -> bytes:
    """Return a flag for each subject from number `start` to before `end` that matches `pattern`."""
    flags = bytearray(end - start)
    for number in range(start, end):
        if matches(subjects.at(number), pattern):
            flags[number - start] = 1
    return bytes(flags)


def wanted_by_any(segment: Segment, patterns: tuple[bytes, ...], start: int, end: int) -> bytes:
    """Return a flag for each subject from number `start` to before `end` that matches one of `patterns`.

    If all patterns are literal, that is quick, and the flags go to the last subject.
    """
    subjects = segment.subjects
    if start == 0 and all(is_literal(pattern) for pattern in patterns):
        flags = bytearray(subjects.count)
        for pattern in patterns:
            number = subjects.find(pattern)
            if number >= 0:
                flags[number] = 1
        return bytes(flags)
    if len(patterns) <= FEW_PATTERNS:
        return _tried(subjects, start, end, patterns)
    wanted = _matcher(patterns)
    return bytes(wanted(subjects.at(number)) for number in range(start, end))


def _tried(subjects: SubjectList, start: int, end: int, patterns: tuple[bytes, ...]) -> bytes:
    """Return the flags for a few patterns; a consumer does this for each subject of each segment."""
    flags = bytearray(end - start)
    for number in range(start, end):
        subject = subjects.at(number)
        for pattern in patterns:
            if matches(subject, pattern):
                flags[number - start] = 1
                break
    return bytes(flags)


@lru_cache(maxsize=32)
def _matcher(patterns: tuple[bytes, ...]) -> Callable[[bytes], bool]:
    """Return a function that is True for subjects that match one of `patterns`, possibly thousands."""

    def tried(subject: bytes) -> bool:
        return any(matches(subject, pattern) for pattern in patterns)

    tree = SubjectTree()
    for pattern in dict.fromkeys(patterns):
        tree.insert(pattern, None, True)

    def found(subject: bytes) -> bool:
        if b".." in subject or subject.startswith(b".") or subject.endswith(b"."):
            return tried(subject)  # the tree knows no empty tokens
        return bool(tree.match(subject).plain)

    return found


def bounds(index: SubjectIndex, pattern: bytes, last: int) -> tuple[int, int]:
    """Return the lowest and highest sequence that can match `pattern`; (0, 0) if none can."""
    if is_literal(pattern):
        node = index.find(pattern)
        return (node.first, node.last) if node is not None else (0, 0)
    lowest = highest = 0
    for number, (_, node) in enumerate(index.match(pattern)):
        if number == _FEW_SUBJECTS:
            return 1, last
        lowest = min(lowest, node.first) if lowest else node.first
        highest = max(highest, node.last)
    return lowest, highest
