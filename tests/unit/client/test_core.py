"""The core of an ordered consumer: what it keeps for its reader, and what it sends to the server."""

import pytest

from millstream.client.config import ordered_config
from millstream.client.core import OrderedCore
from millstream.client.state import OrderedMessage, ResetReason
from millstream.link.deliveries import LinkMessage


def core_of(max_messages: int = 10, max_bytes: int = 1000) -> OrderedCore:
    core = OrderedCore(ordered_config(), max_messages=max_messages, max_bytes=max_bytes, changed=lambda: None)
    core.listen("S", "C", "inbox")
    return core


def message(sequence: int, data: bytes = b"x") -> LinkMessage:
    return LinkMessage("s", data, f"$JS.ACK.S.C.1.{sequence}.{sequence}.0.0")


def control(text: str, reply: str = "", **headers: str) -> LinkMessage:
    lines = "".join(f"Nats-{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return LinkMessage("inbox", b"", reply, f"NATS/1.0 100 {text}\r\n{lines}\r\n".encode(), 100)


def sequences(messages: list[OrderedMessage]) -> list[int]:
    return [each.stream_seq for each in messages]


def test_an_answer_is_due_when_all_before_it_was_taken() -> None:
    core = core_of()
    core.receive(message(1))
    core.receive(control("FlowControl Request", "fc"))
    core.receive(control("Idle Heartbeat", Last_Consumer="1", Consumer_Stalled="fc"))  # the same again
    core.receive(message(2))
    assert core.answers_due() == []
    assert sequences(core.pop(10)) == [1]
    assert sequences(core.pop(10)) == []
    assert core.answers_due() == ["fc"]
    assert sequences(core.pop(10)) == [2]
    assert core.is_empty()


def test_it_is_full_by_messages_or_by_bytes_and_takes_nothing_more() -> None:
    core = core_of(max_messages=2, max_bytes=10)
    core.receive(message(1))
    assert not core.is_full()
    core.receive(message(2))
    assert core.is_full()
    core.receive(message(3))
    assert core.trouble is ResetReason.BUFFER_FULL
    assert core.stream_seq == 2
    core.pop(1)
    assert core.is_drained()
    core.pop(1)
    assert (core.held, core.held_bytes, core.is_full()) == (0, 0, False)
    core.listen("S", "C", "inbox")
    core.receive(message(3, b"0123456789"))
    assert core.is_full()


def test_what_waits_may_be_discarded() -> None:
    core = core_of()
    core.receive(message(1))
    core.discard()
    assert (core.held, core.held_bytes, core.is_empty()) == (0, 0, True)


def test_room_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        core_of(max_messages=1, max_bytes=0)


@pytest.mark.parametrize(
    ("stranger", "heartbeats", "due"),
    [
        (control("Idle Heartbeat", Last_Consumer="0"), 1, []),
        (control("Idle Heartbeat", Last_Consumer=""), 1, []),
        (control("Idle Heartbeat", Consumer_Stalled="$JS.FC.S.c.x"), 1, ["$JS.FC.S.c.x"]),
        (control("FlowControl Request", "$JS.FC.S.c.x"), 0, ["$JS.FC.S.c.x"]),
        (control("FlowControl Request"), 0, []),
        (LinkMessage("inbox", b"", block=b"NATS/1.0 409 Consumer Deleted\r\n\r\n", status=409), 0, []),
        (LinkMessage("inbox", b"psst"), 0, []),
        (LinkMessage("s", b"psst", "$JS.ACK.S.OTHER.1.1.1.0.0"), 0, []),
    ],
)
def test_control_messages_are_told_from_others(
    stranger: LinkMessage, heartbeats: int, due: list[str]
) -> None:
    core = core_of()
    core.receive(stranger)
    assert (core.heartbeats, core.answers_due(), core.held, core.trouble) == (heartbeats, due, 0, None)


def test_after_trouble_nothing_is_taken_until_the_next_consumer() -> None:
    core = core_of()
    core.receive(message(1))
    core.receive(message(3))
    assert core.trouble is ResetReason.GAP
    core.receive(message(2))
    assert sequences(core.pop(10)) == [1]


def test_the_time_of_a_message_is_to_the_microsecond() -> None:
    one = OrderedMessage("s", b"", {}, "S", 1, 1, 1_700_000_000_123_456_789, 0)
    assert one.timestamp.isoformat() == "2023-11-14T22:13:20.123456+00:00"
