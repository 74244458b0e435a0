"""Rebuild from the log, after a restart, what a stream knew of its messages' headers.

Only files with such messages are read (``store.marks``).  Of the last file, which has no summary yet, all
messages with headers are read, and the findings are recorded for its summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.jetstream.publish.candidate import MARK_MSG_ID, MARK_SCHEDULE, MARK_TTL
from millstream.jetstream.publish.ttl import ttl_of
from millstream.jsapi import headers as names
from millstream.jsapi.errors import ApiError
from millstream.protocol import headers
from millstream.store.cursor import Cursor
from millstream.store.marks import add_marks, marked_ranges, with_headers
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_MSG_ID: Final = names.MSG_ID.encode()
_TTL: Final = names.TTL.encode()
_SCHEDULE: Final = names.SCHEDULE_PREFIX.encode()


def restore(stream: Stream) -> None:
    """Fill the duplicate window and the tables of TTLs and schedules, before the stream starts."""
    oldest = stream.world.now_ns() - stream.dedupe.window_ns
    record, cursor = Record(), Cursor(stream.log)
    for part in marked_ranges(stream.log):
        wanted = MARK_TTL if stream.config.allow_msg_ttl else 0
        if stream.config.allow_msg_schedules:
            wanted |= MARK_SCHEDULE
        if part.last_timestamp >= oldest:
            wanted |= MARK_MSG_ID
        wanted &= part.marks
        if not wanted:
            continue
        for seq in with_headers(stream.log, part.first):
            if cursor.seq != seq:
                cursor.move(seq)
            if cursor.next(record) and record.seq == seq:  # otherwise it is damaged
                add_marks(stream.log, seq, _restore_one(stream, record, wanted, oldest))


def _restore_one(stream: Stream, record: Record, wanted: int, oldest: int) -> int:
    """Restore one message; return its marks."""
    block = record.headers()
    marks = 0
    if wanted & MARK_MSG_ID and _MSG_ID in block:
        message_id = headers.find(block, _MSG_ID)
        if message_id:
            marks |= MARK_MSG_ID
            if record.timestamp >= oldest:
                stream.dedupe.add(message_id, record.seq, record.timestamp)
    if wanted & MARK_TTL and _TTL in block:
        try:
            seconds = ttl_of(block)
        except ApiError:  # stored when the stream did not allow any
            seconds = 0
        if seconds > 0:
            marks |= MARK_TTL
            stream.expiry.add(record.seq, record.timestamp, seconds)
    if wanted & MARK_SCHEDULE and _SCHEDULE in block and stream.schedules.restore(record, block):
        marks |= MARK_SCHEDULE
    return marks
