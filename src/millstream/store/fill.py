"""How far a file is filled with zeros ahead of its records, and how its end is found again.

A sync of a file that grows has to write its new size as well, with the journal of the file system.  So zeros are
written behind the records of the active segment, some at a time, and small commits that follow overwrite them.
While zeros lie behind the records, an **end mark** (``record.end_mark``) stands between them: it begins where the
next record will, and is written in one piece with the records before it.  So zeros that a disk left in the place of
records are told from zeros that were written ahead.

Whoever writes without an end mark cuts the zeros off first (``RealFile.unfill``).
"""

from __future__ import annotations

from typing import Final

from millstream.store.record import HEADER_SIZE, MAX_RECORD, Kind, end_mark

SMALL_COMMIT = 16 * 1024  # bytes; larger ones let the file grow
LEAST_AHEAD = 16 * 1024
MOST_AHEAD = 64 * 1024
PAGE: Final = 4096  # written at a time: the system keeps what is written at once together, and syncs it so
SECTOR: Final = 512  # that a disk writes as a whole


def fill_target(end: int, room: int) -> int:
    """Return up to where to fill a file whose records end at `end` and which may grow by `room` bytes."""
    ahead = min(max(end // 4, LEAST_AHEAD), MOST_AHEAD)
    return min((end + ahead) // PAGE * PAGE, end + room)


def is_filled(data: bytes, at: int, seq: int) -> bool:
    """Tell whether zeros behind a record that ends at `at` were written ahead: its end mark was cut by a sector."""
    here = min(-at % SECTOR, HEADER_SIZE)
    return (
        here < HEADER_SIZE
        and data[at : at + here] == end_mark(seq, at)[:here]
        and not data[at + here :].strip(b"\0")
    )


def is_unfinished(data: bytes, at: int, seq: int) -> bool:
    """Tell whether sectors at the end of the record at `at` are still as they were filled: zeros.

    `seq` is the sequence that is expected.  A record that was durable once has an end mark behind it.
    """
    written = len(data.rstrip(b"\0"))
    zeros = written + -written % SECTOR  # the first sector that was not written
    if written <= at or zeros >= len(data):
        return False
    if zeros - at < HEADER_SIZE:
        return True
    first = int.from_bytes(data[at : at + 4], "little")
    kind, size = first >> 28, first & MAX_RECORD
    if size < HEADER_SIZE or kind > max(Kind) or at + size <= zeros:
        return False
    found = int.from_bytes(data[at + 8 : at + 16], "little")
    return kind not in (Kind.MESSAGE, Kind.HEADERS) or found == seq
