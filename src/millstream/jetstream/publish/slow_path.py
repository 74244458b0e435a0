"""The slow path: store a message that has headers, or for a stream with rules.

``rules`` and ``limits`` decide.  Every refusal is sent at once, every ack after the commit that makes the
message durable.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.golang.time import format_time
from millstream.jetstream.publish import limits, rules, ttl
from millstream.jetstream.publish.atomic_batch import BATCH_ID
from millstream.jetstream.publish.candidate import MARK_MSG_ID, MARK_SCHEDULE, Incoming
from millstream.jetstream.publish.fast_batch import SUFFIX
from millstream.jsapi import headers as names
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import INTERNAL_ERROR, ApiError, Err
from millstream.jsapi.publish_types import PUB_ACK_DUPLICATE_END, PubAckResponse
from millstream.protocol import headers
from millstream.store.errors import StoreError, client_text

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_TOO_MANY: Final = headers.make_status(b"429 Too Many Requests")
_REQUEST_INFO: Final = names.REQUEST_INFO.encode() + b":"
# Of messages that are republished:
_STREAM: Final = names.STREAM.encode()
_SUBJECT: Final = names.SUBJECT.encode()
_SEQUENCE: Final = names.SEQUENCE.encode()
_TIME_STAMP: Final = names.TIME_STAMP.encode()
_LAST_SEQUENCE: Final = names.LAST_SEQUENCE.encode()
_MSG_SIZE: Final = names.MSG_SIZE.encode()


class Publishing:
    """The slow path into one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._refused_with: tuple[tuple[int, str], bytes] | None = None  # the last error, and its response

    def publish(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> None:
        """Store a message and send the ack or the refusal."""
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
        """Send a publisher the refusal of its message."""
        stream = self._stream
        if reply and not stream.config.no_ack:
            stream.world.publish(reply, self._refusal(error), headers=status or None)

    def _refusal(self, error: ApiError) -> bytes:
        """Return the response for an error; a full stream sends the same one again and again."""
        if self._refused_with is None or self._refused_with[0] != (error.code, error.description):
            text = encode(PubAckResponse(error=error.body, stream=self._stream.name))
            self._refused_with = (error.code, error.description), text
        return self._refused_with[1]

    def refuse_failed(self, reply: bytes) -> None:
        """Send a publisher the refusal of a message that raised an unexpected exception."""
        self.refuse(reply, ApiError(Err.STREAM_GENERAL, err=INTERNAL_ERROR))

    def attempt(self, message: Incoming, *, store: bool = True) -> bool:
        """Check a message, and store it; raise ApiError if it is refused, return False for a duplicate.

        Without `store` the message is only traced: it leaves nothing behind, and limits of the account and
        the stream are not checked.
        """
        stream = self._stream
        rules.book.check_entry(stream, message)
        if store and message.reply.endswith(SUFFIX):
            stream.fast_batches.take(message)
            return True
        batch_id = headers.find(message.block, BATCH_ID) if store and BATCH_ID in message.block else None
        if batch_id:
            stream.batches.take(message, batch_id)
            return True
        limits.book.check_size(stream, message)
        if message.block:
            block = headers.without_status(message.block)
            message.block = headers.remove(block, _REQUEST_INFO) if _REQUEST_INFO in block else block
        try:
            rules.book.check_headers(stream, message)
        except rules.Duplicate as duplicate:
            stream.acknowledge(message.reply, duplicate.seq, PUB_ACK_DUPLICATE_END)
            return False
        if not store:
            stream.account.usage.check_server_room(stream)
            return True
        self.check_limits(message)
        self.store(message)
        return True

    def insert(self, subject: bytes, block: bytes, payload: bytes, *, checked: bool = False) -> Incoming:
        """Store a message of the server itself; return it as it is stored.

        Raises ApiError if the stream refuses it, and StoreError.  `checked`: it was accepted before.
        """
        message = Incoming(subject, b"", block, payload)
        if checked:
            self.store(message)
        elif self._stream.backlogged:
            raise ApiError(Err.TOO_MANY_REQUESTS)
        else:
            self.attempt(message)
        return message

    def check_batched(self, message: Incoming, ahead: rules.Ahead) -> None:
        """Check the next message of a batch and complete it for storing; raise ApiError if it is refused.

        Messages of an atomic batch are all checked before the first is stored, as if the earlier ones were
        stored. Where that cannot be known, as with an expected sequence of a subject that the batch has
        written to, the batch is refused.
        """
        stream = self._stream
        limits.book.check_size(stream, message)
        rules.book.check_headers(stream, message, ahead)
        size = stream.size_of(message.subject, message.block, message.payload)
        ahead.add(message.subject, size, is_schedule=message.due_ns is not None)
        limits.book.check_room(stream, message, ahead.bytes)
        limits.book.check_count(stream, message, ahead.bytes, ahead)

    def check_limits(self, message: Incoming) -> None:
        """Raise ApiError if there is no room for a message, unless no consumer is interested in it."""
        stream = self._stream
        if not stream.has_interest(message.subject):
            limits.book.check_room(stream, message, 0)
            return
        size = stream.size_of(message.subject, message.block, message.payload)
        limits.book.check_room(stream, message, size)
        ttl.take_ttl(stream, message)
        limits.book.check_count(stream, message, size)

    def _pass_over(self, message: Incoming, timestamp: int | None) -> int:
        """Use up a sequence for a message without interest: send the ack, and remove what it replaces."""
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
        """Remove what the message replaces, and send the ack."""
        stream = self._stream
        stream.rollups.stored(message, seq)
        if message.marks & MARK_SCHEDULE:
            try:
                stream.schedules.stored(message, seq)
            except StoreError as error:
                _log.error("stream %s: a limit could not be enforced: %s", stream.name, error)

    def last_before(self, message: Incoming) -> int:
        """Return the last message of the subject, if republishing needs it; raise StoreError."""
        return self._stream.log.last_of(message.subject) if self._stream.republish is not None else 0

    def store(self, message: Incoming, timestamp: int | None = None) -> int:
        """Store a message that passed all checks, or that is the stream's own; return its sequence.

        A mirror's messages have a `timestamp`.  StoreError means that it is not stored; once it is, messages
        that it replaces may remain for a while, if the disk cannot be read.
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
            (_STREAM, stream.name.encode()),
            (_SUBJECT, message.subject),
            (_SEQUENCE, b"%d" % seq),
            (_TIME_STAMP, format_time(now).encode()),
            (_LAST_SEQUENCE, b"%d" % before),
        )
        republish = stream.config.republish
        if republish is not None and republish.headers_only:
            extra = (*extra, (_MSG_SIZE, b"%d" % len(payload)))
            payload = b""
        block = headers.claim(block, *extra)
        stream.on_durable(lambda: stream.world.publish(target, payload, headers=block))
