"""Reading what a push consumer sends."""

import pytest

from millstream.client.deliveries import Control, ControlKind, read_control
from millstream.client.message import OrderedMessage


@pytest.mark.parametrize(
    ("headers", "reply", "expected"),
    [
        (
            {
                "Status": "100",
                "Description": "Idle Heartbeat",
                "Nats-Last-Consumer": "5",
                "Nats-Last-Stream": "9",
            },
            "",
            Control(ControlKind.HEARTBEAT, last_consumer_seq=5, last_stream_seq=9),
        ),
        (
            {"Status": "100", "Description": "Idle Heartbeat", "Nats-Last-Consumer": ""},
            "",
            Control(ControlKind.HEARTBEAT),
        ),
        (
            {"Status": "100", "Description": "Idle Heartbeat", "Nats-Consumer-Stalled": "$JS.FC.S.c.x"},
            "",
            Control(ControlKind.HEARTBEAT, answer_to="$JS.FC.S.c.x"),
        ),
        (
            {"Status": "100", "Description": "FlowControl Request"},
            "$JS.FC.S.c.x",
            Control(ControlKind.FLOW_CONTROL, answer_to="$JS.FC.S.c.x"),
        ),
        ({"Status": "100", "Description": "FlowControl Request"}, "", None),
        ({"Status": "409", "Description": "Consumer Deleted"}, "", None),
        ({"Description": "Idle Heartbeat"}, "", None),
        ({}, "", None),
        (None, "x", None),
    ],
)
def test_control_messages_are_told_from_others(
    headers: dict[str, str] | None, reply: str, expected: Control | None
) -> None:
    assert read_control(headers, reply) == expected


def test_the_time_of_a_message_is_to_the_microsecond() -> None:
    message = OrderedMessage("s", b"", {}, "S", 1, 1, 1_700_000_000_123_456_789, 0)
    assert message.timestamp.isoformat() == "2023-11-14T22:13:20.123456+00:00"
