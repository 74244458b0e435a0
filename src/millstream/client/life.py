"""The life of an ordered reading, as a table.

    NEW ──open──▶ OPENING ──made──▶ READING ──lost──▶ RECOVERING ──made──▶ READING
                                       │                   ▲
                                       └──full──▶ RESTING ─┘ drained

Every phase but the last two may end by `close` (CLOSED) or `fail` (FAILED).
"""

from enum import Enum
from typing import Final

from millstream.client.errors import ClientError


class Phase(Enum):
    NEW = "new"  # nothing was asked of the server
    OPENING = "opening"  # the first consumer is being made
    READING = "reading"  # messages come, or there are none
    RECOVERING = "recovering"  # the consumer was lost, another one is being made
    RESTING = "resting"  # the buffer was full, the consumer was given back until it is drained
    CLOSED = "closed"
    FAILED = "failed"  # reading can not go on


class Event(Enum):
    OPEN = "open"
    MADE = "made"
    LOST = "lost"
    FULL = "full"
    DRAINED = "drained"
    CLOSE = "close"
    FAIL = "fail"


MOVES: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.NEW, Event.OPEN): Phase.OPENING,
    (Phase.OPENING, Event.MADE): Phase.READING,
    (Phase.READING, Event.LOST): Phase.RECOVERING,
    (Phase.READING, Event.FULL): Phase.RESTING,
    (Phase.RESTING, Event.DRAINED): Phase.RECOVERING,
    (Phase.RECOVERING, Event.MADE): Phase.READING,
    (Phase.NEW, Event.CLOSE): Phase.CLOSED,
    (Phase.OPENING, Event.CLOSE): Phase.CLOSED,
    (Phase.READING, Event.CLOSE): Phase.CLOSED,
    (Phase.RECOVERING, Event.CLOSE): Phase.CLOSED,
    (Phase.RESTING, Event.CLOSE): Phase.CLOSED,
    (Phase.FAILED, Event.CLOSE): Phase.FAILED,  # what went wrong stays visible
    (Phase.CLOSED, Event.CLOSE): Phase.CLOSED,
    (Phase.OPENING, Event.FAIL): Phase.FAILED,
    (Phase.READING, Event.FAIL): Phase.FAILED,
    (Phase.RECOVERING, Event.FAIL): Phase.FAILED,
    (Phase.RESTING, Event.FAIL): Phase.FAILED,
}

ENDED: Final = frozenset({Phase.CLOSED, Phase.FAILED})


class IllegalMove(ClientError):
    """A reading was used in a way that its phase does not allow: opened twice, for example."""

    def __init__(self, phase: Phase, event: Event) -> None:
        super().__init__(f"a reading that is {phase.value} can not {event.value}")


def step(phase: Phase, event: Event) -> Phase:
    """The phase after `event`."""
    try:
        return MOVES[phase, event]
    except KeyError:
        raise IllegalMove(phase, event) from None
