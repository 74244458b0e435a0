"""Copy messages between a stream's log and an archive.

``MessageLoader`` checks the messages of an archive one by one and stores them unchanged in a log.  Gaps
between sequences are deleted messages, whose sequences stay used.  Messages whose TTL is over are not stored.
``fill`` goes the other way.  Compiled, because there may be many.  Not here: where messages come from
(``loader``), and when records are written.
"""

import re
from collections.abc import Callable

from millstream.archive.blocks import BlockReader
from millstream.archive.entries import EntryBuffer, EntryReader
from millstream.archive.errors import ArchiveError
from millstream.archive.stream_index import DeletedSequences
from millstream.jetstream.publish.candidate import MARK_MSG_ID, MARK_SCHEDULE, MARK_TTL
from millstream.jetstream.publish.ttl import ttl_of
from millstream.jsapi import headers as names
from millstream.jsapi.errors import ApiError
from millstream.jsapi.limits import LARGEST_SEQ
from millstream.store.frozen import Frozen
from millstream.store.log import Log
from millstream.store.record import MAX_SUBJECT, Record

_MSG_ID = names.MSG_ID.encode()
_TTL = names.TTL.encode()
_SCHEDULE = names.SCHEDULE_PREFIX.encode()
_MARK_MSG_ID = MARK_MSG_ID
_MARK_TTL = MARK_TTL
_MARK_SCHEDULE = MARK_SCHEDULE
_NS = 1_000_000_000
_AHEAD = 64 * 1024
_LARGEST_SEQ = LARGEST_SEQ
_SUBJECT = re.compile(rb"[^\x00-\x20]+")  # subscribers get it in a protocol line


class LoadLimits:
    """Limits for one message and for all together, in bytes."""

    def __init__(
        self,
        max_payload: int,
        max_size: int,
        max_subject: int,
        *,
        hold: Callable[[int], bool] = lambda size: True,
        refusal: Callable[[], Exception] = lambda: ArchiveError("no room"),
        extra: int = 0,
        most: int = 0,
    ) -> None:
        self.max_payload = max_payload
        self.max_size = max_size if max_size >= 0 else max_payload  # headers and body
        self.max_subject = min(max_subject, MAX_SUBJECT)
        self.hold = hold  # reserves this many bytes in total, or returns False
        self.refusal = refusal  # makes the exception to raise then
        self.extra = extra  # bytes that a message counts in addition to its record
        self.most = most  # bytes of all messages: the oldest are dropped; 0: unlimited


class MessageLoader:
    """Fills an empty log.  With `now_ns` 0, messages whose TTL is over are stored as well."""

    def __init__(self, log: Log, limits: LoadLimits, now_ns: int) -> None:
        self.log = log
        self.last_seq = log.state.last_seq  # sequence of the previous message
        self.ended = False  # the end of the archive was read
        self._max_payload = limits.max_payload
        self._max_size = limits.max_size
        self._max_subject = limits.max_subject
        self._limits = limits
        self._extra = limits.extra
        self._most = limits.most
        self._held = 0  # bytes reserved in the account
        self._now_ns = now_ns

    def take(self, reader: EntryReader, most: int) -> bool:
        """Store up to `most` messages of the reader; return False if it needs more bytes or has ended."""
        count = 0
        while count < most:
            if not reader.next():
                return False
            if reader.seq == 0:
                if reader.is_end():
                    self.ended = True
                    return False
                raise ArchiveError("expected message sequence")
            if reader.too_large:
                raise _too_large(reader.seq)
            self.add(
                reader.name(),
                reader.buf,
                reader.body_start,
                reader.header_size,
                reader.body_size,
                reader.seq,
                reader.timestamp,
            )
            count += 1
        return True

    def take_records(self, reader: BlockReader, most: int, deleted: DeletedSequences | None = None) -> bool:
        """Store up to `most` records of a block; return False if it has ended.

        `deleted` are the deleted messages of this block, if known; otherwise tombstones tell.
        """
        count = 0
        while count < most:
            if not reader.next():
                return False
            if reader.tombstone:
                if deleted is None:
                    self.log.remove(reader.seq)
            elif (
                not reader.erased
                and reader.seq > self.last_seq
                and (deleted is None or not deleted.has(reader.seq))
            ):
                self.add(
                    reader.subject(),
                    reader.buf,
                    reader.body_start,
                    reader.header_size,
                    reader.body_size,
                    reader.seq,
                    reader.timestamp,
                )
            count += 1
        return True

    def add(
        self,
        subject: bytes,
        source: bytes,
        start: int,
        header_size: int,
        size: int,
        seq: int,
        timestamp: int,
    ) -> None:
        """Store ``source[start:start + size]``; raise ArchiveError if no stream can contain it."""
        log = self.log
        if size > self._max_payload:
            raise _too_large(seq)
        if size > self._max_size:
            raise ArchiveError(f"message sequence {seq} exceeds maximum message size")
        if seq <= self.last_seq or seq >= _LARGEST_SEQ:
            raise ArchiveError(f"message sequence {seq} out of order")
        if not log.count_of(subject):
            self._check_subject(subject, seq)
        if seq > log.state.last_seq + 1:
            log.skip_to(seq - 1, timestamp if log.state.last_timestamp == 0 else log.state.last_timestamp)
        self.last_seq = seq
        marks = 0
        if header_size > 0:
            block = source[start : start + header_size]
            marks = _marks_of(block)
            if marks & _MARK_TTL and self._is_over(block, timestamp):
                log.skip_to(seq, timestamp)
                return
        log.append(subject, source, start, header_size, size, timestamp, marks)
        stored = log.state.record_bytes + self._extra * log.state.messages
        if self._most > 0:
            while stored > self._most and log.state.messages > 0:
                log.remove(log.state.first_seq)
                stored = log.state.record_bytes + self._extra * log.state.messages
        if stored > self._held:
            self._hold(stored)

    def _hold(self, stored: int) -> None:
        """Reserve the bytes stored, and some in advance so that not every message asks."""
        limits = self._limits
        if limits.hold(stored + _AHEAD):
            self._held = stored + _AHEAD
        elif limits.hold(stored):
            self._held = stored
        else:
            raise limits.refusal()

    def skip_to(self, seq: int, timestamp: int = 0) -> None:
        """Mark all sequences up to `seq` as used; `timestamp` may be 0 if unknown."""
        if seq >= _LARGEST_SEQ:
            raise ArchiveError(f"message sequence {seq} out of range")
        if seq > self.log.state.last_seq:
            last = self.log.state.last_timestamp
            self.log.skip_to(seq, timestamp if timestamp > last else last)

    def _check_subject(self, subject: bytes, seq: int) -> None:
        """Raise ArchiveError for a subject that nobody could have published here."""
        if len(subject) > self._max_subject or _SUBJECT.fullmatch(subject) is None:
            raise ArchiveError(f"message sequence {seq} has an invalid subject")

    def _is_over(self, block: bytes, timestamp: int) -> bool:
        if self._now_ns == 0:
            return False
        try:
            seconds = ttl_of(block)
        except ApiError as error:
            raise ArchiveError(f"failed to parse message TTL: {told(error)}") from error
        return seconds > 0 and self._now_ns > timestamp + seconds * _NS


def _marks_of(block: bytes) -> int:
    marks = 0
    if _MSG_ID in block:
        marks |= _MARK_MSG_ID
    if _TTL in block:
        marks |= _MARK_TTL
    if _SCHEDULE in block:
        marks |= _MARK_SCHEDULE
    return marks


def _too_large(seq: int) -> ArchiveError:
    return ArchiveError(f"message sequence {seq} exceeds maximum payload size")


def told(error: ApiError) -> str:
    """Return an API error as part of another text."""
    return f"{error} ({error.body.err_code})"


def fill(buffer: EntryBuffer, frozen: Frozen, record: Record, most: int) -> bool:
    """Add messages of the current segment up to `most` bytes; return False if it has no more."""
    while buffer.size < most:
        if not frozen.next(record):
            return False
        buffer.begin(record.subject_size, record.timestamp, record.seq, record.header_size, record.body_size)
        buffer.put(record.buf, record.subject_start, record.subject_size)
        buffer.put(record.buf, record.body_start, record.body_size)
    return True
