"""The messages of one subscription: those that wait to be written, and those in flight.

    JetStream ──► held ──► in flight ──► acknowledged
                   ▲           │
                   └───────────┘  redelivered: not acknowledged in time

At most `limit` messages are in flight.  A message leaves its place when its `ack_wait` is over, because
JetStream may redeliver it then.  This module does no I/O; callers pass the time.
"""

from __future__ import annotations

from collections import deque

from millstream.gateway.v1.delivery import HttpDelivery


class Window:
    """The window; with a `limit` of 0 the consumer's own limit applies."""

    def __init__(self, limit: int, ack_wait_s: float) -> None:
        self._limit = limit
        self._ack_wait_s = ack_wait_s
        self._held: dict[int, HttpDelivery] = {}  # by stream sequence, in order of arrival
        self._in_flight: dict[int, HttpDelivery] = {}
        self._deadlines: deque[tuple[float, int, int]] = deque()  # time, both sequences; ordered by time
        self.held_bytes = 0

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def take(self, delivery: HttpDelivery) -> None:
        """Hold a delivery; it replaces an earlier delivery of the message, held or in flight."""
        sequence = delivery.stream_seq
        self._in_flight.pop(sequence, None)
        old = self._held.get(sequence)
        if old is not None:
            self.held_bytes -= old.size
        self._held[sequence] = delivery
        self.held_bytes += delivery.size

    def next(self, now: float) -> HttpDelivery | None:
        """Put the next held message in flight and return it; None if there is none or no room."""
        if not self._held:
            return None
        self.expire(now)
        if self._limit and len(self._in_flight) >= self._limit:
            return None
        sequence = next(iter(self._held))
        delivery = self._held.pop(sequence)
        self.held_bytes -= delivery.size
        self._in_flight[sequence] = delivery
        self._deadlines.append((now + self._ack_wait_s, sequence, delivery.consumer_seq))
        return delivery

    def acked(self, stream_seq: int) -> HttpDelivery | None:
        """Remove and return the acknowledged message; None if it is neither held nor in flight."""
        delivery = self._in_flight.pop(stream_seq, None)
        if delivery is not None:
            return delivery
        delivery = self._held.pop(stream_seq, None)
        if delivery is not None:
            self.held_bytes -= delivery.size
        return delivery

    def expire(self, now: float) -> None:
        """Free the places of messages that were not acknowledged in time."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, sequence, _ = self._deadlines.popleft()
            del self._in_flight[sequence]

    def next_deadline(self) -> float | None:
        """Return the time at which a place may become free without an acknowledgement."""
        deadlines = self._deadlines
        while deadlines:
            _, sequence, consumer_seq = deadlines[0]
            delivery = self._in_flight.get(sequence)
            if delivery is not None and delivery.consumer_seq == consumer_seq:
                return deadlines[0][0]
            deadlines.popleft()
        return None

    def has(self, stream_seq: int) -> bool:
        return stream_seq in self._held or stream_seq in self._in_flight

    def waiting(self) -> list[HttpDelivery]:
        """Return the messages that were never written."""
        return list(self._held.values())
