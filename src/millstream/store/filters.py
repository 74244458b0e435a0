"""Which subjects a pattern means: in one segment, and in the whole log."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from millstream.store.index import SubjectIndex
from millstream.store.segment import Segment
from millstream.store.subject_list import SubjectList
from millstream.subjects.match import matches
from millstream.subjects.tree import SubjectTree

_FEW_SUBJECTS = 64  # so many are looked at one by one to narrow a search
_FEW_PATTERNS = 8  # so many are tried one by one


def is_literal(pattern: bytes) -> bool:
    return b"*" not in pattern and b">" not in pattern


def wanted_subjects(segment: Segment, pattern: bytes) -> bytes | None:
    """A flag for each subject of the segment that falls under `pattern`; None if none does."""
    if pattern == b">":
        return b"\x01" * len(segment.subjects)
    number = segment.subject_id(pattern)
    if is_literal(pattern):
        return bytes(number) + b"\x01" if number >= 0 else None
    flags = _tried(segment.subjects, 0, (pattern,))
    return flags if b"\x01" in flags else None


def flags_between(subjects: SubjectList, start: int, end: int, pattern: bytes) -> bytes:
    """A flag for each subject from number `start` to before `end` that falls under `pattern`."""
    flags = bytearray(end - start)
    for number in range(start, end):
        if matches(subjects.at(number), pattern):
            flags[number - start] = 1
    return bytes(flags)


def wanted_by_any(segment: Segment, patterns: tuple[bytes, ...], start: int) -> bytes:
    """A flag for each subject from number `start` on that falls under one of `patterns`."""
    subjects = segment.subjects
    if start == 0 and all(is_literal(pattern) for pattern in patterns):
        flags = bytearray(subjects.count)
        for pattern in patterns:
            number = subjects.find(pattern)
            if number >= 0:
                flags[number] = 1
        return bytes(flags)
    if len(patterns) <= _FEW_PATTERNS:
        return _tried(subjects, start, patterns)
    wanted = _matcher(patterns)
    return bytes(wanted(subjects.at(number)) for number in range(start, subjects.count))


def _tried(subjects: SubjectList, start: int, patterns: tuple[bytes, ...]) -> bytes:
    """The same for a few patterns: what a consumer does for each subject of each segment."""
    flags = bytearray(subjects.count - start)
    for number in range(start, subjects.count):
        subject = subjects.at(number)
        for pattern in patterns:
            if matches(subject, pattern):
                flags[number - start] = 1
                break
    return bytes(flags)


@lru_cache(maxsize=32)
def _matcher(patterns: tuple[bytes, ...]) -> Callable[[bytes], bool]:
    """Tells whether a subject falls under one of `patterns`, of which there may be thousands."""

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
    """No message under `pattern` lies outside of these sequences; (0, 0) if there is none at all."""
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
