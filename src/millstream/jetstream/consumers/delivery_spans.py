"""Spans `deliver STREAM/CONSUMER` of messages that belong to a sampled trace (``protocol.trace_context``).

Each lasts from a delivery until it is settled (ack, next, nak, term), or until the message is delivered
again, and is a child of the span that the message names.  The compiled path finds such messages and calls
this; others cost it one look at their headers, and nothing while no spans are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.otel.spans import Attribute, FinishedSpan, SpanKind, SpanQueue, new_span_id
from millstream.protocol.trace_context import CONTEXT_SIZE, TraceContext, find_sampled

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.protocol.parser import Frame

_UNSETTLED: Final = "unsettled"  # the consumer ended, or too many deliveries are open


class OpenDelivery(NamedTuple):
    """A delivery that is not settled."""

    context: TraceContext
    subject: bytes
    deliveries: int
    began_ns: int


class ConsumerSpans:
    """Records the deliveries of one consumer.

    A message has at most one open delivery; when too many are open, the oldest of the consumer is ended.
    """

    def __init__(self, consumer: Consumer, queue: SpanQueue) -> None:
        self.open: dict[int, OpenDelivery] = {}  # by sequence in the stream, oldest first
        self._consumer = consumer
        self._queue = queue

    def delivered(self, subject: bytes, frame: Frame, sseq: int, deliveries: int) -> None:
        """Begin the span of a message that was sent; the frame is the one that was."""
        at = find_sampled(frame.buf, frame.body_start, frame.header_size)
        context = self._queue.context(frame.buf[at : at + CONTEXT_SIZE]) if at >= 0 else None
        if context is None:
            return
        self.settled(sseq, "delivered again")
        now = self._consumer.world.now_ns()
        begun = OpenDelivery(context, subject, deliveries, now)
        if self._consumer.delivery.settles:
            self._record(sseq, begun, "no ack needed", now)
            return
        if not self._queue.may_open():
            if not self.open:
                self._record(sseq, begun, _UNSETTLED, now)
                return
            self.settled(next(iter(self.open)), _UNSETTLED)
        self.open[sseq] = begun
        self._queue.open += 1

    def settled(self, sseq: int, outcome: str) -> None:
        """End the span of a message, if it has one."""
        begun = self.open.pop(sseq, None)
        if begun is not None:
            self._queue.open -= 1
            self._record(sseq, begun, outcome, self._consumer.world.now_ns())

    def settled_up_to(self, sseq: int, outcome: str) -> None:
        for each in [each for each in self.open if each <= sseq]:
            self.settled(each, outcome)

    def stop(self) -> None:
        """End all spans: the consumer sends nothing any more."""
        for each in list(self.open):
            self.settled(each, _UNSETTLED)

    def _record(self, sseq: int, begun: OpenDelivery, outcome: str, now_ns: int) -> None:
        consumer = self._consumer
        stream = consumer.stream
        attributes: dict[str, Attribute] = {
            "messaging.operation.name": "deliver",
            "messaging.destination.name": begun.subject.decode(errors="replace"),
            "messaging.consumer.group.name": consumer.name,
            "millstream.account": stream.account.name,
            "millstream.stream": stream.name,
            "millstream.sequence": sseq,
            "millstream.deliveries": begun.deliveries,
            "millstream.outcome": outcome,
        }
        self._queue.record(
            FinishedSpan(
                f"deliver {stream.name}/{consumer.name}",
                SpanKind.CONSUMER,
                begun.context,
                new_span_id(),
                begun.began_ns,
                max(now_ns, begun.began_ns),
                attributes,
            )
        )
