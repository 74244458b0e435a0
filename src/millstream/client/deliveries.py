"""What a push consumer says about itself, read from the messages of nats-py: heartbeats and flow control.

It comes on the deliver subject, as messages do, with a status and no body.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from millstream.base.decimals import read_whole
from millstream.jsapi.headers import CONSUMER_STALLED, LAST_CONSUMER, LAST_STREAM

# The names under which nats-py gives the parts of a status line.
STATUS: Final = "Status"
DESCRIPTION: Final = "Description"

_CONTROL_STATUS: Final = "100"
_HEARTBEAT: Final = "Idle Heartbeat"
_FLOW_CONTROL: Final = "FlowControl Request"


class ControlKind(Enum):
    HEARTBEAT = "heartbeat"
    FLOW_CONTROL = "flow control"


class Control(NamedTuple):
    """A message of the consumer about itself."""

    kind: ControlKind
    answer_to: str = ""  # a subject that waits for a sign that we keep up; empty: none does
    last_consumer_seq: int = 0  # of heartbeats: the last that was delivered
    last_stream_seq: int = 0  # of heartbeats: how far the consumer has come in the stream


def read_control(headers: Mapping[str, str] | None, reply: str) -> Control | None:
    """What a message on the deliver subject says, or None if it is neither of the two kinds."""
    if headers is None or headers.get(STATUS) != _CONTROL_STATUS:
        return None
    description = headers.get(DESCRIPTION, "")
    if description == _FLOW_CONTROL and reply:
        return Control(ControlKind.FLOW_CONTROL, answer_to=reply)
    if description == _HEARTBEAT:
        return Control(
            ControlKind.HEARTBEAT,
            answer_to=headers.get(CONSUMER_STALLED, ""),
            last_consumer_seq=_number(headers.get(LAST_CONSUMER)),
            last_stream_seq=_number(headers.get(LAST_STREAM)),
        )
    return None


def _number(text: str | None) -> int:
    """Documents show heartbeats with an empty sequence, for none."""
    return (read_whole(text) if text else None) or 0
