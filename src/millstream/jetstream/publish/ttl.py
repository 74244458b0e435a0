"""Messages with a TTL of their own (`Nats-TTL`), and the markers that replace them.

Due times are kept in buckets of an eighth of a second, each an array of sequences, so a message with a TTL
costs eight bytes until it is due and any other message nothing.  A message removed earlier stays in its
bucket and is skipped when it is due; if there are too many of those, all buckets are cleaned.  Nothing of
this is on disk: a restart reads the headers again (``header_recovery``).  Compiled, because it is on the path
of a message.

With `subject_delete_marker_ttl`, the last message of a subject is replaced by a marker when it expires by TTL
or age: an empty message that states the reason and expires in turn, without a marker.
"""

from __future__ import annotations

import heapq
import logging
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from millstream.base import guard, slices
from millstream.base.build import pure_requested
from millstream.base.decimals import read_wrapped
from millstream.base.slices import Pieces
from millstream.golang.duration import DurationError, format_seconds, parse_duration
from millstream.jetstream.publish.candidate import MARK_TTL, Incoming
from millstream.jsapi import headers as names
from millstream.jsapi.errors import ApiError, Err
from millstream.protocol import headers
from millstream.store.errors import StoreError
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream
    from millstream.store.log import Log

NEVER: Final = -1

_log = logging.getLogger("millstream.jetstream")

_NS: Final = 1_000_000_000
_GRAINS = 8  # of a second
_GRAIN_NS = 1_000_000_000 // _GRAINS
_LONGEST_S = 2**59  # in a number of a bucket there is room for so many
_PIECE: Final = 2 if pure_requested() else 16  # messages removed or replaced one by one
_LOOKED_UP: Final = 64  # messages or buckets that are looked up
_NONE: Final = array("Q")
_LONGEST_TIMER_S: Final = 60.0  # the clock may be set forward meanwhile
_STALE: Final = 4096  # sequences that may be in the buckets although their messages are gone
_READ_AGAIN_S: Final = 10  # after a read that failed
_TTL: Final = names.TTL.encode()
_MARKER_REASON: Final = names.MARKER_REASON.encode()
_KV_OPERATION: Final = names.KV_OPERATION.encode()
_KV_PURGE: Final = names.KV_OPERATION_PURGE.encode()
_INT64: Final = 2**64


def ttl_of(block: bytes) -> int:
    """Return the TTL in seconds, 0 without the header, or NEVER; raise ApiError if it is invalid."""
    value = headers.find(block, _TTL) if _TTL in block else None
    return seconds_of(value) if value else 0


@lru_cache(maxsize=256)  # most messages of a stream have the same few
def seconds_of(text: bytes) -> int:
    """Return the TTL of a header's value in seconds, or NEVER; raise ApiError if it is invalid."""
    return parse_ttl(text.decode(errors="replace"))


def parse_ttl(text: str) -> int:
    if text.lower() == names.TTL_NEVER:
        return NEVER
    try:
        nanoseconds = parse_duration(text)
    except DurationError:
        return _plain_seconds(text)
    if nanoseconds < _NS:
        raise ApiError(Err.MESSAGE_TTL_INVALID)
    return nanoseconds // _NS


def _plain_seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ApiError(Err.MESSAGE_TTL_INVALID)
    seconds = read_wrapped(text)  # as in nats-server, too many digits wrap around
    if seconds >= _INT64 // 2:
        raise ApiError(Err.MESSAGE_TTL_INVALID)
    return seconds


def refuse_if_disabled(stream: Stream, block: bytes, *, unreadable: bool) -> None:
    """Raise ApiError for a TTL that the stream does not allow; unreadable ones only on request."""
    if stream.config.allow_msg_ttl:
        return
    try:
        seconds = ttl_of(block)
    except ApiError:
        seconds = int(unreadable)
    if seconds:
        raise ApiError(Err.MESSAGE_TTL_DISABLED)


def take_ttl(stream: Stream, message: Incoming) -> None:
    """Set the TTL of a message from its header; raise ApiError if it is invalid."""
    seconds = ttl_of(message.block)
    if not seconds:
        return
    config = stream.config
    shortest = config.subject_delete_marker_ttl // _NS
    if 0 < seconds < shortest and config.max_msgs_per_subject != 1:
        # Otherwise it would expire before the marker of its predecessor, which would then be the last
        # message.
        seconds = shortest
        message.block = headers.replace(message.block, _TTL, b"%d" % seconds)
    message.ttl_s = seconds
    if seconds > 0:
        message.marks |= MARK_TTL


def is_marker(block: bytes) -> bool:
    """Return True if a message marks a deleted subject."""
    return bool(headers.find(block, _MARKER_REASON)) or headers.find(block, _KV_OPERATION) == _KV_PURGE


class TtlExpiry:
    """The messages of one stream that have a TTL."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._log: Log = stream.log
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []  # a heap of the buckets' numbers
        self._count = 0  # sequences in all buckets
        self._timer: Cancel | None = None
        self._timer_bucket = 0
        self._running = False
        self._expiring = False  # messages are being removed in slices
        self._compacting = False  # buckets are being cleaned in slices
        self._troubled = False  # some of those that are due cannot be removed
        self._record = Record()

    def __len__(self) -> int:
        return self._count

    def start(self) -> None:
        self._running = True
        if self._order:
            self._expire()

    def stop(self) -> None:
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, seq: int, timestamp: int, ttl_s: int) -> None:
        """Add a message that was stored, or found at a restart."""
        number = timestamp // _GRAIN_NS + min(ttl_s, _LONGEST_S) * _GRAINS + 1
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = array("Q")
            heapq.heappush(self._order, number)
        bucket.append(seq)
        self._count += 1
        if self._count > 2 * self._log.state.messages + _STALE and not self._compacting:
            self._compacting = True
            slices.begin(self._stream.world, "stale times", self._compact())
        if self._running and not self._expiring and (self._timer is None or number < self._timer_bucket):
            self._plan()

    def plain_ttl(self, text: bytes) -> int:
        """Return the TTL of a message in seconds; 0 if it needs the slow path."""
        try:
            seconds = seconds_of(text.lstrip(b" "))
        except ApiError:
            return 0
        return seconds if seconds >= self._stream.config.subject_delete_marker_ttl // _NS else 0

    def _compact(self) -> Pieces[None]:
        """Clean all buckets: most of their messages are gone, as with a key that is often overwritten."""
        try:
            for count, number in enumerate(list(self._buckets), 1):
                yield from self._compact_one(number)
                if count % _LOOKED_UP == 0:
                    yield _LOOKED_UP
        except StoreError:
            pass  # retried at the next cleaning
        finally:
            self._compacting = False

    def _compact_one(self, number: int) -> Pieces[None]:
        """Remove missing messages from a bucket; an empty bucket's number stays in `_order`."""
        bucket, kept, start = self._buckets.get(number, _NONE), array("Q"), 0
        while start < len(bucket):  # the bucket may grow meanwhile
            kept.extend(seq for seq in bucket[start : start + _LOOKED_UP] if self._stream.log.has(seq))
            start += _LOOKED_UP
            if start < len(bucket):
                yield _LOOKED_UP
        if self._buckets.get(number) is not bucket:
            return  # it became due
        self._count -= len(bucket) - len(kept)
        if kept:
            self._buckets[number] = kept
        else:
            del self._buckets[number]

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._order:
            self._timer_bucket = self._order[0]
            delay_s = (self._timer_bucket * _GRAIN_NS - self._stream.world.now_ns()) / _NS
            self._timer = self._stream.world.call_later(
                min(max(delay_s, 0.0), _LONGEST_TIMER_S), self._expire
            )

    def _expire(self) -> None:
        self._timer = None
        if not self._expiring:
            self._expiring = True
            slices.begin(self._stream.world, "expiry", self._drop_due())

    def _drop_due(self) -> Pieces[None]:
        """Remove all messages that are due, then schedule the next removal."""
        self._troubled = False
        try:
            while self._order and self._order[0] <= self._stream.world.now_ns() // _GRAIN_NS:
                due = self._buckets.pop(heapq.heappop(self._order), _NONE)  # in order
                self._count -= len(due)
                for start in range(0, len(due), _PIECE):
                    for seq in due[start : start + _PIECE]:
                        guard.alone("expiring a message", self._drop_or_wait, seq)
                    self._stream.account.committer.dirty(self._stream)
                    yield _PIECE
                    if not self._running:
                        return
            self._plan()
        finally:
            self._expiring = False

    def _drop_or_wait(self, seq: int) -> None:
        """Remove a message that is due; where the log cannot be read, try again later."""
        try:
            self.drop(seq)
        except StoreError as error:
            if not self._troubled:
                _log.error("stream %s: expired messages cannot be removed yet: %s", self._stream.name, error)
            self._troubled = True
            self.add(seq, self._stream.world.now_ns(), _READ_AGAIN_S)

    def drop(self, seq: int) -> None:
        """Remove a message that is due, or replace it by a marker.

        Raises StoreError if it cannot be read; then it is still there.
        """
        subject = self._subject_to_mark(seq)
        if subject is None:
            self._stream.log.remove(seq)
            return
        seconds = self._stream.config.subject_delete_marker_ttl // _NS
        block = headers.make(
            (_MARKER_REASON, names.MARKER_REASON_MAX_AGE.encode()),
            (_TTL, format_seconds(seconds).encode()),
            (names.ROLLUP.encode(), names.ROLLUP_SUBJECT.encode()),
        )
        marker = Incoming(subject, b"", block, b"", rollup=names.ROLLUP_SUBJECT.encode())
        marker.ttl_s, marker.marks = seconds, MARK_TTL
        self._stream.publishing.store(marker)

    def _subject_to_mark(self, seq: int) -> bytes | None:
        """Return the subject if the message is its last and not a marker; None if no marker is needed."""
        stream = self._stream
        if not stream.config.subject_delete_marker_ttl:
            return None
        subject = stream.log.subject_of(seq)
        if subject is None or stream.log.count_of(subject) != 1:
            return None
        if stream.log.has_headers(seq) and stream.log.get(seq, self._record):
            return None if is_marker(self._record.headers()) else subject
        return subject
