"""The summary of a sealed segment's file, which saves reading the file.

    "MSSUM\\x02\\0\\0" | crc u32 | fixed part | subjects | removals | others | sizes | subject numbers | seqs
    | timed ordinals | times

A restart reads the fixed part, the subjects (each with its count, first and last sequence) and the removals;
the tables after them are read when a message of the segment is needed.  Tables are as narrow as their values
allow: a segment of one subject with small messages takes two bytes a message.  Times are listed for one
message in 4 KiB (``waypoints``); format 1, which is read as well, ends before them.

The summary is derived: if it is missing, damaged or does not fit its segment's size, it is rebuilt from the
segment.  A valid checksum is not enough: every number is checked against the others before it is used
(``_load``), because compiled code relies on them.  ``docs/formats/log.md`` describes the bytes.
"""

import struct

import msgspec

from millstream.base.buffer import GrowingBuffer, read_little
from millstream.base.checksum import crc32c
from millstream.base.numbers import Numbers, pack_rising, unpack_rising
from millstream.store.segment import ALL_MARKS, FILE_HEADER_SIZE, Segment
from millstream.store.subject_list import SubjectList

MAGIC = b"MSSUM\x02\x00\x00"
_UNTIMED_MAGIC = b"MSSUM\x01\x00\x00"  # of format 1
_FIXED = struct.Struct("<QQQQqqQQQIIBBBBIIIII")
_SUBJECT_SIZE = 2 + 4 + 8 + 8  # of a subject: length of its name, messages, first and last sequence
_START = len(MAGIC) + 4
_LARGEST_SIZE = 0xFFFFFFFF  # of a segment, whose offsets have four bytes
_LARGEST_SEQ = 0xFFFFFFFFFFFFFFFE

_HEADER_BIT = 0x80000000
_SUBJECT_MASK = 0x7FFFFFFF


class SubjectSums:
    """The messages of each subject of a segment, including removed ones, by the subject's number."""

    def __init__(self) -> None:
        self.names = SubjectList()
        self.counts = Numbers(4)
        self.firsts = Numbers(8)
        self.lasts = Numbers(8)

    def read(self, data: bytes, at: int, count: int) -> int:
        """Read `count` entries of a summary at `at`; return their end.  Raise ValueError if it is cut."""
        for _ in range(count):
            if len(data) - at < _SUBJECT_SIZE:
                raise ValueError("summary is cut short")
            size = read_little(data, at, 2)
            self.counts.push(read_little(data, at + 2, 4))
            self.firsts.push(read_little(data, at + 6, 8))
            self.lasts.push(read_little(data, at + 14, 8))
            self.names.append_name(data, at + _SUBJECT_SIZE, size)
            at += _SUBJECT_SIZE + size
        return at

    def read_names(self, data: bytes, at: int, count: int) -> int:
        """Read only the names of `count` entries at `at`; return their end.  Raise ValueError if cut."""
        return self.names.append_names(data, at, count, _SUBJECT_SIZE)


class Layout(msgspec.Struct):
    """Position and width of the tables in the bytes of a summary."""

    data: bytes
    at: int
    sparse: bool
    size_width: int
    subject_width: int
    other_count: int
    first_offset: int
    timed_count: int


class Summary(msgspec.Struct):
    """The part that a restart needs, and the tables for reading the segment."""

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
    subjects: SubjectSums
    removals: list[int]
    layout: Layout
    tables: Segment


def encode(segment: Segment, all_bytes: int) -> bytes:
    """Return the summary of a segment with loaded tables; `all_bytes` counts every message's record."""
    size_width = 2 if _largest_gap(segment) < 65536 else 4
    subject_width = _subject_width(segment)
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
    out.reserve(4)
    out.put_little(segment.timed.count, 4)
    _put_subjects(out, segment)
    out.append(pack_rising(sorted(segment.removals.to_list())))
    out.append(segment.others.peek())
    _put_gaps(out, segment, size_width)
    if subject_width == 0:
        out.append((_number_at(segment, 0) if segment.count else 0).to_bytes(4, "little"))
    else:
        _put_numbers(out, segment, subject_width)
    if segment.seqs is not None:
        out.append(segment.seqs.peek())
    out.append(segment.timed.peek())
    out.append(segment.times.peek())
    body = out.take()
    return MAGIC + crc32c(body).to_bytes(4, "little") + body


def decode(data: bytes, *, read_before: bool = False) -> Summary | None:
    """Decode the summary in `data`; return None if it is invalid.

    `read_before`: the sums of its subjects and the uniqueness of their names were checked when the log was
    opened.  Only the names are read, and the numbers that compiled code relies on are checked.
    """
    if len(data) < _START + _FIXED.size or not data.startswith((MAGIC, _UNTIMED_MAGIC)):
        return None
    if int.from_bytes(data[len(MAGIC) : _START], "little") != crc32c(data[_START:]):
        return None
    try:
        summary = _decode(data, read_before)
        return summary if read_before or summary.subjects.names.is_unique() else None
    except (ValueError, OverflowError, struct.error):  # a sound checksum over something else
        return None


def _decode(data: bytes, read_before: bool) -> Summary:
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
        other_count,
        first_offset,
    ) = _FIXED.unpack_from(data, _START)
    position, timed_count = _START + _FIXED.size, 0
    if data.startswith(MAGIC):
        timed_count = int.from_bytes(data[position : position + 4], "little")
        position += 4
    if subject_count * _SUBJECT_SIZE > len(data):
        raise ValueError("summary is cut short")
    subjects = SubjectSums()
    if read_before:
        position = subjects.read_names(data, position, subject_count)
    else:
        position = subjects.read(data, position, subject_count)
    removals, position = unpack_rising(data, position, removal_count)
    tables = Segment(number, start_seq)
    tables.base_seq, tables.last_seq = base_seq, last_seq
    tables.size, tables.count, tables.with_headers = log_size, count, with_headers
    if live_bytes > log_size or marks > ALL_MARKS or floor > _LARGEST_SEQ:
        raise ValueError("numbers are out of range")
    layout = Layout(
        data, position, bool(sparse), size_width, subject_width, other_count, first_offset, timed_count
    )
    _load(tables, subjects, layout)
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
        layout,
        tables,
    )


def load_tables(segment: Segment, summary: Summary) -> None:
    """Load the tables of a sealed segment."""
    segment.erased = erased_in(summary)
    tables = summary.tables
    segment.load(tables.offsets, tables.subject_of, tables.seqs, tables.others, summary.subjects.names)
    segment.take_times(tables.timed, tables.times)


def _load(tables: Segment, sums: SubjectSums, layout: Layout) -> None:
    """Fill the tables; raise ValueError unless all numbers are consistent."""
    count, data, position, width = tables.count, layout.data, layout.at, layout.subject_width
    if not (
        FILE_HEADER_SIZE <= tables.size <= _LARGEST_SIZE
        and tables.start_seq <= tables.base_seq
        and tables.base_seq <= tables.last_seq + 1
        and tables.last_seq <= _LARGEST_SEQ
        and layout.size_width in (2, 4)
        and width in (0, 1, 2, 4)
    ):
        raise ValueError("numbers are out of range")
    needed = (
        4 * layout.other_count + count * (layout.size_width + 8 * layout.sparse) + 12 * layout.timed_count
    )
    if len(data) - position != needed + (count * width if width else 4):
        raise ValueError("tables have another size")
    others = Numbers(4, data[position : position + 4 * layout.other_count])
    position += 4 * layout.other_count
    offsets = Numbers(4)
    offsets.push_sums(layout.first_offset, data, position, layout.size_width, count)
    position += count * layout.size_width
    last_gap = int.from_bytes(data[position - layout.size_width : position], "little") if count else 0
    table = Numbers(4)
    table.push_shifted(data, position, width, count, _HEADER_BIT)
    position += count * width if width else 4
    seqs = Numbers(8, data[position : position + 8 * count]) if layout.sparse else None
    position += 8 * count if layout.sparse else 0
    timed = Numbers(4, data[position : position + 4 * layout.timed_count])
    if not timed.rise_between(0, count):
        raise ValueError("times of messages that do not exist")
    tables.load(offsets, table, seqs, others, tables.subjects)
    tables.take_times(timed, Numbers(8, data[position + timed.size :]))
    if not _offsets_are_sound(tables, last_gap):
        raise ValueError("offsets do not rise to the end of the segment")
    if not _seqs_are_sound(tables):
        raise ValueError("sequences do not rise")
    if not _sums_are_right(tables, sums):
        raise ValueError("subjects were not counted so")


def _offsets_are_sound(tables: Segment, last_gap: int) -> bool:
    """Return True if records are consecutive within the file, and the last one ends with it."""
    offsets, end = tables.offsets, tables.size
    if offsets.count and offsets.at(offsets.count - 1) + last_gap != end:
        return False
    return offsets.rise_between(FILE_HEADER_SIZE, end) and tables.others.rise_between(FILE_HEADER_SIZE, end)


def _seqs_are_sound(tables: Segment) -> bool:
    """Return True if the sequences rise from the first to the last that the segment uses."""
    seqs, first, last = tables.seqs, tables.base_seq, tables.last_seq
    if seqs is None or not tables.count:
        return tables.count <= last + 1 - first
    return seqs.at(0) == first and seqs.rise_between(first, last + 1)


def _sums_are_right(tables: Segment, sums: SubjectSums) -> bool:
    """Return True if the sums of each subject agree with the tables; fill in those that were not read."""
    known = sums.names.count
    counts, firsts, lasts = (
        Numbers(4, bytes(4 * known)),
        Numbers(4, bytes(4 * known)),
        Numbers(4, bytes(4 * known)),
    )
    if tables.subject_of.tally(_SUBJECT_MASK, counts, firsts, lasts) != tables.with_headers:
        return False
    if sums.counts.count < known:
        sums.counts = counts
        return True
    for number in range(known):
        if counts.at(number) == 0 or sums.counts.at(number) != counts.at(number):
            return False
        if sums.firsts.at(number) != tables.seq_at(firsts.at(number)):
            return False
        if sums.lasts.at(number) != tables.seq_at(lasts.at(number)):
            return False
    return True


def erased_in(summary: Summary) -> int:
    """Return the number of erased messages, which have the empty subject."""
    sums = summary.subjects
    number = sums.names.blank()
    return sums.counts.at(number) if number >= 0 else 0


def _put_subjects(out: GrowingBuffer, segment: Segment) -> None:
    names, counts, firsts, lasts = segment.subjects, segment.counts, segment.firsts, segment.lasts
    for number in range(names.count):
        size = names.size_at(number)
        out.reserve(_SUBJECT_SIZE + size)
        out.put_little(size, 2)
        out.put_little(counts.at(number), 4)
        out.put_little(firsts.at(number), 8)
        out.put_little(lasts.at(number), 8)
        names.put_name(number, out)


def _gap_at(segment: Segment, ordinal: int) -> int:
    """Return the distance from a message to the next; their sums are the offsets."""
    end = segment.offset_at(ordinal + 1) if ordinal + 1 < segment.count else segment.size
    return end - segment.offset_at(ordinal)


def _largest_gap(segment: Segment) -> int:
    largest = 0
    for ordinal in range(segment.count):
        gap = _gap_at(segment, ordinal)
        if gap > largest:
            largest = gap
    return largest


def _put_gaps(out: GrowingBuffer, segment: Segment, width: int) -> None:
    out.reserve(segment.count * width)
    for ordinal in range(segment.count):
        out.put_little(_gap_at(segment, ordinal), width)


def _number_at(segment: Segment, ordinal: int) -> int:
    """Return the subject's number with the header bit at the bottom, where it costs least."""
    value = segment.subject_of.at(ordinal)
    return ((value & _SUBJECT_MASK) << 1) | (1 if value & _HEADER_BIT else 0)


def _subject_width(segment: Segment) -> int:
    """Return the bytes needed for each number; 0 if all are equal."""
    largest = 0
    same = True
    for ordinal in range(segment.count):
        value = _number_at(segment, ordinal)
        if ordinal and value != largest:
            same = False
        if value > largest:
            largest = value
    if same:
        return 0
    return 1 if largest < 256 else 2 if largest < 65536 else 4


def _put_numbers(out: GrowingBuffer, segment: Segment, width: int) -> None:
    out.reserve(segment.count * width)
    for ordinal in range(segment.count):
        out.put_little(_number_at(segment, ordinal), width)
