"""What a reading tells about itself."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from millstream.client.life import Phase


class ResetReason(Enum):
    """Why a consumer was given up for a new one."""

    GAP = "a message is missing"
    MISSED_HEARTBEATS = "two heartbeats in a row did not come"
    RECONNECTED = "the connection was lost in between"
    BUFFER_FULL = "the reader did not keep up"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedState:
    """A moment of a reading."""

    phase: Phase
    stream: str
    consumer_name: str  # changes with each reset; empty while there is none
    stream_seq: int  # of the last message that was handed out; 0: none yet
    consumer_seq: int
    received_stream_seq: int  # the last good one that arrived, or where the reading began
    buffered: int  # messages that arrived and were not handed out
    pending: int  # messages that the server had left to send, at the last word from it
    resets: int
    last_reset: ResetReason | None
    last_heartbeat: datetime | None
    last_error: Exception | None  # of the last attempt to make a consumer that failed

    @property
    def lag(self) -> int:
        """How many messages the reader has not seen, as far as is known."""
        return self.buffered + self.pending
