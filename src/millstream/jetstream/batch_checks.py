"""Check the messages of a batch; an atomic batch completely before any of them is stored.

The rules are those of single messages, applied as if the earlier messages of the batch were stored.  Where
that cannot be known beforehand (an expected sequence on a subject that the batch has written to), the batch
is refused.  Order and texts are nats-server's, which differ in places from those for single messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base.decimals import BEYOND, read_integer, read_whole
from millstream.jetstream import reading, ttl
from millstream.jetstream.counter import Sum, increment_of
from millstream.jetstream.incoming import Incoming
from millstream.jetstream.schedule import take_schedule
from millstream.jsapi import headers as names
from millstream.jsapi.enums import DiscardPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import API_LEVEL, MAX_HEADER_BYTES
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.stream import Stream

_MSG_ID: Final = names.MSG_ID.encode()
_EXPECTED_STREAM: Final = names.EXPECTED_STREAM.encode()
_EXPECTED_LAST_SEQUENCE: Final = names.EXPECTED_LAST_SEQUENCE.encode()
_EXPECTED_LAST_SUBJECT_SEQUENCE: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE.encode()
_EXPECTED_SUBJECT: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT.encode()
_STREAM_SOURCE: Final = names.STREAM_SOURCE.encode()


class BatchChecks:
    """The state of the stream after the messages checked so far."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._ids: set[bytes] = set()
        self._written: dict[bytes, int] = {}  # messages by subject
        self._schedules: dict[bytes, bool] = {}  # True if the last message of a subject is a schedule
        self._sums: dict[bytes, Sum] = {}
        self._messages = 0
        self._bytes = 0

    def count(self, subject: bytes) -> None:
        """Count a message that needs no check."""
        self._written[subject] = self._written.get(subject, 0) + 1
        self._schedules[subject] = False
        self._messages += 1

    def check(self, message: Incoming) -> None:
        """Check the next message and complete it for storing; raise ApiError if the batch fails with it."""
        stream = self._stream
        if len(message.block) > MAX_HEADER_BYTES:
            raise ApiError(Err.HEADER_EXCEEDS_MAXIMUM)
        message.increment = increment_of(stream, message)
        expected = headers.find(message.block, _EXPECTED_STREAM)
        if expected and expected != stream.name.encode():
            raise ApiError(Err.EXPECTED_STREAM_MISMATCH)
        self._check_ttl(message)
        self._check_id(message)
        if headers.find(message.block, _STREAM_SOURCE):
            raise ApiError(Err.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)
        self._count(message)
        self._check_last(message.block)
        self._check_last_of_subject(message)
        take_schedule(stream, message, self._schedules)
        self._check_rollup(message)
        self._schedules[message.subject] = message.due_ns is not None
        self._written[message.subject] = self._written.get(message.subject, 0) + 1
        self._messages += 1
        self._bytes += stream.size_of(message.subject, message.block, message.payload)
        self._check_room(message)

    def _check_ttl(self, message: Incoming) -> None:
        if not self._stream.config.allow_msg_ttl and headers.find(message.block, names.TTL.encode()):
            try:
                seconds = ttl.ttl_of(message.block)
            except ApiError:
                seconds = 1
            if seconds:
                raise ApiError(Err.MESSAGE_TTL_DISABLED)
        ttl.take_ttl(self._stream, message)

    def _check_id(self, message: Incoming) -> None:
        stream = self._stream
        message.message_id = headers.find(message.block, _MSG_ID) or b""
        if not message.message_id:
            return
        known = stream.dedupe.window_ns and stream.dedupe.find(message.message_id, stream.world.now_ns())
        if known or message.message_id in self._ids:
            raise ApiError(Err.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
        self._ids.add(message.message_id)

    def _count(self, message: Incoming) -> None:
        stream = self._stream
        if not stream.config.allow_msg_counter:
            return
        if message.increment is None:
            raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_MISSING)
        message.sum = stream.counters.apply(message, message.increment, self._sums)
        limit = stream.config.max_msg_size
        if limit > 0 and len(message.block) + len(message.payload) > limit:
            raise ApiError(Err.MESSAGE_EXCEEDS_MAXIMUM)

    def _check_last(self, block: bytes) -> None:
        expected = headers.find(block, _EXPECTED_LAST_SEQUENCE)
        if not expected:
            return
        last = self._stream.log.last_seq + self._messages
        if _number(expected) != last:
            raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=last)
        if self._messages:
            raise ApiError(Err.WRONG_LAST_SEQUENCE_UNKNOWN)

    def _check_last_of_subject(self, message: Incoming) -> None:
        expected = headers.find(message.block, _EXPECTED_LAST_SUBJECT_SEQUENCE)
        other = headers.find(message.block, _EXPECTED_SUBJECT)
        if not expected:
            if other:
                raise ApiError(Err.EXPECTED_LAST_SUBJECT_SEQUENCE_MISSING)
            return
        subject = other or message.subject
        if subject in self._written:
            raise ApiError(Err.WRONG_LAST_SEQUENCE_UNKNOWN)
        last = reading.last_of(self._stream.log, subject)
        if _number(expected) != last:
            raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=last)

    def _check_rollup(self, message: Incoming) -> None:
        message.rollup = self._stream.publishing.rollup_of(message.block)
        if message.rollup == b"sub" and message.subject in self._written:
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err="batch rollup sub invalid")
        if message.rollup == b"all" and self._messages:
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err="batch rollup all invalid")

    def _check_room(self, message: Incoming) -> None:
        stream = self._stream
        config, log = stream.config, stream.log
        stream.account.check_room(stream, self._bytes)
        if config.discard is not DiscardPolicy.NEW:
            return
        if 0 < config.max_msgs < log.messages + self._messages:
            raise ApiError(Err.STREAM_STORE_FAILED, err="maximum messages exceeded")
        if 0 < config.max_bytes < stream.bytes() + self._bytes:
            raise ApiError(Err.STREAM_STORE_FAILED, err="maximum bytes exceeded")
        if config.discard_new_per_subject and config.max_msgs_per_subject > 0 and not message.rollup:
            node = log.index.find(message.subject)
            stored = node.count if node is not None else 0
            if stored + self._written[message.subject] > config.max_msgs_per_subject:
                raise ApiError(Err.STREAM_STORE_FAILED, err="maximum messages per subject exceeded")


def requires_more(level: bytes) -> bool:
    """Return True if a message requires a higher API level than ours, or an invalid one."""
    number = read_integer(level)
    return number is None or number > API_LEVEL


def _number(text: bytes) -> int:
    """Parse a sequence in a header; return -1 if it is invalid."""
    number = read_whole(text)
    return -1 if number is None or number >= BEYOND else number
