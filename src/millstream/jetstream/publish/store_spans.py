"""Spans `store STREAM` of messages that belong to a sampled trace (``protocol.trace_context``).

Each lasts from the arrival of a message until it is durable, and is a child of the span that the message
names.  The compiled path finds such messages and calls this; others cost it one look at their headers, and
nothing while no spans are recorded.  Deliveries have spans of their own (``consumers.delivery_spans``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.otel.spans import Attribute, FinishedSpan, SpanKind, SpanQueue, new_span_id
from millstream.protocol.trace_context import CONTEXT_SIZE, TraceContext, find_sampled

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream
    from millstream.protocol.parser import Frame
    from millstream.store.errors import StoreError

_NOT_STORED: Final = "not stored"  # refused, a duplicate, or a part of a batch


class TracedArrival(NamedTuple):
    """A message that is being taken in."""

    context: TraceContext
    subject: bytes
    size: int
    began_ns: int
    last_seq: int  # of the stream, before it


class StreamSpans:
    """Records the messages that come into one stream."""

    def __init__(self, stream: Stream, queue: SpanQueue) -> None:
        self._stream = stream
        self._queue = queue

    def begin(self, subject: bytes, frame: Frame) -> TracedArrival | None:
        """Note a message before the stream takes it; None if it is in no trace that is recorded."""
        if frame.header_size <= 0:
            return None
        at = find_sampled(frame.buf, frame.body_start, frame.header_size)
        context = self._queue.context(frame.buf[at : at + CONTEXT_SIZE]) if at >= 0 else None
        if context is None:
            return None
        return TracedArrival(
            context,
            subject,
            frame.body_size - frame.header_size,
            self._stream.world.now_ns(),
            self._stream.log.last_seq,
        )

    def end(self, arrival: TracedArrival) -> None:
        """Record the message when it is durable, or at once if the stream did not store it."""
        seq = self._stream.log.last_seq
        if seq > arrival.last_seq:
            self._stream.on_outcome(partial(self._stored, arrival, seq))
        else:
            self._record(arrival, 0, _NOT_STORED)

    def _stored(self, arrival: TracedArrival, seq: int, error: StoreError | None) -> None:
        self._record(arrival, seq, "" if error is None else str(error))

    def _record(self, arrival: TracedArrival, seq: int, error: str) -> None:
        stream = self._stream
        attributes: dict[str, Attribute] = {
            "messaging.operation.name": "store",
            "messaging.destination.name": arrival.subject.decode(errors="replace"),
            "messaging.message.body.size": arrival.size,
            "millstream.account": stream.account.name,
            "millstream.stream": stream.name,
        }
        if seq:
            attributes["millstream.sequence"] = seq
        if error == _NOT_STORED:
            attributes["millstream.outcome"], error = error, ""
        name = f"store {stream.name}"
        end_ns = max(stream.world.now_ns(), arrival.began_ns)
        self._queue.record(
            FinishedSpan(
                name,
                SpanKind.INTERNAL,
                arrival.context,
                new_span_id(),
                arrival.began_ns,
                end_ns,
                attributes,
                error,
            )
        )
