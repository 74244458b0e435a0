"""Read a segment's file from beginning to end, to rebuild what its summary contains.

A record with a wrong checksum is skipped: the next valid record after it is searched byte by byte, so that
damage loses only what it hit.  Most positions are ruled out by their apparent size, kind and sequence, so the
search does not read everything repeatedly.
"""

import msgspec

from millstream.base.buffer import read_little
from millstream.base.numbers import unpack_rising
from millstream.store.record import COMMIT_START, HEADER_SIZE, WHOLE, Kind, Record, seq_in_mark
from millstream.store.segment import ALL_MARKS, FILE_HEADER_SIZE, Segment

# Sequences do not jump by more than this within a segment; ``log`` begins another one instead.
FARTHEST_JUMP = 1 << 32
SMALLEST_MESSAGE = HEADER_SIZE + 1

_WHOLE = WHOLE
_HEADER_SIZE = HEADER_SIZE
_FILE_HEADER_SIZE = FILE_HEADER_SIZE
_FARTHEST_JUMP = FARTHEST_JUMP
_HEADERS = int(Kind.HEADERS)
_REMOVED = int(Kind.REMOVED)
_FLOOR = int(Kind.FLOOR)
_SKIP = int(Kind.SKIP)
_ERASED = int(Kind.ERASED)
_ERASE = int(Kind.ERASE)
_COMMIT_START = COMMIT_START


class Gap(msgspec.Struct):
    """A damaged part of a file."""

    offset: int
    size: int
    first_seq: int  # of the messages that may have been there
    last_seq: int  # below `first_seq` if there can have been none, or nobody knows yet
    most: int  # messages that can have been there
    # The last sequence that is used up before the next record that tells one; 0: there is none.
    reach: int = 0


class Scan(msgspec.Struct):
    """The result of a scan."""

    end: int  # behind the last sound record
    gaps: list[Gap] = []
    open_gap: Gap | None = None  # one behind which no sequence tells how many messages it had
    erase: list[int] = []  # sequences whose content is to be overwritten
    marked: bool = False  # an end mark stands at `end`: there is nothing behind it that counts
    durable: int = 0  # what is before it was durable when a commit began that ends in this file
    timestamp: int = 0  # the highest of records that are no messages: that of a message before them


def scan(segment: Segment, data: bytes, sound_header: bool = True) -> Scan:
    """Fill an empty segment from the bytes of its file.

    If the file's own header is damaged, `base_seq` is a guess that the first record may correct.
    """
    record = Record()
    result = Scan(_FILE_HEADER_SIZE)
    at = _FILE_HEADER_SIZE
    end = len(data)
    if not sound_header and record.read(data, at, end, True) == _WHOLE and record.is_numbered():
        segment.start_seq = segment.base_seq = max(record.seq, segment.base_seq)
        segment.last_seq = segment.base_seq - 1
    while at < end:
        if record.read(data, at, end, True) != _WHOLE or not _fits(segment, record):
            if _is_end(segment, data, at, result):
                break
            found = _resume(segment, data, at + 1, end, record)
            if found < 0:
                break
            _add_gap(segment, result, data, at, found)
            at = found
        if result.open_gap is not None and (record.is_numbered() or record.kind == _SKIP):
            ends = record.kind == _SKIP and commit_start(record) > 0
            result.open_gap.last_seq = record.seq if ends else record.seq - 1
            _close_gaps(result, record.seq if record.kind == _SKIP else record.seq - 1)
        _note(segment, record, result)
        at += record.size
        result.end = at
    if segment.with_headers:
        segment.marks = ALL_MARKS
    return result


def _is_end(segment: Segment, data: bytes, at: int, result: Scan) -> bool:
    """Return True if there is an end mark at `at`; apply the used sequences that it records."""
    seq = seq_in_mark(data, at)
    if seq == 0:
        return False
    result.marked = True
    if seq > segment.last_seq + 1 and seq - segment.last_seq <= _FARTHEST_JUMP:
        segment.last_seq = seq - 1
    if result.open_gap is not None:
        result.open_gap.last_seq = segment.last_seq
        _close_gaps(result, segment.last_seq)
    return True


def _fits(segment: Segment, record: Record) -> bool:
    """Return True if a valid record can be here: sequences only rise, and not by too much."""
    if record.seq > segment.last_seq:
        return record.seq - segment.last_seq <= _FARTHEST_JUMP
    return not record.is_numbered()


def _resume(segment: Segment, data: bytes, at: int, end: int, record: Record) -> int:
    """Return the start of the next valid record, and point `record` at it; -1 if there is none."""
    while at + _HEADER_SIZE <= end:
        if (
            record.read(data, at, end, False) == _WHOLE
            and _fits(segment, record)
            and record.read(data, at, end, True) == _WHOLE
        ):
            return at
        at += 1
    return -1


def _add_gap(segment: Segment, result: Scan, data: bytes, at: int, end: int) -> None:
    """Record a damaged part; valid records begin again at `end`."""
    damaged = Record()
    alone = damaged.read(data, at, end, False) == _WHOLE and at + damaged.size == end
    most = 1 if alone else max((end - at) // SMALLEST_MESSAGE, 1)
    gap = Gap(at, end - at, segment.last_seq + 1, segment.last_seq, most)
    result.gaps.append(gap)
    segment.note_gap(end)
    if result.open_gap is None:
        result.open_gap = gap
    else:
        result.open_gap.most += most


def _close_gaps(result: Scan, reach: int) -> None:
    for gap in result.gaps:
        if gap.reach == 0:
            gap.reach = reach
    result.open_gap = None


def _note(segment: Segment, record: Record, result: Scan) -> None:
    if record.kind <= _HEADERS:
        segment.note(record.seq, record.timestamp, record.subject(), record.kind == _HEADERS, record.size)
        return
    if record.kind == _ERASED:
        # It keeps its place among the messages, as in a summary that was made before it was erased.
        segment.note(record.seq, record.timestamp, b"", False, record.size)
        segment.removals.push(record.seq)
        segment.erased += 1
        return
    at = segment.size
    segment.note_other(record.size)
    if record.timestamp > result.timestamp:
        result.timestamp = record.timestamp
    if record.kind == _REMOVED or record.kind == _ERASE:
        try:
            removals, _ = unpack_rising(record.payload(), 0, record.seq)
        except (ValueError, OverflowError):  # a sound checksum over something else
            result.gaps.append(Gap(at, record.size, 1, 0, 0))
            return
        segment.removals.extend(removals)
        if record.kind == _ERASE:
            result.erase.extend(removals)
    elif record.kind == _FLOOR:
        segment.floor = max(segment.floor, record.seq)
    else:  # SKIP
        result.durable = max(result.durable, commit_start(record))
        segment.last_seq = max(segment.last_seq, record.seq)


def commit_start(record: Record) -> int:
    """Return up to where the file was durable when the commit began that this SKIP ends; 0: it ends none."""
    if record.body_size != _COMMIT_START:
        return 0
    return read_little(record.buf, record.body_start, _COMMIT_START)
