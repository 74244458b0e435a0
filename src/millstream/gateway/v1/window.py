"""What one subscription has taken from its consumer: messages that wait to be written, and those that were.

    JetStream ──► held ──► in flight ──► acknowledged
                   ▲           │
                   └───────────┘  delivered anew: nobody acknowledged it in time

Never more than `limit` are in flight.  A message in flight whose time is over is JetStream's again and leaves
its place.  Nothing here waits or writes; times are the caller's.
"""

from __future__ import annotations

from collections import deque

from millstream.gateway.v1.delivery import HttpDelivery


class Window:
    """`limit` zero: as many as the consumer itself lets out."""

    def __init__(self, limit: int, ack_wait_s: float) -> None:
        self._limit = limit
        self._ack_wait_s = ack_wait_s
        self._held: dict[int, HttpDelivery] = {}  # by the stream's sequence, in the order of their coming
        self._in_flight: dict[int, HttpDelivery] = {}
        self._deadlines: deque[tuple[float, int, int]] = deque()  # time, both sequences; in order of time
        self.held_bytes = 0

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def take(self, delivery: HttpDelivery) -> None:
        """Keep what JetStream handed out; it replaces an earlier attempt, wherever that is."""
        sequence = delivery.stream_seq
        self._in_flight.pop(sequence, None)
        old = self._held.get(sequence)
        if old is not None:
            self.held_bytes -= old.size
        self._held[sequence] = delivery
        self.held_bytes += delivery.size

    def next(self, now: float) -> HttpDelivery | None:
        """Move a message in flight and return it, if one waits and there is room."""
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
        """The message that was acknowledged, if it was one of these."""
        delivery = self._in_flight.pop(stream_seq, None)
        if delivery is not None:
            return delivery
        delivery = self._held.pop(stream_seq, None)
        if delivery is not None:
            self.held_bytes -= delivery.size
        return delivery

    def expire(self, now: float) -> None:
        """Give up places of messages that were not acknowledged in time."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, sequence, _ = self._deadlines.popleft()
            del self._in_flight[sequence]

    def next_deadline(self) -> float | None:
        """When a place may become free without an acknowledgement."""
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
        """What was never written."""
        return list(self._held.values())
