"""Fast ingest: a publisher sends messages without waiting and gets an ack from time to time.

All parameters are in the reply subject, which also receives the responses:

    <prefix>.<batch>.<flow>.<gap>.<sequence>.<operation>.$FI

flow is the most messages between two responses, gap (`ok`, `fail`) whether messages may be missing, operation
0 to 4: start, append, commit with this message, commit without, ping.  Responses are

    {"type":"ack","seq":n,"msgs":m}            stored up to n; the next ack follows after m more messages
    {"type":"gap","last_seq":n,"seq":m}        n was expected and m came
    {"type":"err","seq":n,"error":{…}}         message n is not stored
    {"stream":"S","seq":9,"batch":"b","count":n}    the end

Each message is stored on its own as it arrives, and durable when it is acknowledged.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from millstream.jetstream.api_requests import beyond_ours
from millstream.jetstream.publish import limits, rules
from millstream.jetstream.publish.batch_timeout import BatchTimeout
from millstream.jetstream.publish.candidate import Incoming
from millstream.jsapi import headers as names
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import MAX_BATCH_ID_BYTES
from millstream.jsapi.publish_types import (
    BatchFlowAck,
    BatchFlowErr,
    BatchFlowGap,
    pub_ack_batch_end,
    pub_ack_start,
)
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

SUFFIX: Final = b".$FI"

_REQUIRED_LEVEL: Final = names.REQUIRED_API_LEVEL.encode()
_REQUEST_INFO: Final = names.REQUEST_INFO.encode() + b":"
_MOST_OF_STREAM: Final = 1000  # batches in flight
_MOST_OF_SERVER: Final = 50_000
_MOST_BETWEEN: Final = 500  # messages between two responses, shared by the batches of a stream
_DEFAULT_FLOW: Final = 10
_LARGEST_FLOW: Final = 65535


class BatchOperation(IntEnum):
    START = 0
    APPEND = 1
    COMMIT = 2
    END = 3  # commits without a message
    PING = 4


class Step(NamedTuple):
    """The content of a reply subject."""

    batch_id: bytes
    flow: int
    gap_ok: bool
    number: int
    operation: BatchOperation


def parse(reply: bytes) -> Step | None:
    """Parse a reply subject with the suffix; return None if it is invalid."""
    parts = reply[: -len(SUFFIX)].rsplit(b".", 5)
    if len(parts) < 6:
        return None
    _, batch_id, flow, gap, number, operation = parts
    if gap not in (b"ok", b"fail") or operation not in (b"0", b"1", b"2", b"3", b"4"):
        return None
    count = int(number) if number.isdigit() and len(number) <= 20 else 0
    step = Step(
        batch_id,
        min(int(flow[:18]), _LARGEST_FLOW) if flow.isdigit() and int(flow[:18]) else _DEFAULT_FLOW,
        gap == b"ok",
        count,
        BatchOperation(int(operation)),
    )
    allowed = {
        BatchOperation.START: count == 1,
        BatchOperation.APPEND: count > 1,
        BatchOperation.END: count > 1,
    }
    return step if 0 < count < 2**64 - 1 and allowed.get(step.operation, True) else None


class _Batch(msgspec.Struct):
    most_between: int  # messages between responses that the publisher allows
    gap_ok: bool
    between: int = 1
    last: int = 0  # the last message received
    told: int = 0  # the last message acknowledged
    stored_seq: int = 0
    patience: BatchTimeout = msgspec.field(default_factory=BatchTimeout)


class FastBatches:
    """The fast batches of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._open: dict[bytes, _Batch] = {}

    def stop(self) -> None:
        """Close all open batches."""
        for batch_id in list(self._open):
            self._close(batch_id)

    def take(self, message: Incoming) -> None:
        """Handle a message whose reply subject has the suffix; raise ApiError if it is refused as a whole."""
        stream = self._stream
        size = stream.size_of(message.subject, message.block, message.payload)
        limits.book.check_room(stream, message, size)
        if 0 < stream.config.max_msg_size < len(message.block) + len(message.payload):
            raise ApiError(Err.MESSAGE_EXCEEDS_MAXIMUM)
        if not stream.config.allow_batched:
            raise ApiError(Err.BATCH_PUBLISH_DISABLED)
        step = parse(message.reply)
        if step is None:
            raise ApiError(Err.BATCH_PUBLISH_INVALID_PATTERN)
        if len(step.batch_id) > MAX_BATCH_ID_BYTES:
            raise ApiError(Err.BATCH_PUBLISH_INVALID_BATCH_ID)
        batch = self._open.get(step.batch_id)
        if batch is None:
            if step.number != 1:
                raise ApiError(Err.BATCH_PUBLISH_UNKNOWN_BATCH_ID)
            batch = self._start(step)
        self._take_level(message, step)
        batch.patience.begin(self._stream, lambda: self._close(step.batch_id))
        if step.operation is BatchOperation.PING:
            self._ping(batch, step, message.reply)
        elif self._is_next(batch, step, message.reply):
            self._append(batch, step, message)

    # -- life -------------------------------------------------------------------------------------

    def _start(self, step: Step) -> _Batch:
        resources = self._stream.account.resources
        limits = resources.limits
        if len(self._open) >= (limits.batch_max_inflight_per_stream or _MOST_OF_STREAM) or (
            resources.fast_batches >= (limits.batch_max_inflight_total or _MOST_OF_SERVER)
        ):
            raise ApiError(Err.BATCH_PUBLISH_TOO_MANY_INFLIGHT)
        resources.fast_batches += 1
        batch = self._open[step.batch_id] = _Batch(step.flow, step.gap_ok)
        if len(self._open) == 1:  # with others, it starts slowly
            batch.between = min(_MOST_BETWEEN, step.flow)
        return batch

    def _close(self, batch_id: bytes) -> None:
        batch = self._open.pop(batch_id)
        self._stream.account.resources.fast_batches -= 1
        batch.patience.end()

    def _take_level(self, message: Incoming, step: Step) -> None:
        if beyond_ours(message.block):
            self._close(step.batch_id)
            raise ApiError(Err.REQUIRED_API_LEVEL)
        if _REQUIRED_LEVEL in message.block:
            message.block = headers.remove(message.block, _REQUIRED_LEVEL + b":")

    # -- steps ------------------------------------------------------------------------------------

    def _ping(self, batch: _Batch, step: Step, reply: bytes) -> None:
        if step.number > batch.last:
            self._say_gap(reply, batch.last + 1, step.number + 1)
            if not batch.gap_ok:
                self._commit(batch, step, reply)
                return
            batch.last = step.number
            if self._tell_progress(batch, reply):
                return
        self._say_progress(batch, reply)

    def _is_next(self, batch: _Batch, step: Step, reply: bytes) -> bool:
        """Return True if the message may be stored; a gap that is not allowed ends the batch."""
        expected = batch.last + 1
        if step.number != expected:
            self._say_gap(reply, expected, step.number)
            if not batch.gap_ok or step.number < expected:
                self._commit(batch, step, reply)
                return False
        batch.last = step.number
        return True

    def _append(self, batch: _Batch, step: Step, message: Incoming) -> None:
        stream, reply = self._stream, message.reply
        if step.operation is BatchOperation.END:
            batch.last -= 1
            self._commit(batch, step, reply)
            return
        if step.number == 1 and step.operation is not BatchOperation.COMMIT and not stream.config.no_ack:
            stream.world.publish(reply, encode(BatchFlowAck(seq=0, msgs=batch.between)))
        message.reply = b""
        if message.block:
            message.block = headers.remove(headers.without_status(message.block), _REQUEST_INFO)
        try:
            stream.publishing.check_batched(message, rules.Ahead(atomic=False))
        except ApiError as error:
            self._refused(batch, step, message, reply, error)
            return
        try:
            rules.expect_last_id(stream, message, None)
        except ApiError:
            if step.operation is BatchOperation.COMMIT:
                self._close(step.batch_id)
            raise
        batch.stored_seq = stream.publishing.store(message)
        if step.operation is BatchOperation.COMMIT:
            self._commit(batch, step, reply)
        else:
            self._tell_progress(batch, reply)

    def _refused(self, batch: _Batch, step: Step, message: Incoming, reply: bytes, error: ApiError) -> None:
        is_duplicate = error.err is Err.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE
        commits = step.operation is BatchOperation.COMMIT
        if is_duplicate:
            self._tell_progress(batch, reply)
            if not commits:
                return
        if not step.gap_ok and batch.last == 1:  # the first message: answered like a single one
            self._close(step.batch_id)
            if not is_duplicate:
                raise error
            known = self._stream.dedupe.find(message.message_id, self._stream.world.now_ns())
            self._say_end(step.batch_id, reply, known, 1, b',"duplicate": true')
            return
        if not is_duplicate:
            body = encode(BatchFlowErr(seq=step.number, error=error.body))
            self._stream.world.publish(reply, body)
            if step.gap_ok and not commits:
                return
            batch.last -= 1
        self._commit(batch, step, reply)

    def _commit(self, batch: _Batch, step: Step, reply: bytes) -> None:
        """End the batch with what is stored."""
        self._close(step.batch_id)
        self._say_end(step.batch_id, reply, batch.stored_seq, batch.last)

    # -- answers ----------------------------------------------------------------------------------

    def _tell_progress(self, batch: _Batch, reply: bytes) -> bool:
        """Acknowledge if it is due, and choose when the next ack is; return True if it was due."""
        if batch.last < batch.told + batch.between:
            return False
        batch.told += (batch.last - batch.told) // batch.between * batch.between
        pace = min(max(_MOST_BETWEEN // len(self._open), 1), batch.most_between)
        if batch.between < pace:
            batch.between = min(batch.between * 2, pace)
        elif batch.between > pace:
            batch.between = max(batch.between // 2, pace)
        self._say_progress(batch, reply)
        return True

    def _say_progress(self, batch: _Batch, reply: bytes) -> None:
        body = encode(BatchFlowAck(seq=batch.told, msgs=batch.between))
        self._stream.on_durable(lambda: self._stream.world.publish(reply, body))

    def _say_gap(self, reply: bytes, expected: int, got: int) -> None:
        self._stream.world.publish(reply, encode(BatchFlowGap(last_seq=expected, seq=got)))

    def _say_end(self, batch_id: bytes, reply: bytes, seq: int, count: int, more: bytes = b"") -> None:
        stream = self._stream
        start = pub_ack_start(stream.name, stream.account.domain)
        end = pub_ack_batch_end(batch_id.decode(errors="replace"), count)
        body = b"%b%d%b%b" % (start, seq, more, end)
        stream.rollups.then(lambda: stream.on_durable(lambda: stream.world.publish(reply, body)))
