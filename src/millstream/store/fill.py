"""Fill a file with zeros ahead of its records, and find its end again.

A sync of a growing file must also write its new size, through the journal of the file system.  So zeros are
written after the records of the active segment, some at a time, and small commits overwrite them.  An **end
mark** (``record.end_mark``) stands between records and zeros: it begins where the next record will, and is
written in one piece with the records before it.  So zeros that a disk left in place of records can be
distinguished from zeros that were written ahead.

A writer without an end mark cuts the zeros off first (``RealFile.unfill``).

Compiled, because every commit asks for a plan.
"""

from __future__ import annotations

from typing import Final

from millstream.store.record import HEADER_SIZE, MAX_RECORD, Kind, RecordBuffer, end_mark

SMALL_COMMIT = 32 * 1024  # bytes; larger ones let the file grow
LEAST_AHEAD = 16 * 1024
MOST_AHEAD = 64 * 1024
PAGE = 4096  # written at a time: the system keeps what is written at once together, and syncs it so
SECTOR: Final = 512  # that a disk writes as a whole

_SMALL_COMMIT = SMALL_COMMIT
_LEAST_AHEAD = LEAST_AHEAD
_MOST_AHEAD = MOST_AHEAD
_PAGE = PAGE
_HEADER_SIZE = HEADER_SIZE


def fill_target(end: int, room: int) -> int:
    """Return up to where to fill a file whose records end at `end` and which may grow by `room` bytes."""
    ahead = min(max(end // 4, _LEAST_AHEAD), _MOST_AHEAD)
    return min((end + ahead) // _PAGE * _PAGE, end + room)


def plan(buffer: RecordBuffer, fill: bool) -> tuple[int, bytes]:
    """Return up to where to fill the file when records are written, and what to write after them.

    Without `fill`, no further zeros are written; existing ones still need their end mark.
    """
    end = buffer.base + buffer.size
    target = buffer.filled
    if fill and 0 < buffer.size <= _SMALL_COMMIT and end + _HEADER_SIZE > target:
        target = max(fill_target(end, buffer.room), target)
    marked = buffer.size > 0 and target >= end + _HEADER_SIZE
    return target, end_mark(buffer.next_seq, end) if marked else b""


def may_be_filled(size: int, segment_size: int) -> bool:
    """Return True if a file may have been filled: it ends at a page, or where its segment is full."""
    return size % PAGE == 0 or size == segment_size


def is_filled(data: bytes, at: int, seq: int) -> bool:
    """Return True if zeros after a record that ends at `at` were written ahead, but not marked yet."""
    mark = end_mark(seq, at).rstrip(b"\0")
    rest = data[at:].rstrip(b"\0")
    here = -at % SECTOR  # bytes that are in the same sector as the record
    return mark.startswith(rest) and len(rest) >= min(here, len(mark))


def is_unfinished(data: bytes, at: int, seq: int) -> bool:
    """Return True if the record at `at` was not written completely over zeros written ahead.

    `seq` is the expected sequence.  Call it only if there is no end mark after the record, which would have
    been written with it.
    """
    written = len(data.rstrip(b"\0"))
    here = -at % SECTOR  # bytes in the sector where the record begins
    if here < HEADER_SIZE and at < written <= at + here < len(data):
        return True
    first = int.from_bytes(data[at : at + 4], "little")
    kind, size = first >> 28, first & MAX_RECORD
    found = int.from_bytes(data[at + 8 : at + 16], "little")
    return at < written < at + size and is_plausible(kind, size, found, seq)


def has_lost_sector(data: bytes, start: int, end: int) -> bool:
    """Return True if a sector between `start` and `end` is zero, as one that was never written."""
    at = start
    while at < end:
        after = min((at // SECTOR + 1) * SECTOR, end)
        if not any(data[at:after]):
            return True
        at = after
    return False


def is_plausible(kind: int, size: int, found: int, seq: int) -> bool:
    """Return True if a partly written record may be genuine, given the next sequence `seq`."""
    if kind in (Kind.REMOVED, Kind.ERASE):
        return found <= size - HEADER_SIZE  # numbers, at least a byte each
    return kind in (Kind.MESSAGE, Kind.HEADERS) and found == seq
