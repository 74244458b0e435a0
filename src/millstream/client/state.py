"""The messages and the state that a reading hands out, and the table of its phases.

    NEW ──open──▶ OPENING ──made──▶ READING ──lost──▶ RECOVERING ──made──▶ READING
                                       │                   ▲
                                       └──full──▶ RESTING ─┘ drained

Every phase may also end by `close` (CLOSED) or `fail` (FAILED).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

import msgspec

from millstream.client.errors import ClientError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class OrderedMessage(msgspec.Struct, frozen=True):
    """One message of a stream; there is nothing to acknowledge."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    stream: str
    stream_seq: int
    consumer_seq: int  # starts at 1 again with each new consumer
    timestamp_ns: int  # when it was stored, since 1970 in UTC
    pending: int  # how many there were after this one when it was sent

    @property
    def timestamp(self) -> datetime:
        """The time at which the message was stored, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1_000)


class Phase(Enum):
    NEW = "new"  # nothing has been sent to the server
    OPENING = "opening"  # the first consumer is being created
    READING = "reading"  # the consumer delivers
    RECOVERING = "recovering"  # the consumer was lost, and another is being created
    RESTING = "resting"  # the buffer was full, so the consumer was deleted until the buffer is drained
    CLOSED = "closed"
    FAILED = "failed"  # the reading cannot continue


class ReadingEvent(Enum):
    OPEN = "open"
    MADE = "made"
    LOST = "lost"
    FULL = "full"
    DRAINED = "drained"
    CLOSE = "close"
    FAIL = "fail"


MOVES: Final[dict[tuple[Phase, ReadingEvent], Phase]] = {
    (Phase.NEW, ReadingEvent.OPEN): Phase.OPENING,
    (Phase.OPENING, ReadingEvent.MADE): Phase.READING,
    (Phase.READING, ReadingEvent.LOST): Phase.RECOVERING,
    (Phase.READING, ReadingEvent.FULL): Phase.RESTING,
    (Phase.RESTING, ReadingEvent.DRAINED): Phase.RECOVERING,
    (Phase.RECOVERING, ReadingEvent.MADE): Phase.READING,
    (Phase.NEW, ReadingEvent.CLOSE): Phase.CLOSED,
    (Phase.OPENING, ReadingEvent.CLOSE): Phase.CLOSED,
    (Phase.READING, ReadingEvent.CLOSE): Phase.CLOSED,
    (Phase.RECOVERING, ReadingEvent.CLOSE): Phase.CLOSED,
    (Phase.RESTING, ReadingEvent.CLOSE): Phase.CLOSED,
    (Phase.FAILED, ReadingEvent.CLOSE): Phase.FAILED,  # the error stays visible
    (Phase.CLOSED, ReadingEvent.CLOSE): Phase.CLOSED,
    (Phase.OPENING, ReadingEvent.FAIL): Phase.FAILED,
    (Phase.READING, ReadingEvent.FAIL): Phase.FAILED,
    (Phase.RECOVERING, ReadingEvent.FAIL): Phase.FAILED,
    (Phase.RESTING, ReadingEvent.FAIL): Phase.FAILED,
}

ENDED: Final = frozenset({Phase.CLOSED, Phase.FAILED})


class IllegalMove(ClientError):
    """Raised when a reading is used in a way that its phase does not allow, such as opening it twice."""

    def __init__(self, phase: Phase, event: ReadingEvent) -> None:
        super().__init__(f"a reading that is {phase.value} can not {event.value}")


def step(phase: Phase, event: ReadingEvent) -> Phase:
    """Return the phase after `event`; raises IllegalMove if `phase` does not allow it."""
    try:
        return MOVES[phase, event]
    except KeyError:
        raise IllegalMove(phase, event) from None


class ResetReason(Enum):
    """The reasons for which a consumer is replaced by a new one."""

    GAP = "a message is missing"
    MISSED_HEARTBEATS = "two heartbeats in a row did not come"
    RECONNECTED = "the connection was lost in between"
    BUFFER_FULL = "the reader did not keep up"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedState:
    """A snapshot of a reading's state."""

    phase: Phase
    stream: str
    consumer_name: str  # changes with each reset; empty while there is none
    stream_seq: int  # of the last message that was handed out; 0: none yet
    consumer_seq: int
    received_stream_seq: int  # the last good one that arrived, or where the reading began
    buffered: int  # buffered messages
    pending: int  # messages that the server still had to send, as it last said
    resets: int
    last_reset: ResetReason | None
    last_heartbeat: datetime | None
    last_error: Exception | None  # of the last attempt to make a consumer that failed

    @property
    def lag(self) -> int:
        """The number of messages that the reader has not seen, as far as is known."""
        return self.buffered + self.pending
