"""Reading a segment's file from end to end: what a summary would have told.

A record that does not pass its checksum is stepped over: the next sound record behind it is looked
for byte by byte, so that damage costs what it hit and nothing else.
"""

from dataclasses import dataclass, field

from millrace.store.record import HEADER_SIZE, WHOLE, Kind, Record
from millrace.store.segment import FILE_HEADER_SIZE, Segment
from millrace.store.summary import unpack_rising

_WHOLE = WHOLE
_HEADER_SIZE = HEADER_SIZE
_FILE_HEADER_SIZE = FILE_HEADER_SIZE
_HEADERS = int(Kind.HEADERS)
_REMOVED = int(Kind.REMOVED)
_FLOOR = int(Kind.FLOOR)
_SKIP = int(Kind.SKIP)


@dataclass(slots=True)
class Scan:
    """How a file was found."""

    end: int  # behind the last sound record
    gaps: list[tuple[int, int, int]] = field(default_factory=list)  # offset, bytes, lost messages


def scan(segment: Segment, data: bytes) -> Scan:
    """Fill an empty segment from the bytes of its file."""
    record = Record()
    result = Scan(_FILE_HEADER_SIZE)
    at = _FILE_HEADER_SIZE
    end = len(data)
    while at < end:
        if record.read(data, at, end, True) != _WHOLE or not _fits(segment, record):
            found = _resume(segment, data, at + 1, end, record)
            if found < 0:
                break
            last = segment.last_seq
            segment.size = found  # so that the next record is noted where it lies
            lost = record.seq - last - 1 if record.kind <= _HEADERS and record.seq > last else 0
            result.gaps.append((at, found - at, lost))
            at = found
        _note(segment, record)
        at += record.size
        result.end = at
    return result


def _fits(segment: Segment, record: Record) -> bool:
    """Whether a sound record can stand here: sequences only rise."""
    return record.kind > _HEADERS or record.seq > segment.last_seq


def _resume(segment: Segment, data: bytes, at: int, end: int, record: Record) -> int:
    """Where the next sound record begins; -1 if there is none.  `record` then stands on it."""
    while at + _HEADER_SIZE <= end:
        if record.read(data, at, end, False) == _WHOLE and (
            record.read(data, at, end, True) == _WHOLE and _fits(segment, record)
        ):
            return at
        at += 1
    return -1


def _note(segment: Segment, record: Record) -> None:
    if record.kind <= _HEADERS:
        segment.note(record.seq, record.timestamp, record.subject(), record.kind == _HEADERS, record.size)
        return
    segment.note_other(record.size)
    if record.kind == _REMOVED:
        removals, _ = unpack_rising(record.payload(), 0, record.seq)
        segment.removals.extend(removals)
    elif record.kind == _FLOOR:
        segment.floor = max(segment.floor, record.seq)
    elif record.seq > segment.last_seq:  # SKIP, or a message that was erased
        segment.last_seq = record.seq
