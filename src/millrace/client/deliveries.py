"""What a push consumer sends, read from the messages of nats-py: positions, heartbeats, flow control.

The position of a message is in its reply subject, which has nine tokens, or from eleven on with a domain:

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>...

Everything else comes on the deliver subject itself, with a status and no body.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from millrace.jsapi.headers import CONSUMER_STALLED, LAST_CONSUMER, LAST_STREAM
from millrace.jsapi.names import ACK_PREFIX

# The names under which nats-py gives the parts of a status line.
STATUS: Final = "Status"
DESCRIPTION: Final = "Description"

_CONTROL_STATUS: Final = "100"
_HEARTBEAT: Final = "Idle Heartbeat"
_FLOW_CONTROL: Final = "FlowControl Request"
_SHORT_TOKENS: Final = 9
_LONG_TOKENS: Final = 11


class Position(NamedTuple):
    """Where a message stands in its stream and among what its consumer has delivered."""

    stream: str
    consumer: str
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    pending: int  # how many the consumer has left after this one


class ControlKind(Enum):
    HEARTBEAT = "heartbeat"
    FLOW_CONTROL = "flow control"


class Control(NamedTuple):
    """A message of the consumer about itself."""

    kind: ControlKind
    answer_to: str = ""  # a subject that waits for a sign that we keep up; empty: none does
    last_consumer_seq: int = 0  # of heartbeats: the last that was delivered
    last_stream_seq: int = 0  # of heartbeats: how far the consumer has come in the stream


def read_position(reply: str) -> Position | None:
    """The position that `reply` tells, or None if it is not the reply subject of a delivered message."""
    if not reply.startswith(ACK_PREFIX):
        return None
    tokens = reply.split(".")
    if len(tokens) == _SHORT_TOKENS:
        first = 2
    elif len(tokens) >= _LONG_TOKENS:
        first = 4
    else:
        return None
    try:
        return Position(
            tokens[first],
            tokens[first + 1],
            int(tokens[first + 3]),
            int(tokens[first + 4]),
            int(tokens[first + 5]),
            int(tokens[first + 6]),
        )
    except ValueError:
        return None


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
    return int(text) if text and text.isascii() and text.isdigit() else 0
