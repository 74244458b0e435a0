"""The core of an ordered consumer: what it keeps for its reader, and what it sends to the server."""

import pytest

from millstream.client.config import StartAt, ordered_config
from millstream.client.core import OrderedCore
from millstream.client.state import OrderedMessage, ResetReason
from millstream.jsapi.enums import AckPolicy, DeliverPolicy
from millstream.link.deliveries import LinkMessage


def core_of(max_messages: int = 10, max_bytes: int = 1000) -> OrderedCore:
    core = OrderedCore(ordered_config(), max_messages=max_messages, max_bytes=max_bytes, changed=lambda: None)
    core.listen("S", "C", "inbox")
    return core


def message(sequence: int, data: bytes = b"x", pending: int = 0) -> LinkMessage:
    return LinkMessage("s", data, f"$JS.ACK.S.C.1.{sequence}.{sequence}.0.{pending}")


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


def paced_core() -> OrderedCore:
    """A core whose second consumer repeats a last-per-subject start at the pace of its reader."""
    config = ordered_config(start=StartAt.LAST_PER_SUBJECT)
    core = OrderedCore(config, max_messages=24, max_bytes=10**6, changed=lambda: None)
    core.ask(1_000)
    core.listen("S", "C", "inbox")
    core.opened(0, 0)
    for seq in range(1, 26):
        core.receive(message(seq, pending=1_000 - seq))
    assert core.trouble is ResetReason.BUFFER_FULL
    core.pop(12)  # until it is drained
    config = core.ask(1_000)
    assert (config.deliver_policy, config.ack_policy) == (DeliverPolicy.LAST_PER_SUBJECT, AckPolicy.ALL)
    assert config.max_ack_pending == 8
    core.listen("S", "C", "inbox")
    return core


def test_a_repeated_start_goes_at_the_pace_of_its_reader() -> None:
    core = paced_core()
    unacked = 0
    for seq in range(1, 501):
        unacked += 1
        core.receive(message(seq))
        for _ in range(10):  # the server waits for an ack
            if unacked < 8:
                break
            core.pop(5)
            unacked -= 2 * len(core.answers_due())
        assert unacked < 8
    assert core.trouble is None
    assert core.stream_seq == 500


def test_a_paced_start_whose_acks_do_not_arrive_goes_on_without() -> None:
    core = paced_core()
    for seq in range(1, 9):
        core.receive(message(seq))
    while not core.is_empty():
        core.pop(100)
        core.answers_due()
    for _ in range(2):
        assert core.trouble is None
        core.receive(control("Idle Heartbeat", Last_Consumer="8"))
    assert core.trouble is ResetReason.GAP
    assert core.ask(1_000).ack_policy is AckPolicy.NONE


def test_a_paced_start_that_is_refused_is_asked_for_without_acks() -> None:
    core = paced_core()
    assert core.forgo_acks()
    assert core.ask(1_000).ack_policy is AckPolicy.NONE
    assert not core.forgo_acks()
    assert core.ask(1_000).ack_policy is AckPolicy.NONE
