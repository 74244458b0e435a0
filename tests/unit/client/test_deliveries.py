"""Reading what a push consumer sends."""

import pytest

from millrace.client.deliveries import Control, ControlKind, Position, read_control, read_position
from millrace.client.message import OrderedMessage

POSITION = Position("S", "c", 42, 7, 1_700_000_000_123_456_789, 3)
NUMBERS = "1.42.7.1700000000123456789.3"


@pytest.mark.parametrize(
    "reply",
    [f"$JS.ACK.S.c.{NUMBERS}", f"$JS.ACK._.hash.S.c.{NUMBERS}", f"$JS.ACK.hub.hash.S.c.{NUMBERS}.x.y"],
)
def test_a_position_is_read_from_either_form_of_reply_subject(reply: str) -> None:
    assert read_position(reply) == POSITION


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "_INBOX.x",
        "$JS.FC.S.c.abcd",
        "$JS.ACK.S.c.1.42.7.1700000000123456789",
        f"$JS.ACK.hash.S.c.{NUMBERS}",
        "$JS.ACK.S.c.1.two.7.1700000000123456789.3",
    ],
)
def test_other_replies_are_no_position(reply: str) -> None:
    assert read_position(reply) is None


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
    message = OrderedMessage("s", b"", {}, "S", 1, 1, POSITION.timestamp_ns, 0)
    assert message.timestamp.isoformat() == "2023-11-14T22:13:20.123456+00:00"
