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
RESET_WAIT_NS: Final = 5 * _NS  # for a consumer that already exists
SILENCE_NS: Final = 10 * _NS  # a heartbeat comes every second


class State(Enum):
    RESTING = "resting"
    WAITING = "waiting"
    ASKING = "asking"
    FLOWING = "flowing"


class Event(Enum):
    START = "start"
    DUE = "due"
    ACCEPTED = "accepted"
    REFUSED = "refused"  # or no response
    OTHER_ORIGIN = "other origin"  # the stream is not the same as before
    INTERRUPTED = "interrupted"  # a gap, silence, or a message that cannot be stored
    STOP = "stop"


MOVES: Final[dict[tuple[State, Event], State]] = {
    (State.RESTING, Event.START): State.WAITING,
    (State.WAITING, Event.DUE): State.ASKING,
    (State.WAITING, Event.INTERRUPTED): State.WAITING,  # already noticed
    (State.ASKING, Event.ACCEPTED): State.FLOWING,
    (State.ASKING, Event.REFUSED): State.WAITING,
    (State.ASKING, Event.OTHER_ORIGIN): State.WAITING,
    (State.ASKING, Event.INTERRUPTED): State.ASKING,
    (State.FLOWING, Event.INTERRUPTED): State.WAITING,
    (State.RESTING, Event.STOP): State.RESTING,
    (State.WAITING, Event.STOP): State.RESTING,
    (State.ASKING, Event.STOP): State.RESTING,
    (State.FLOWING, Event.STOP): State.RESTING,
}


class IllegalMove(MillstreamError):
    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"an inflow that is {state.value} can not take: {event.value}")


class Life:
    """The state of one inflow."""

    def __init__(self) -> None:
        self.state = State.RESTING
        self.failures = 0  # in a row
        self._asked_ns: int | None = None

    def step(self, event: Event, now_ns: int) -> None:
        try:
            self.state = MOVES[self.state, event]
        except KeyError:
            raise IllegalMove(self.state, event) from None
        if event is Event.DUE:
            self._asked_ns = now_ns
        elif event is Event.REFUSED:
            self.failures += 1
        elif event is Event.ACCEPTED:
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
