"""The states of one message of one consumer: the table that ``ledger`` follows and the docs show.

A message that was never delivered, or that is settled, has no state: the ledger does not know it.  Everything
else in the ledger is counting.
"""

from enum import Enum
from typing import Final

from millstream.base.errors import MillstreamError


class MessageState(Enum):
    UNKNOWN = "unknown"  # not delivered yet, or settled: acknowledged, terminated, given up or gone
    INFLIGHT = "in flight"  # delivered, and its time to be acknowledged runs
    DELAYED = "delayed"  # refused by the client, to be delivered again at a time it named
    QUEUED = "queued"  # to be delivered again as soon as somebody takes it


class MessageEvent(Enum):
    DELIVER = "deliver"
    ACK = "ack"
    PROGRESS = "progress"  # the client still works on it
    NAK = "nak"
    NAK_LATER = "nak with a delay"
    TERM = "term"
    TIMEOUT = "timeout"  # of the time to acknowledge, or of the delay
    GIVE_UP = "give up"  # it was delivered as often as it may be
    REMOVE = "remove"  # the stream does not have it any more


class IllegalMoveError(MillstreamError):
    """A pair of state and event that is not in the table."""

    def __init__(self, state: MessageState, event: MessageEvent) -> None:
        super().__init__(f"a message that is {state.value} cannot take: {event.value}")


_S, _E = MessageState, MessageEvent

MOVES: Final[dict[tuple[MessageState, MessageEvent], MessageState]] = {
    (_S.UNKNOWN, _E.DELIVER): _S.INFLIGHT,
    (_S.UNKNOWN, _E.ACK): _S.UNKNOWN,  # a repeated ack is harmless
    (_S.UNKNOWN, _E.PROGRESS): _S.UNKNOWN,
    (_S.UNKNOWN, _E.NAK): _S.UNKNOWN,
    (_S.UNKNOWN, _E.NAK_LATER): _S.UNKNOWN,
    (_S.UNKNOWN, _E.TERM): _S.UNKNOWN,
    (_S.UNKNOWN, _E.REMOVE): _S.UNKNOWN,
    (_S.INFLIGHT, _E.ACK): _S.UNKNOWN,
    (_S.INFLIGHT, _E.PROGRESS): _S.INFLIGHT,  # its time starts again
    (_S.INFLIGHT, _E.NAK): _S.QUEUED,
    (_S.INFLIGHT, _E.NAK_LATER): _S.DELAYED,
    (_S.INFLIGHT, _E.TERM): _S.UNKNOWN,
    (_S.INFLIGHT, _E.TIMEOUT): _S.QUEUED,
    (_S.INFLIGHT, _E.GIVE_UP): _S.UNKNOWN,  # with an advisory
    (_S.INFLIGHT, _E.REMOVE): _S.UNKNOWN,
    (_S.DELAYED, _E.ACK): _S.UNKNOWN,
    (_S.DELAYED, _E.PROGRESS): _S.INFLIGHT,
    (_S.DELAYED, _E.NAK): _S.QUEUED,
    (_S.DELAYED, _E.NAK_LATER): _S.DELAYED,
    (_S.DELAYED, _E.TERM): _S.UNKNOWN,
    (_S.DELAYED, _E.TIMEOUT): _S.QUEUED,
    (_S.DELAYED, _E.GIVE_UP): _S.UNKNOWN,
    (_S.DELAYED, _E.REMOVE): _S.UNKNOWN,
    (_S.QUEUED, _E.DELIVER): _S.INFLIGHT,
    (_S.QUEUED, _E.ACK): _S.UNKNOWN,  # a late ack beats the redelivery
    (_S.QUEUED, _E.PROGRESS): _S.QUEUED,  # too late to hold it back
    (_S.QUEUED, _E.NAK): _S.QUEUED,
    (_S.QUEUED, _E.NAK_LATER): _S.DELAYED,
    (_S.QUEUED, _E.TERM): _S.UNKNOWN,
    (_S.QUEUED, _E.GIVE_UP): _S.UNKNOWN,
    (_S.QUEUED, _E.REMOVE): _S.UNKNOWN,
}


def step(state: MessageState, event: MessageEvent) -> MessageState:
    """Return the next state; raise IllegalMoveError for a pair that cannot occur."""
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMoveError(state, event) from None
