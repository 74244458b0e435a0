"""The life cycle of one inflow: when it requests a consumer from its origin, and what follows.

It has no clock and no I/O; the caller reports events and the time.

                   due                accepted
    WAITING ────────────▶ ASKING ───────────────▶ FLOWING
       ▲                     │ refused, silence       │ gap, stall, message refused
       └─────────────────────┴────────────────────────┘

The times are nats-server's.  Requests are at least two seconds apart; each failure in a row adds ten, up to
two minutes; random jitter keeps streams that start together from asking together.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from millstream.base.errors import MillstreamError

_NS: Final = 1_000_000_000
BETWEEN_REQUESTS_NS: Final = 2 * _NS
BACKOFF_NS: Final = 10 * _NS  # added for each failure
LONGEST_BACKOFF_NS: Final = 120 * _NS
LEAST_JITTER_NS: Final = _NS // 10
MOST_JITTER_NS: Final = 2 * _NS // 10
ANSWER_WAIT_NS: Final = 30 * _NS
NOBODY_WAIT_NS: Final = 2 * _NS  # if nobody listens to the request: a link may be down
RESET_WAIT_NS: Final = 5 * _NS  # for a consumer that already exists
SILENCE_NS: Final = 10 * _NS  # a heartbeat comes every second


class InflowState(Enum):
    RESTING = "resting"
    WAITING = "waiting"
    ASKING = "asking"
    FLOWING = "flowing"


class InflowEvent(Enum):
    START = "start"
    DUE = "due"
    ACCEPTED = "accepted"
    REFUSED = "refused"  # or no response
    OTHER_ORIGIN = "other origin"  # the stream is not the same as before
    INTERRUPTED = "interrupted"  # a gap, silence, or a message that cannot be stored
    STOP = "stop"


MOVES: Final[dict[tuple[InflowState, InflowEvent], InflowState]] = {
    (InflowState.RESTING, InflowEvent.START): InflowState.WAITING,
    (InflowState.WAITING, InflowEvent.DUE): InflowState.ASKING,
    (InflowState.WAITING, InflowEvent.INTERRUPTED): InflowState.WAITING,  # already noticed
    (InflowState.ASKING, InflowEvent.ACCEPTED): InflowState.FLOWING,
    (InflowState.ASKING, InflowEvent.REFUSED): InflowState.WAITING,
    (InflowState.ASKING, InflowEvent.OTHER_ORIGIN): InflowState.WAITING,
    (InflowState.ASKING, InflowEvent.INTERRUPTED): InflowState.ASKING,
    (InflowState.FLOWING, InflowEvent.INTERRUPTED): InflowState.WAITING,
    (InflowState.RESTING, InflowEvent.STOP): InflowState.RESTING,
    (InflowState.WAITING, InflowEvent.STOP): InflowState.RESTING,
    (InflowState.ASKING, InflowEvent.STOP): InflowState.RESTING,
    (InflowState.FLOWING, InflowEvent.STOP): InflowState.RESTING,
}


class IllegalInflowMove(MillstreamError):
    def __init__(self, state: InflowState, event: InflowEvent) -> None:
        super().__init__(f"an inflow that is {state.value} can not take: {event.value}")


class Life:
    """The state of one inflow."""

    def __init__(self) -> None:
        self.state = InflowState.RESTING
        self.failures = 0  # in a row
        self._asked_ns: int | None = None

    def step(self, event: InflowEvent, now_ns: int) -> None:
        try:
            self.state = MOVES[self.state, event]
        except KeyError:
            raise IllegalInflowMove(self.state, event) from None
        if event is InflowEvent.DUE:
            self._asked_ns = now_ns
        elif event is InflowEvent.REFUSED:
            self.failures += 1
        elif event is InflowEvent.ACCEPTED:
            self.failures = 0

    def hope(self) -> None:
        """Reset the backoff: the next request will probably succeed."""
        self.failures = 0

    def delay_ns(self, now_ns: int, jitter_ns: int) -> int:
        """Return the delay before the next request; the caller draws `jitter_ns`."""
        delay = jitter_ns
        if self._asked_ns is not None:
            delay += max(BETWEEN_REQUESTS_NS - (now_ns - self._asked_ns), 0)
            delay += min(BACKOFF_NS * self.failures, LONGEST_BACKOFF_NS)
        return delay
