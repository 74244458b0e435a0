"""What a sealed segment's file holds, so that nobody has to read it to find out.

    "MRSUM\\x01\\0\\0" | crc u32 | fixed part | subjects | removals | others | sizes | subject numbers | seqs

A restart reads the fixed part, the subjects (each with its count, first and last sequence) and the
removals; the tables behind them are read when a message of the segment is looked for.  Tables are as
narrow as their values allow: a segment of one subject with small messages takes two bytes a message.

The summary is derived: if it is missing, damaged or does not fit its segment's size, it is made again
from the segment.  ``docs/formats/log.md`` has the bytes.
"""

import struct
from dataclasses import dataclass

from millrace.base.buffer import GrowingBuffer
from millrace.store.checksum import crc32c
from millrace.store.numbers import Numbers, pack_rising, unpack_rising
from millrace.store.segment import Segment

MAGIC = b"MRSUM\x01\x00\x00"
_FIXED = struct.Struct("<QQQQqqQQQIIBBBBIIIII")
_SUBJECT = struct.Struct("<HIQQ")
_START = len(MAGIC) + 4

_HEADER_BIT = 0x80000000
_SUBJECT_MASK = 0x7FFFFFFF


@dataclass(slots=True)
class SubjectSum:
    """The messages of one subject in one segment, removed ones included."""

    subject: bytes
    count: int
    first: int
    last: int


@dataclass(slots=True)
class Summary:
    """The part that a restart needs; `data` has the rest."""

    number: int
    start_seq: int
    base_seq: int
    last_seq: int
    first_timestamp: int
    last_timestamp: int
    log_size: int
    live_bytes: int  # of all messages, as if none was removed
    floor: int
    count: int
    with_headers: int
    marks: int
    times_fall: bool
    subjects: list[SubjectSum]
    removals: list[int]
    data: bytes
    tables_at: int
    sparse: bool
    size_width: int
    subject_width: int


class SubjectCounts:
    """Counts per subject, gathered over the tables of a segment."""

    def __init__(self, segment: Segment) -> None:
        subjects = len(segment.subjects)
        self.counts = [0] * subjects
        self.firsts = [0] * subjects
        self.lasts = [0] * subjects
        table = segment.subject_of
        for ordinal in range(segment.count):
            number = table.at(ordinal) & _SUBJECT_MASK
            seq = segment.seq_at(ordinal)
            if self.counts[number] == 0:
                self.firsts[number] = seq
            self.counts[number] += 1
            self.lasts[number] = seq


def encode(segment: Segment, all_bytes: int) -> bytes:
    """The summary of a segment whose tables are loaded; `all_bytes` counts every message's record."""
    sums = SubjectCounts(segment)
    gaps = _gaps(segment)
    size_width = 2 if _largest(gaps) < 65536 else 4
    numbers = _numbers(segment)
    subject_width = _narrowest(numbers)
    out = GrowingBuffer()
    out.append(
        _FIXED.pack(
            segment.number,
            segment.start_seq,
            segment.base_seq,
            segment.last_seq,
            segment.first_timestamp,
            segment.last_timestamp,
            segment.size,
            all_bytes,
            segment.floor,
            segment.count,
            segment.marks,
            segment.seqs is not None,
            size_width,
            subject_width,
            segment.times_fall,
            len(segment.subjects),
            segment.removals.count,
            segment.with_headers,
            segment.others.count,
            segment.offset_at(0) if segment.count else 0,
        )
    )
    for number, subject in enumerate(segment.subjects):
        out.append(_SUBJECT.pack(len(subject), sums.counts[number], sums.firsts[number], sums.lasts[number]))
        out.append(subject)
    out.append(pack_rising(sorted(segment.removals.to_list())))
    out.append(segment.others.peek())
    _put_all(out, gaps, size_width)
    if subject_width == 0:
        out.append((numbers.at(0) if numbers.count else 0).to_bytes(4, "little"))
    else:
        _put_all(out, numbers, subject_width)
    if segment.seqs is not None:
        out.append(segment.seqs.peek())
    body = out.take()
    return MAGIC + crc32c(body).to_bytes(4, "little") + body


def decode(data: bytes) -> Summary | None:
    """The summary in `data`, or None if it is not a sound one."""
    if len(data) < _START + _FIXED.size or not data.startswith(MAGIC):
        return None
    if int.from_bytes(data[len(MAGIC) : _START], "little") != crc32c(data[_START:]):
        return None
    try:
        return _decode(data)
    except (ValueError, struct.error):  # a sound checksum over something else
        return None


def _decode(data: bytes) -> Summary:
    (
        number,
        start_seq,
        base_seq,
        last_seq,
        first_timestamp,
        last_timestamp,
        log_size,
        live_bytes,
        floor,
        count,
        marks,
        sparse,
        size_width,
        subject_width,
        times_fall,
        subject_count,
        removal_count,
        with_headers,
        _,
        _,
    ) = _FIXED.unpack_from(data, _START)
    position = _START + _FIXED.size
    subjects = []
    for _ in range(subject_count):
        size, messages, first, last = _SUBJECT.unpack_from(data, position)
        position += _SUBJECT.size
        subjects.append(SubjectSum(data[position : position + size], messages, first, last))
        position += size
    removals, position = unpack_rising(data, position, removal_count)
    return Summary(
        number,
        start_seq,
        base_seq,
        last_seq,
        first_timestamp,
        last_timestamp,
        log_size,
        live_bytes,
        floor,
        count,
        with_headers,
        marks,
        bool(times_fall),
        subjects,
        removals,
        data,
        position,
        bool(sparse),
        size_width,
        subject_width,
    )


def load_tables(segment: Segment, summary: Summary) -> None:
    """Give a sealed segment its tables back."""
    data = summary.data
    count = summary.count
    position = summary.tables_at
    other_count, first_offset = _FIXED.unpack_from(data, _START)[-2:]
    needed = 4 * other_count + count * (summary.size_width + summary.subject_width + 8 * summary.sparse)
    if len(data) - position < needed + (0 if summary.subject_width else 4):
        raise ValueError("summary is cut short")
    others = Numbers(4, data[position : position + 4 * other_count])
    position += 4 * other_count
    offsets = Numbers(4)
    at = first_offset
    width = summary.size_width
    for ordinal in range(count):
        offsets.push(at)
        at += _little(data, position + ordinal * width, width)
    position += count * width
    width = summary.subject_width
    table = Numbers(4)
    for ordinal in range(count):
        value = _little(data, position + ordinal * width, width) if width else _little(data, position, 4)
        table.push((value >> 1) | (_HEADER_BIT if value & 1 else 0))
    position += count * width if width else 4
    seqs = Numbers(8, data[position : position + 8 * count]) if summary.sparse else None
    segment.load(offsets, table, seqs, others, [each.subject for each in summary.subjects])


def _gaps(segment: Segment) -> Numbers:
    """From each message to the next, so that adding up gives the offsets."""
    gaps = Numbers(4)
    for ordinal in range(segment.count):
        end = segment.offset_at(ordinal + 1) if ordinal + 1 < segment.count else segment.size
        gaps.push(end - segment.offset_at(ordinal))
    return gaps


def _numbers(segment: Segment) -> Numbers:
    """Subject numbers with the header bit at the bottom, where it costs one bit and not three bytes."""
    numbers = Numbers(4)
    table = segment.subject_of
    for ordinal in range(segment.count):
        value = table.at(ordinal)
        numbers.push(((value & _SUBJECT_MASK) << 1) | (1 if value & _HEADER_BIT else 0))
    return numbers


def _largest(numbers: Numbers) -> int:
    largest = 0
    for index in range(numbers.count):
        value = numbers.at(index)
        if value > largest:
            largest = value
    return largest


def _narrowest(numbers: Numbers) -> int:
    """Bytes needed for each; 0 if all are the same."""
    if numbers.count == 0:
        return 0
    first = numbers.at(0)
    same = True
    for index in range(numbers.count):
        if numbers.at(index) != first:
            same = False
            break
    if same:
        return 0
    largest = _largest(numbers)
    return 1 if largest < 256 else 2 if largest < 65536 else 4


def _put_all(out: GrowingBuffer, numbers: Numbers, width: int) -> None:
    out.reserve(numbers.count * width)
    for index in range(numbers.count):
        out.put_little(numbers.at(index), width)


def _little(data: bytes, at: int, width: int) -> int:
    p = data
    value = 0
    for index in range(width):
        byte = p[at + index]
        value |= byte << (8 * index)
    return value
