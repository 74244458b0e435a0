"""A connection whose input takes long: it stops, others get their turn, and it goes on where it was."""

import pytest

from millstream.broker.broker import Broker
from millstream.broker.options import BrokerOptions
from tests.kits.broker import client, loop_of
from tests.kits.fake_transport import FakeClient, FakeLoop

LONG = b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(1000))


@pytest.fixture
def broker() -> Broker:
    """A broker for which each look at the clock takes a millisecond."""
    ticks = iter(range(10**9))
    return Broker(BrokerOptions(), server_id="N", loop=FakeLoop().as_loop(), clock=lambda: next(ticks) / 1000)


def feed(one: FakeClient, data: bytes) -> None:
    one.connection.data_received(data)


def test_it_stops_reading_and_goes_on_in_its_next_turn(broker: Broker) -> None:
    one = client(broker)
    feed(one, LONG)
    assert one.connection.waiting
    assert not one.transport.reading
    assert 0 < len(one.connection.subscriptions) < 1000
    loop_of(broker).run_ready()
    assert len(one.connection.subscriptions) == 1000
    assert one.transport.reading
    assert not one.connection.waiting


def test_others_are_served_meanwhile(broker: Broker) -> None:
    one, other = client(broker), client(broker)
    feed(one, LONG)
    feed(other, b"PING\r\n")
    assert bytes(other.transport.sent) == b"PONG\r\n"
    assert one.connection.waiting


def test_what_it_does_in_its_next_turn_is_its_own_and_not_of_the_client_served_before(broker: Broker) -> None:
    """Streams wait for their commits by client, so one client's streams must not count as another's."""
    one, other = client(broker), client(broker)
    feed(one, LONG)
    feed(other, b"PING\r\n")
    assert broker.tick.reader == other.connection.cid
    loop_of(broker).run_ready()
    assert broker.tick.reader == one.connection.cid


def test_input_that_comes_meanwhile_keeps_its_order(broker: Broker) -> None:
    one = client(broker)
    feed(one, LONG + b"UNSUB 9")
    feed(one, b"99\r\nSUB b 9")
    feed(one, b"9999\r\nPING\r\n")
    assert one.heard() == b"PONG\r\n"
    assert len(one.connection.subscriptions) == 1000
    assert one.connection.subscriptions[b"99999"].subject == b"b"


def test_a_connection_that_is_closed_meanwhile_takes_nothing_more(broker: Broker) -> None:
    one = client(broker)
    feed(one, LONG)
    one.transport.peer_closes()
    loop_of(broker).run_ready()
    assert broker.global_account.space.tree.count == 0
    assert not broker.connections


def test_messages_count_with_their_deliveries(broker: Broker) -> None:
    receivers = [client(broker) for _ in range(20)]
    for each in receivers:
        each.say(b"SUB news 1\r\n")
    one = client(broker)
    feed(one, b"PUB news 0\r\n\r\n" * 100)
    assert one.connection.waiting
    loop_of(broker).run_ready()
    assert [each.connection.out_messages for each in receivers] == [100] * 20
