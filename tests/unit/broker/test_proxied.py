"""Headers of proxies that strangers begin and do not end, or that say too much."""

import pytest

from millstream.broker.broker import Broker
from millstream.broker.proxied import ProxiedProtocol
from tests.kits.broker import loop_of, make_broker
from tests.kits.fake_transport import FakeTransport

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
OVERSIZED = SIGNATURE + b"\x21\x11\xff\xff"  # 65,535 bytes are to follow
ADDRESSES = bytes([192, 0, 2, 1, 198, 51, 100, 1, 0, 7, 0, 8])
BEGUN = {
    "v1": b"PROXY TCP4 192.0.2.1 ",
    "v2": SIGNATURE,
    "v2 oversized": OVERSIZED + b"x" * 60_000,
    "v": b"P",
}


class Stranger:
    """A connection whose server expects headers of proxies."""

    def __init__(self, broker: Broker) -> None:
        self._loop = loop_of(broker)
        connection = broker.new_connection()
        self.transport = FakeTransport(self._loop, ProxiedProtocol(broker, connection))
        self.connection = connection
        self.transport.protocol.connection_made(self.transport)
        self.heard()

    def heard(self) -> bytes:
        self._loop.run_ready()
        news = bytes(self.transport.sent)
        self.transport.sent.clear()
        return news

    def say(self, data: bytes) -> bytes:
        if not self.transport.closing:
            self.transport.receive(data)
        return self.heard()


@pytest.fixture
def broker() -> Broker:
    return make_broker(ping_interval_s=3600.0)


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_a_header_without_an_end_is_waited_for_five_seconds(broker: Broker, begun: bytes) -> None:
    stranger = Stranger(broker)
    stranger.say(begun)
    loop_of(broker).advance(4.9)
    assert not stranger.transport.closing
    loop_of(broker).advance(0.2)
    stranger.heard()
    assert stranger.transport.closing
    assert not broker.connections


def test_drops_do_not_prolong_the_time(broker: Broker) -> None:
    stranger = Stranger(broker)
    stranger.say(OVERSIZED)
    for _ in range(6):
        stranger.say(b"x")
        loop_of(broker).advance(1)
    assert stranger.transport.closing


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_nothing_is_left_of_a_stranger_who_hangs_up(broker: Broker, begun: bytes) -> None:
    stranger = Stranger(broker)
    before = loop_of(broker).pending_timers()
    gone = Stranger(broker)
    gone.say(begun)
    gone.transport.peer_closes()
    gone.heard()
    assert len(broker.connections) == 1
    assert loop_of(broker).pending_timers() <= before
    assert not stranger.transport.closing


def test_a_login_that_comes_bit_by_bit_has_one_address(broker: Broker) -> None:
    """The header is believed once: what looks like another one is an operation of the client."""
    stranger = Stranger(broker)
    header = SIGNATURE + b"\x21\x11\x00\x0c" + ADDRESSES
    for each in header:
        assert stranger.say(bytes([each])) == b""
    session = stranger.connection.session
    assert (session.ip, session.port) == ("192.0.2.1", 7)
    assert b"Unknown Protocol Operation" in stranger.say(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n")
    assert stranger.transport.closing
    assert session.ip == "192.0.2.1"
