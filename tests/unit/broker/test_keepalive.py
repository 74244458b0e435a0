"""Pings and stale connections, on a clock that moves when it is told to."""

import pytest

from millstream.broker.close_reason import CloseReason
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient

STALE = b"-ERR 'Stale Connection'\r\n"


def test_the_first_ping_comes_after_two_seconds_and_a_little() -> None:
    broker = make_broker()
    one = client(broker)
    loop_of(broker).advance(1.99)
    assert one.heard() == b""
    loop_of(broker).advance(0.5)
    assert one.heard() == b"PING\r\n"


def test_first_pings_of_many_clients_do_not_come_together() -> None:
    broker = make_broker()
    clients = [client(broker) for _ in range(50)]
    loop_of(broker).advance(2.2)
    early = sum(each.heard() == b"PING\r\n" for each in clients)
    assert 5 < early < 45


def test_the_time_until_connect_is_the_first_guess_and_does_not_spare_the_ping() -> None:
    broker = make_broker(ping_interval_s=100)
    one = FakeClient(broker)
    assert one.connection.keepalive.round_trip_s == 0
    loop_of(broker).advance(0.125)
    one.say(b'CONNECT {"verbose":false}\r\n')
    assert one.connection.keepalive.round_trip_s == 0.125
    one.say(b"PONG\r\n")  # which nobody asked for
    assert one.connection.keepalive.round_trip_s == 0.125
    loop_of(broker).advance(2.5)
    assert one.heard() == b"PING\r\n"


def test_an_answered_ping_measures_the_round_trip() -> None:
    broker = make_broker()
    one = client(broker)
    loop_of(broker).advance(2.5)
    sent_before = one.heard()
    assert sent_before == b"PING\r\n"
    loop_of(broker).advance(0.25)
    one.say(b"PONG\r\n")
    assert 0.25 <= one.connection.keepalive.round_trip_s <= 0.75


def test_an_idle_client_that_answers_is_pinged_once_per_interval() -> None:
    broker = make_broker(ping_interval_s=10)
    one = client(broker)
    loop_of(broker).advance(2.5)
    assert one.heard() == b"PING\r\n"
    one.say(b"PONG\r\n")
    for _ in range(5):
        loop_of(broker).advance(10)
        assert one.heard() == b"PING\r\n"
        one.say(b"PONG\r\n")
    assert not one.closed


@pytest.mark.parametrize("ping_max", [1, 2, 3])
def test_unanswered_pings_end_the_connection(ping_max: int) -> None:
    broker = make_broker(ping_interval_s=1, ping_max=ping_max)
    one = client(broker)
    one.say(b"SUB foo 1\r\n")
    loop_of(broker).advance(1.25)
    assert one.heard() == b"PING\r\n"
    for _ in range(ping_max - 1):
        loop_of(broker).advance(1.0)
        assert one.heard() == b"PING\r\n"
    loop_of(broker).advance(1.0)
    assert one.heard() == STALE
    assert one.closed
    assert one.connection.session.reason is CloseReason.STALE_CONNECTION
    assert broker.totals.stale_connections == 1
    assert broker.connections == {}
    assert broker.global_account.space.tree.count == 0


def test_who_never_sends_connect_goes_stale_too() -> None:
    broker = make_broker(ping_interval_s=1)
    one = FakeClient(broker)
    loop_of(broker).advance(10)
    assert one.heard() == b"PING\r\nPING\r\n" + STALE


@pytest.mark.parametrize("activity", [b"PUB foo 0\r\n\r\n", b"SUB foo 1\r\n", b"UNSUB 1\r\n", b"PING\r\n"])
def test_a_client_that_says_something_is_not_pinged(activity: bytes) -> None:
    broker = make_broker(ping_interval_s=10)
    one = client(broker)
    loop_of(broker).advance(2.5)
    one.heard()
    one.say(b"PONG\r\n")
    for _ in range(20):
        loop_of(broker).advance(4)
        assert b"PING\r\n" not in one.say(activity).replace(b"PONG\r\n", b"")
    loop_of(broker).advance(21)
    assert b"PING\r\n" in one.heard()


def test_messages_to_a_client_do_not_count_as_its_activity() -> None:
    broker = make_broker(ping_interval_s=10)
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    loop_of(broker).advance(2.5)
    receiver.say(b"PONG\r\n")
    sender.say(b"PONG\r\n")
    for _ in range(8):
        loop_of(broker).advance(4)
        sender.say(b"PUB foo 0\r\n\r\n")
    assert receiver.heard().count(b"PING\r\n") >= 2


@pytest.mark.parametrize("connects", [True, False])
def test_a_busy_client_that_never_answers_is_stale_unless_its_round_trip_can_be_guessed(
    connects: bool,
) -> None:
    broker = make_broker(ping_interval_s=1)
    one = client(broker) if connects else FakeClient(broker)
    for _ in range(60):
        loop_of(broker).advance(0.1)
        if not one.closed:
            one.say(b"PUB foo 0\r\n\r\n")
    assert one.closed is not connects


def test_one_pong_pays_for_all_pings() -> None:
    broker = make_broker(ping_interval_s=1, ping_max=3)
    one = client(broker)
    loop_of(broker).advance(2.5)
    one.say(b"PONG\r\n")
    loop_of(broker).advance(3)
    assert not one.closed
    loop_of(broker).advance(1.5)
    assert one.closed


def test_no_timer_outlives_its_connection() -> None:
    broker = make_broker()
    one = client(broker)
    one.transport.peer_closes()
    loop_of(broker).run_ready()
    assert loop_of(broker).pending_timers() == 0
