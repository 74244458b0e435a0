"""Storing a message that has headers or that a stream has rules for.

The checks and their order are the reference's, because a publisher sees the first that fails.  Every
refusal is answered at once, every success after the commit that makes it durable.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.base.decimals import BEYOND, read_whole
from millstream.jetstream import reading, ttl
from millstream.jetstream.batch import BATCH_ID
from millstream.jetstream.counter import increment_of
from millstream.jetstream.fast_batch import SUFFIX
from millstream.jetstream.incoming import MARK_MSG_ID, MARK_SCHEDULE, Incoming
from millstream.jetstream.schedule import take_schedule
from millstream.jsapi import headers as names
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import INTERNAL_ERROR, ApiError, Err
from millstream.jsapi.go_time import format_time
from millstream.jsapi.json_text import quoted
from millstream.jsapi.limits import MAX_HEADER_BYTES
from millstream.jsapi.publish_types import PUB_ACK_DUPLICATE_END, PubAckResponse
from millstream.protocol import headers
from millstream.store.errors import StoreError, client_text

if TYPE_CHECKING:
    from millstream.jetstream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_OURS: Final = b"\r\nNats-"  # what all headers that mean something begin with
_MSG_ID: Final = names.MSG_ID.encode()
_EXPECTED_STREAM: Final = names.EXPECTED_STREAM.encode()
_EXPECTED_LAST_SEQUENCE: Final = names.EXPECTED_LAST_SEQUENCE.encode()
_EXPECTED_LAST_SUBJECT_SEQUENCE: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE.encode()
_EXPECTED_SUBJECT: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT.encode()
_EXPECTED_LAST_MSG_ID: Final = names.EXPECTED_LAST_MSG_ID.encode()
_ROLLUP: Final = names.ROLLUP.encode()
_STREAM_SOURCE: Final = names.STREAM_SOURCE.encode()
_TOO_MANY: Final = b"NATS/1.0 429 Too Many Requests\r\n\r\n"
_REQUEST_INFO: Final = names.REQUEST_INFO.encode() + b":"


class Publishing:
    """The way into one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def publish(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> None:
        """Store a message and answer; refusals are answers too."""
        if self._stream.backlogged:
            self.refuse(reply, ApiError(Err.TOO_MANY_REQUESTS), _TOO_MANY)
            return
        try:
            self.attempt(Incoming(subject, reply, block, payload))
        except ApiError as error:
            self.refuse(reply, error)
        except StoreError as error:  # the disk cannot be read; nothing was stored
            self.refuse(reply, ApiError(Err.STREAM_STORE_FAILED, err=client_text(error)))

    def refuse(self, reply: bytes, error: ApiError, status: bytes = b"") -> None:
        """Answer a publisher whose message is not stored."""
        stream = self._stream
        if reply and not stream.config.no_ack:
            answer = PubAckResponse(error=error.body, stream=stream.name)
            stream.world.publish(reply, encode(answer), headers=status or None)

    def refuse_failed(self, reply: bytes) -> None:
        """Answer a publisher whose message raised an exception that nobody expected."""
        self.refuse(reply, ApiError(Err.STREAM_GENERAL, err=INTERNAL_ERROR))

    def attempt(self, message: Incoming, *, store: bool = True) -> bool:
        """Check a message, and store it; ApiError if it is refused, False if it is a duplicate.

        Without `store` it is one that is only traced: it leaves nothing behind, and limits of the account and
        the stream are not looked at.
        """
        stream = self._stream
        if stream.transform is not None:
            message.subject = stream.transform.apply(message.subject) or message.subject
        if stream.config.sealed:
            raise ApiError(Err.STREAM_SEALED)
        if stream.failure is not None:
            raise ApiError(Err.STREAM_STORE_FAILED, err=str(stream.failure))
        if store and message.reply.endswith(SUFFIX):
            stream.fast_batches.take(message)
            return True
        batch_id = headers.find(message.block, BATCH_ID) if store and BATCH_ID in message.block else None
        if batch_id:
            stream.batches.take(message, batch_id)
            return True
        self._check_sizes(message)
        if message.block and not self._check_headers(message):
            return False
        if stream.config.allow_msg_counter:
            if message.increment is None:
                raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_MISSING)
            message.sum = stream.counters.apply(message, message.increment)
            self._check_sizes(message)
        if not store:
            stream.account.check_server_room(stream)
            return True
        if stream.has_interest(message.subject):
            size = stream.size_of(message.subject, message.block, message.payload)
            stream.account.check_room(stream, size)
            ttl.take_ttl(stream, message)
            self._check_limits(message)
        else:
            stream.account.check_room(stream, 0)
        self.store(message)
        return True

    def _check_headers(self, message: Incoming) -> bool:
        """Everything that headers ask for; False if the message is a duplicate, which is answered."""
        stream = self._stream
        block = headers.without_status(message.block)
        message.block = headers.remove(block, _REQUEST_INFO) if _REQUEST_INFO in block else block
        ours = message.block.count(_OURS)
        message.message_id = (headers.find(message.block, _MSG_ID) or b"") if ours else b""
        is_ordinary = ours == (1 if message.message_id else 0)
        if not is_ordinary:
            message.increment = increment_of(stream, message)
            self._check_expectations(message)
            take_schedule(stream, message)
            if headers.find(message.block, _STREAM_SOURCE):
                raise ApiError(Err.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)
        if message.message_id and stream.dedupe.window_ns:
            known = stream.dedupe.find(message.message_id, stream.world.now_ns())
            if known:
                stream.acknowledge(message.reply, known, PUB_ACK_DUPLICATE_END)
                return False
        if not is_ordinary:
            self.check_last_id(message.block)
            message.rollup = self.rollup_of(message.block)
        return True

    def _check_expectations(self, message: Incoming) -> None:
        stream, block = self._stream, message.block
        expected = headers.find(block, _EXPECTED_STREAM)
        if expected and expected != stream.name.encode():
            raise ApiError(Err.EXPECTED_STREAM_MISMATCH)
        ttl.refuse_if_disabled(stream, block)
        expected = headers.find(block, _EXPECTED_LAST_SUBJECT_SEQUENCE)
        other = headers.find(block, _EXPECTED_SUBJECT)
        if expected:
            last = reading.last_of(stream.log, other or message.subject)
            if _number(expected) != last:
                raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=last, of_subject=_text(expected))
        elif other:
            raise ApiError(Err.EXPECTED_LAST_SUBJECT_SEQUENCE_MISSING)
        expected = headers.find(block, _EXPECTED_LAST_SEQUENCE)
        if expected and _number(expected) != stream.log.last_seq:
            raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=stream.log.last_seq, of_stream=_text(expected))

    def check_last_id(self, block: bytes) -> None:
        """ApiError if the last message should have another id."""
        expected = headers.find(block, _EXPECTED_LAST_MSG_ID)
        if not expected:
            return
        last = self._stream.dedupe.id_of(self._stream.log.last_seq)
        if expected != last:
            raise ApiError(Err.WRONG_LAST_MSG_ID, id=_text(last), expected=_text(expected))

    def rollup_of(self, block: bytes) -> bytes:
        """What older messages a message replaces: `sub`, `all` or nothing; ApiError if it may not."""
        value = headers.find(block, _ROLLUP)
        if not value:
            return b""
        if not self._stream.config.allow_rollup_hdrs or self._stream.config.deny_purge:
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err="rollup not permitted")
        value = value.lower()
        if value not in (b"sub", b"all"):
            shown = quoted(value.decode(errors="replace"))
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err=f"rollup value invalid: {shown}")
        return value

    def _check_sizes(self, message: Incoming) -> None:
        limit = self._stream.config.max_msg_size
        if limit > 0 and len(message.block) + len(message.payload) > limit:
            raise ApiError(Err.MESSAGE_EXCEEDS_MAXIMUM)
        if len(message.block) > MAX_HEADER_BYTES:
            raise ApiError(Err.HEADER_EXCEEDS_MAXIMUM)

    def _check_limits(self, message: Incoming) -> None:
        size = self._stream.size_of(message.subject, message.block, message.payload)
        refusal = self._stream.retention.refusal(message.subject, size, rollup=bool(message.rollup))
        if refusal is not None:
            raise ApiError(Err.STREAM_STORE_FAILED, err=refusal)

    def _pass_over(self, message: Incoming, timestamp: int | None) -> int:
        """Nobody is interested: the message gets its sequence and an answer, and takes older ones along."""
        stream = self._stream
        now = stream.ingest.timestamp() if timestamp is None else timestamp
        seq = stream.log.last_seq + 1
        stream.log.skip_to(seq, now)
        if message.message_id:
            stream.dedupe.add(message.message_id, seq, now)
        message.due_ns = None  # a schedule that is not there is never due
        self._replace(message, seq)
        return seq

    def _replace(self, message: Incoming, seq: int) -> None:
        """Remove what the message takes the place of, and answer its publisher."""
        stream = self._stream
        stream.rollups.stored(message, seq)
        if message.marks & MARK_SCHEDULE:
            try:
                stream.schedules.stored(message, seq)
            except StoreError as error:
                _log.error("stream %s keeps more than it should: %s", stream.name, error)

    def last_before(self, message: Incoming) -> int:
        """The last message of the subject, if somebody is to be told; StoreError if it cannot be read."""
        return self._stream.log.last_of(message.subject) if self._stream.republish is not None else 0

    def store(self, message: Incoming, timestamp: int | None = None) -> int:
        """Take in a message that passed every check, or that is the stream's own; its sequence.

        A mirror's messages have a `timestamp` already.  StoreError means that it is not stored; once it is,
        what it displaces may be left there for a while, if the disk cannot be read.
        """
        stream = self._stream
        before = self.last_before(message)
        if not stream.has_interest(message.subject):
            return self._pass_over(message, timestamp)
        now = stream.ingest.timestamp() if timestamp is None else timestamp
        source = message.block + message.payload
        marks = message.marks | MARK_MSG_ID if message.message_id else message.marks
        seq = stream.log.append(message.subject, source, 0, len(message.block), len(source), now, marks)
        if message.message_id:
            stream.dedupe.add(message.message_id, seq, now)
        if message.sum is not None:
            stream.counters.stored(seq, message.sum)
        if message.ttl_s > 0:
            stream.expiry.add(seq, now, message.ttl_s)
        stream.retention.stored(message.subject)  # before the rollup, which may take still more
        self._replace(message, seq)
        if stream.republish is not None:
            self._republish(message, seq, now, before)
        return seq

    def _republish(self, message: Incoming, seq: int, now: int, before: int) -> None:
        stream, block, payload = self._stream, message.block, message.payload
        assert stream.republish is not None
        target = stream.republish.apply(message.subject)
        if target is None:
            return
        extra: tuple[tuple[bytes, bytes], ...] = (
            (names.STREAM.encode(), stream.name.encode()),
            (names.SUBJECT.encode(), message.subject),
            (names.SEQUENCE.encode(), b"%d" % seq),
            (names.TIME_STAMP.encode(), format_time(now).encode()),
            (names.LAST_SEQUENCE.encode(), b"%d" % before),
        )
        republish = stream.config.republish
        if republish is not None and republish.headers_only:
            extra = (*extra, (names.MSG_SIZE.encode(), b"%d" % len(payload)))
            payload = b""
        block = headers.claim(block, *extra)
        stream.after_commit(lambda: stream.world.publish(target, payload, headers=block))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _number(text: bytes) -> int:
    """A sequence in a header; -1 for what is none."""
    number = read_whole(text)
    return -1 if number is None or number >= BEYOND else number
