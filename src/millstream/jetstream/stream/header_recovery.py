"""Rebuild from the log, after a restart, what a stream knew of its messages' headers.

Only files with such messages are read (``store.marks``), and of those that only have ids, only messages whose
ids are in no file of ids (``id_keeper``).  Of the last file, which has no summary yet, all messages with
headers are read, and the findings are recorded for its summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base.buffer import equal_bytes
from millstream.jetstream.dedupe.window import Dedupe
from millstream.jetstream.publish.candidate import MARK_MSG_ID, MARK_SCHEDULE, MARK_TTL
from millstream.jetstream.publish.ttl import TtlExpiry, seconds_of
from millstream.jsapi import headers as names
from millstream.jsapi.errors import ApiError
from millstream.store.cursor import Cursor
from millstream.store.marks import add_marks, marked_ranges, with_headers
from millstream.store.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.jetstream.stream.stream import Stream

_PASSED_OVER: Final = 4096  # messages, before others have their turn
_MSG_ID = b"\r\n%b:" % names.MSG_ID.encode()
_TTL = b"\r\n%b:" % names.TTL.encode()
_CR = ord("\r")
_LF = ord("\n")
_BLANK = ord(" ")
_SCHEDULE: Final = names.SCHEDULE_PREFIX.encode()


def restore(stream: Stream) -> None:
    """Fill the duplicate window and the tables of TTLs and schedules, before the stream starts."""
    oldest = stream.world.now_ns() - stream.dedupe.window_ns
    record, cursor = Record(), Cursor(stream.log)
    dedupe, expiry = stream.dedupe, stream.expiry
    dedupe.recent.first_seq = stream.log.last_seq + 1
    for part in marked_ranges(stream.log):
        others = MARK_TTL if stream.config.allow_msg_ttl else 0
        if stream.config.allow_msg_schedules:
            others |= MARK_SCHEDULE
        others &= part.marks
        gaps: list[tuple[int, int]] = []
        marks = 0
        if part.marks & MARK_MSG_ID and part.last_timestamp >= oldest:
            gaps = stream.ids.gaps(part.first, part.last)
            if gaps != [(part.first, part.last)]:
                marks = MARK_MSG_ID  # some of the others may have ids
        if not gaps and not others:
            add_marks(stream.log, part.first, marks)
            continue
        for seq in with_headers(stream.log, part.first):
            wanted = others
            for first, last in gaps:
                if first <= seq <= last:
                    wanted |= MARK_MSG_ID
            if not wanted:
                continue
            if cursor.seq != seq:
                cursor.move(seq)
            if cursor.next(record) and record.seq == seq:  # otherwise it is damaged
                marks |= _restore_one(stream, dedupe, expiry, record, wanted, oldest)
                if dedupe.full:
                    stream.ids.make_room()
        add_marks(stream.log, part.first, marks)
    last = stream.log.last_seq
    if (
        last
        and not stream.ids.gaps(last, last)
        and stream.log.get(last, record)
        and record.timestamp >= oldest
    ):
        dedupe.set_last(_value(record, _MSG_ID), last)


def ids_between(stream: Stream, first: int, last: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield sequence, time and id of the messages in this range, now and then one without; raises StoreError.

    The log may change meanwhile.
    """
    record, cursor = Record(), Cursor(stream.log, first)
    cursor.allow(_PASSED_OVER)
    while cursor.seq <= last:
        if cursor.step(record):
            if record.seq > last:
                return
            yield record.seq, record.timestamp, _value(record, _MSG_ID)
        elif cursor.tired:
            cursor.allow(_PASSED_OVER)
            yield 0, 0, b""
        else:
            return


def _restore_one(
    stream: Stream, dedupe: Dedupe, expiry: TtlExpiry, record: Record, wanted: int, oldest: int
) -> int:
    """Restore one message; return its marks."""
    marks = 0
    if wanted & MARK_MSG_ID:
        message_id = _value(record, _MSG_ID)
        if message_id:
            marks |= MARK_MSG_ID
            if record.timestamp >= oldest:
                if record.seq < dedupe.recent.first_seq:
                    dedupe.recent.first_seq = record.seq
                dedupe.add(message_id, record.seq, record.timestamp)
    if wanted & MARK_TTL:
        text = _value(record, _TTL)
        seconds = _seconds(text) if text else 0
        if seconds > 0:
            marks |= MARK_TTL
            expiry.add(record.seq, record.timestamp, seconds)
    if wanted & MARK_SCHEDULE:
        block = record.headers()
        if _SCHEDULE in block and stream.schedules.restore(record, block):
            marks |= MARK_SCHEDULE
    return marks


def _seconds(text: bytes) -> int:
    try:
        return seconds_of(text)
    except ApiError:  # stored when the stream did not allow any
        return 0


def _value(record: Record, needle: bytes) -> bytes:
    """Return the value of the header that `needle` introduces, like ``headers.find``; empty if none."""
    block = record.buf
    at = record.body_start
    end = at + record.header_size
    size = len(needle)
    while at + size <= end:
        if block[at] == _CR and equal_bytes(record.buf, at, needle):
            break
        at += 1
    else:
        return b""
    start = at + size
    while start < end and block[start] == _BLANK:
        start += 1
    at = start
    while at < end and not (block[at] == _CR and at + 1 < end and block[at + 1] == _LF):
        at += 1
    return record.buf[start:at]
