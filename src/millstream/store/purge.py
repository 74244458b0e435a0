"""Remove many messages from a log in pieces (``base.slices``).

Anything may happen to the log between two pieces: messages are added and removed, segments dropped, compacted
or unloaded.  Messages added meanwhile are kept.  What was removed is gone with the next commit, however the
work ends.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from millstream.base.build import pure_requested
from millstream.base.slices import Pieces
from millstream.store.filters import flags_between
from millstream.subjects.tokens import is_literal

if TYPE_CHECKING:
    from millstream.store.log import Log
    from millstream.store.segment import Segment

# Messages of a piece; each costs a hundred lines of Python if they are interpreted.
STRETCH: Final = 24 if pure_requested() else 1024
_SUBJECTS: Final = 128 if pure_requested() else 1024  # that are compared with a pattern in a piece
_ONE_BY_ONE: Final = 16  # messages that are removed one by one, or subjects that are looked up
_FEW: Final = 64  # messages of a subject: as many as a key has at most
_COUNTED: Final = 128 if pure_requested() else 256  # subjects of a piece that is only counted


def below(log: Log, end: int) -> Pieces[int]:
    """Remove every message below `end`; return their number."""
    removed = 0
    if end > log.last_seq:
        return log.remove_below(end)  # which looks at no message
    while log.messages and log.first_seq < end:
        removed_now = log.remove_below(min(log.reader.after(log.first_seq, STRETCH), end))
        removed += removed_now
        yield removed_now
    return removed


def oldest(log: Log, count: int) -> Pieces[int]:
    """Remove the `count` oldest messages; return how many there were."""
    removed = 0
    while log.messages and removed < count:
        removed_now = log.remove_below(log.reader.after(log.first_seq, min(count - removed, STRETCH)))
        removed += removed_now
        yield removed_now
    return removed


def matching(log: Log, pattern: bytes, end: int, keep: int) -> Pieces[int]:
    """Remove messages that match `pattern` below `end`, except the newest `keep`; return their number."""
    most = -1
    if keep:
        most = (yield from _count(log, pattern)) - keep
        if most <= 0:
            return 0
    if is_literal(pattern):
        return (yield from _of_subject(log, pattern, end, most))
    removed, first = 0, log.first_seq
    while removed != most and first < end and (position := _position(log, first)) < len(log.chain.segments):
        segment = log.chain.segments[position]
        first = segment.last_seq + 1
        removed += yield from _of_segment(log, segment, pattern, end, most - removed if most >= 0 else -1)
        yield 1
    return removed


def excess(log: Log, limit: int) -> Pieces[None]:
    """Remove the oldest messages of subjects with more than `limit`, in one pass over the log."""
    if not (yield from _has_excess(log, limit)):
        return
    first = log.first_seq
    end = log.last_seq + 1
    while first < end and (position := _position(log, first)) < len(log.chain.segments):
        segment = log.chain.segments[position]
        first = segment.last_seq + 1
        yield from _excess_in(log, segment, limit)
        yield 1


def oldest_file(log: Log, spare: int) -> Pieces[int]:
    """Remove all messages of the oldest file if they have less than `spare` bytes; return their number.

    Four bytes more are counted for each message.
    """
    segment = log.chain.segments[0]
    if 0 < segment.live_bytes + 4 * segment.live < spare:
        return (yield from below(log, segment.last_seq + 1))
    return 0


def _has_excess(log: Log, limit: int) -> Pieces[bool]:
    """Return True if any subject has more than `limit` messages."""
    if log.messages - log.index.subjects < limit:
        return False  # even if all subjects but one have a single message
    nodes = (node for _, node in log.index.match(b">"))
    while counts := [node.count for node in itertools.islice(nodes, _COUNTED)]:
        if max(counts) > limit:
            return True
        yield len(counts)
    return False


def _position(log: Log, seq: int) -> int:
    """Return the position of the segment that has `seq`, or of the first one after it."""
    position = log.chain.position_of(seq)
    return position + (position < len(log.chain.segments) and log.chain.segments[position].last_seq < seq)


def _excess_in(log: Log, segment: Segment, limit: int) -> Pieces[None]:
    """Remove them in one segment, whose tables stay in memory meanwhile."""
    seq, epoch, excessive = 0, -1, b""
    segment.pins += 1
    try:
        while segment.live and log.chain.segment_of(segment.base_seq) is segment:
            if not segment.loaded or epoch != segment.epoch:  # a compaction numbers messages anew
                log.reader.load(segment)
                epoch = segment.epoch
                excessive = yield from _excessive(log, segment, limit)
                continue
            ordinal = segment.first_not_below(seq)
            for _ in range(_ONE_BY_ONE):
                ordinal = segment.next_match(ordinal, excessive)
                if ordinal >= segment.count:
                    return
                node = log.index.find(segment.subject_at(ordinal))
                seq = segment.seq_at(ordinal)
                if node is not None and node.count > limit:
                    log.remove(seq)
                ordinal += 1
            seq += 1
            yield _ONE_BY_ONE
    finally:
        segment.pins -= 1


def _excessive(log: Log, segment: Segment, limit: int) -> Pieces[bytes]:
    """Return a flag for each subject of the segment that has more than `limit` messages in all."""
    flags = bytearray(segment.subjects.count)
    for number in range(len(flags)):
        node = log.index.find(segment.subjects.at(number))
        flags[number] = node is not None and node.count > limit
        if number % _ONE_BY_ONE == 0:
            yield _ONE_BY_ONE
    return bytes(flags)


def _count(log: Log, pattern: bytes) -> Pieces[int]:
    """Count the messages that match `pattern`."""
    found = 0
    nodes = (node for _, node in log.index.match(pattern))
    while batch := [node.count for node in itertools.islice(nodes, _COUNTED)]:
        found += sum(batch)
        yield len(batch)
    return found


def _of_subject(log: Log, subject: bytes, end: int, most: int) -> Pieces[int]:
    removed = 0
    if log.count_of(subject) <= _FEW:
        while removed != most and 0 < (seq := log.first_of(subject)) < end and log.remove(seq):
            removed += 1
            yield 1
        return removed
    seq = log.next_match(log.first_seq, subject)
    while seq and seq < end and removed != most:
        stop = min(log.reader.after(seq, min(most - removed, STRETCH) if most >= 0 else STRETCH), end)
        removed_now = log.remove_matching(subject, stop)
        removed += removed_now
        yield max(removed_now, 1)
        seq = log.next_match(max(stop, log.first_seq), subject)
        yield 1  # tables may have been loaded
    return removed


def _of_segment(log: Log, segment: Segment, pattern: bytes, end: int, most: int) -> Pieces[int]:
    """Remove matches in one segment, whose tables stay in memory meanwhile."""
    removed, seq, epoch = 0, 0, -1
    wanted = b""
    segment.pins += 1
    try:
        while segment.live and removed != most and log.chain.segment_of(segment.base_seq) is segment:
            if not segment.loaded or epoch != segment.epoch:  # a compaction numbers messages anew
                log.reader.load(segment)
                epoch = segment.epoch
                wanted = yield from _flags(segment, pattern)
                continue
            stop = min(segment.first_not_below(end), segment.count)
            start = segment.next_match(segment.first_not_below(seq), wanted)
            if start >= stop:
                break
            stop = min(stop, start + (min(most - removed, STRETCH) if most >= 0 else STRETCH))
            seq = segment.seq_at(stop - 1) + 1
            removed_now = log.removal.remove_flagged(segment, start, stop, wanted)
            removed += removed_now
            yield max(removed_now, 1)
    finally:
        segment.pins -= 1
    return removed


def _flags(segment: Segment, pattern: bytes) -> Pieces[bytes]:
    """Return a flag for each subject of the segment that matches `pattern`."""
    subjects = segment.subjects
    parts = []
    for start in range(0, subjects.count, _SUBJECTS):
        end = min(start + _SUBJECTS, subjects.count)
        parts.append(flags_between(subjects, start, end, pattern))
        yield end - start
    return b"".join(parts)
