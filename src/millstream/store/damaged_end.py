"""Judge bytes of a segment's file that are no sound records: what they were, and whether they were finished.

Pure functions on the bytes of a file, for ``recovery``.
"""

from __future__ import annotations

from millstream.store.fill import SECTOR, has_lost_sector, is_plausible
from millstream.store.record import HEADER_SIZE, MAX_RECORD, WHOLE, Kind, Record, end_mark, seq_in_mark
from millstream.store.scan import Gap, Scan
from millstream.store.segment import FILE_HEADER_SIZE, MAGIC, start_in_header

_ZEROS = 16  # at the end of a sector: fewer may be part of a message
_MARK_START = MAX_RECORD.to_bytes(4, "little")


def may_be_torn(gap: Gap, data: bytes, found: Scan) -> bool:
    """Return True if power may have gone while a damaged part of the last file was written."""
    if gap.offset < found.durable:
        return False
    end = gap.offset + gap.size
    return (
        has_lost_sector(data, gap.offset, end)
        or _is_old(data, gap.offset, gap.first_seq)
        or _is_cut_short(data, gap.offset, end)
    )


def _is_cut_short(data: bytes, at: int, end: int) -> bool:
    """Return True if the sector where a record begins has the first bytes of it, and zeros behind these.

    So it is if a write failed there, and power went while the next try replaced the sector.
    """
    after = (at // SECTOR + 1) * SECTOR
    return after < end and after - at > _ZEROS and not any(data[after - _ZEROS : after])


def _is_old(data: bytes, at: int, seq: int) -> bool:
    """Return True if the sector where a record begins still has the end mark that was there before."""
    here = -at % SECTOR
    return 0 < here < HEADER_SIZE and data[at : at + here] == end_mark(seq, at)[:here]


def start_for(data: bytes) -> int | None:
    """Return the first sequence in a header of which one byte is damaged; None if several would be sound."""
    header = bytearray(data[:FILE_HEADER_SIZE])
    found = set()
    for at, damaged in enumerate(header):
        for value in range(256):
            header[at] = value
            if header[:4] == MAGIC:
                found.add(start_in_header(bytes(header)))
        header[at] = damaged
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def count_records(data: bytes, at: int, expected: int) -> int:
    """Return the apparent number of messages from `at` to the end, by their sizes; 0 if they are invalid."""
    count = 0
    while len(data) - at >= HEADER_SIZE:
        first = int.from_bytes(data[at : at + 4], "little")
        kind, size = first >> 28, first & MAX_RECORD
        if kind not in (Kind.MESSAGE, Kind.HEADERS) or size < HEADER_SIZE:
            return 0
        if count and int.from_bytes(data[at + 8 : at + 16], "little") != expected + count:
            return 0
        count += 1
        at += size
    return count if at == len(data) else 0


def last_mark(data: bytes, at: int) -> int:
    """Return the offset of the last end mark after `at`; -1 if there is none."""
    end = len(data)
    while (end := data.rfind(_MARK_START, at, end)) >= 0:
        if seq_in_mark(data, end):
            return end
    return -1


def length_for(data: bytes, at: int, end: int) -> bytes:
    """Return the four bytes at `at` with which a sound record ends at `end`; empty if there are none.

    The checksum covers them, so it proves that nothing else of the record is damaged.  The kind is believed:
    to the checksum, a bit of the kind is the same as one of the last byte of the record.
    """
    kind = data[at + 3] >> 4 if end - at >= HEADER_SIZE else 0
    length = ((end - at) & MAX_RECORD | kind << 28).to_bytes(4, "little")
    sound = Record().read(length + data[at + 4 : end], 0, end - at, True, at) == WHOLE
    return length if sound else b""


def is_torn(data: bytes, at: int, expected: int) -> bool:
    """Return True if the bytes at `at` begin a record that would continue after their end."""
    rest = len(data) - at
    if rest < HEADER_SIZE:
        return True
    first = int.from_bytes(data[at : at + 4], "little")
    kind, size = first >> 28, first & MAX_RECORD
    seq = int.from_bytes(data[at + 8 : at + 16], "little")
    return size > rest and is_plausible(kind, size, seq, expected)
