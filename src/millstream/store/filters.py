"""Which subjects a pattern means: in one segment, and in the whole log."""

from __future__ import annotations

from millstream.store.index import SubjectIndex
from millstream.store.segment import Segment
from millstream.subjects.match import matches

_FEW_SUBJECTS = 64  # so many are looked at one by one to narrow a search


def is_literal(pattern: bytes) -> bool:
    return b"*" not in pattern and b">" not in pattern


def wanted_subjects(segment: Segment, pattern: bytes) -> bytes | None:
    """A flag for each subject of the segment that falls under `pattern`; None if none does."""
    if pattern == b">":
        return b"\x01" * len(segment.subjects)
    number = segment.subject_id(pattern)
    if is_literal(pattern):
        return bytes(number) + b"\x01" if number >= 0 else None
    flags = bytes(matches(subject, pattern) for subject in segment.subjects)
    return flags if b"\x01" in flags else None


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
    flags = bytearray()
    for number in range(start, subjects.count):
        subject = subjects.at(number)
        flags.append(any(matches(subject, pattern) for pattern in patterns))
    return bytes(flags)


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
