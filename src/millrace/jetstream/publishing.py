"""Storing a message that has headers or that a stream has rules for.

The checks and their order are the reference's, because a publisher sees the first that fails.  Every
refusal is answered at once, every success after the commit that makes it durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millrace.jsapi import headers as names
from millrace.jsapi.codec import encode
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.go_time import format_time
from millrace.jsapi.limits import MAX_HEADER_BYTES
from millrace.jsapi.publish_types import PUB_ACK_DUPLICATE_END, PUB_ACK_END, PubAckResponse
from millrace.protocol import headers
from millrace.subjects.tokens import is_literal

if TYPE_CHECKING:
    from millrace.jetstream.stream import Stream

_MSG_ID: Final = names.MSG_ID.encode()
_EXPECTED_STREAM: Final = names.EXPECTED_STREAM.encode()
_EXPECTED_LAST_SEQUENCE: Final = names.EXPECTED_LAST_SEQUENCE.encode()
_EXPECTED_LAST_SUBJECT_SEQUENCE: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE.encode()
_EXPECTED_SUBJECT: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT.encode()
_EXPECTED_LAST_MSG_ID: Final = names.EXPECTED_LAST_MSG_ID.encode()
_ROLLUP: Final = names.ROLLUP.encode()
_STREAM_SOURCE: Final = names.STREAM_SOURCE.encode()
_REQUEST_INFO: Final = names.REQUEST_INFO.encode() + b":"

MARK_MSG_ID: Final = 1  # the segment has messages with ids: a restart reads them


class Publishing:
    """The way into one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def publish(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> None:
        """Store a message and answer; refusals are answers too."""
        try:
            self._publish(subject, reply, block, payload)
        except ApiError as error:
            self._refuse(reply, error)

    def _refuse(self, reply: bytes, error: ApiError) -> None:
        stream = self._stream
        if reply and not stream.config.no_ack:
            stream.world.publish(reply, encode(PubAckResponse(error=error.body, stream=stream.name)))

    def _publish(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> None:
        stream = self._stream
        if stream.transform is not None:
            subject = stream.transform.apply(subject) or subject
        if stream.config.sealed:
            raise ApiError(Err.STREAM_SEALED)
        if stream.failure is not None:
            raise ApiError(Err.STREAM_STORE_FAILED, err=str(stream.failure))
        block = headers.without_status(block) if block else block
        message_id = b""
        rollup = b""
        if block:
            self._check_expectations(subject, block)
            if headers.find(block, _STREAM_SOURCE) is not None:
                raise ApiError(Err.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)
            message_id = headers.find(block, _MSG_ID) or b""
            if message_id and stream.dedupe.window_ns:
                known = stream.dedupe.find(message_id, stream.world.now_ns())
                if known:
                    stream.acknowledge(reply, known, PUB_ACK_DUPLICATE_END)
                    return
            self._check_last_id(block)
            rollup = self._rollup(block)
            block = headers.remove(block, _REQUEST_INFO) if _REQUEST_INFO in block else block
        self._check_sizes(subject, block, payload, rollup=bool(rollup))
        self._store(subject, reply, block, payload, message_id, rollup)

    def _check_expectations(self, subject: bytes, block: bytes) -> None:
        stream = self._stream
        expected = headers.find(block, _EXPECTED_STREAM)
        if expected is not None and expected != stream.name.encode():
            raise ApiError(Err.EXPECTED_STREAM_MISMATCH)
        expected = headers.find(block, _EXPECTED_LAST_SUBJECT_SEQUENCE)
        other = headers.find(block, _EXPECTED_SUBJECT)
        if expected is not None:
            last = self._last_of(other if other is not None else subject)
            if not expected.isdigit() or int(expected) != last:
                raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=last)
        elif other is not None:
            raise ApiError(Err.EXPECTED_LAST_SUBJECT_SEQUENCE_MISSING)
        expected = headers.find(block, _EXPECTED_LAST_SEQUENCE)
        if expected is not None and (not expected.isdigit() or int(expected) != stream.log.last_seq):
            raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=stream.log.last_seq)

    def _last_of(self, subject: bytes) -> int:
        log = self._stream.log
        if is_literal(subject):
            return log.last_of(subject)
        return max((log.last_of(found) for found, _ in log.index.match(subject)), default=0)

    def _check_last_id(self, block: bytes) -> None:
        expected = headers.find(block, _EXPECTED_LAST_MSG_ID)
        if expected is not None and expected != self._stream.dedupe.last_id:
            raise ApiError(Err.WRONG_LAST_MSG_ID, id=self._stream.dedupe.last_id.decode())

    def _rollup(self, block: bytes) -> bytes:
        value = headers.find(block, _ROLLUP)
        if value is None:
            return b""
        if not self._stream.config.allow_rollup_hdrs or self._stream.config.deny_purge:
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err="rollup not permitted")
        value = value.lower()
        if value not in (b"sub", b"all"):
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err=f'rollup value invalid: "{value.decode()}"')
        return value

    def _check_sizes(self, subject: bytes, block: bytes, payload: bytes, *, rollup: bool) -> None:
        stream = self._stream
        limit = stream.config.max_msg_size
        if limit > 0 and len(block) + len(payload) > limit:
            raise ApiError(Err.MESSAGE_EXCEEDS_MAXIMUM)
        if len(block) > MAX_HEADER_BYTES:
            raise ApiError(Err.HEADER_EXCEEDS_MAXIMUM)
        size = 30 + len(subject) + (4 + len(block) if block else 0) + len(payload)
        refusal = stream.retention.refusal(subject, size, rollup=rollup)
        if refusal is not None:
            raise ApiError(Err.STREAM_STORE_FAILED, err=refusal)

    def _store(
        self, subject: bytes, reply: bytes, block: bytes, payload: bytes, message_id: bytes, rollup: bytes
    ) -> None:
        stream = self._stream
        now = stream.ingest.timestamp()
        before = stream.log.last_of(subject) if stream.republish is not None else 0
        source = block + payload
        seq = stream.log.append(
            subject, source, 0, len(block), len(source), now, MARK_MSG_ID if message_id else 0
        )
        if message_id:
            stream.dedupe.add(message_id, seq, now)
        if rollup == b"sub":
            stream.log.remove_matching(subject, seq)
        elif rollup == b"all":
            stream.log.remove_below(seq)
        stream.retention.stored(subject)
        stream.acknowledge(reply, seq, PUB_ACK_END)
        if stream.republish is not None:
            self._republish(subject, block, payload, seq, now, before)

    def _republish(
        self, subject: bytes, block: bytes, payload: bytes, seq: int, now: int, before: int
    ) -> None:
        stream = self._stream
        assert stream.republish is not None
        target = stream.republish.apply(subject)
        if target is None:
            return
        extra = (
            (names.STREAM.encode(), stream.name.encode()),
            (names.SUBJECT.encode(), subject),
            (names.SEQUENCE.encode(), b"%d" % seq),
            (names.TIME_STAMP.encode(), format_time(now).encode()),
            (names.LAST_SEQUENCE.encode(), b"%d" % before),
        )
        for key, value in extra:
            block = headers.put(block, key, value)
        republish = stream.config.republish
        if republish is not None and republish.headers_only:
            block = headers.put(block, names.MSG_SIZE.encode(), b"%d" % len(payload))
            payload = b""
        stream.after_commit(lambda: stream.world.publish(target, payload, headers=block))
