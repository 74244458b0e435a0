"""Large bodies are read where they are needed; what a client sees is the same."""

import asyncio
import socket
from random import Random
from typing import Any

import pytest

from millstream.broker.body_reader import BodyReader
from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from millstream.broker.connection import Connection
from millstream.broker.observer import Observer
from millstream.broker.options import BrokerOptions
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient, FakeLoop

BODY = Random(3).randbytes(300_000)
LARGE = b"PUB foo 300000\r\n" + BODY + b"\r\n"
SMALL = b"PUB foo 2\r\nhi\r\n"
LARGE_HEARD = b"MSG foo 1 300000\r\n" + BODY + b"\r\n"
SMALL_HEARD = b"MSG foo 1 2\r\nhi\r\n"


def is_reading_bodies(one: FakeClient) -> bool:
    return isinstance(one.transport.protocol, BodyReader)


def in_pieces(one: FakeClient, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        one.say(data[at : at + size])


@pytest.mark.parametrize("size", [1000, 4096, 65_536, 100_000, 256_000, 10**7])
def test_messages_of_all_sizes_arrive_whole_and_in_order(size: int) -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    in_pieces(sender, SMALL + LARGE + LARGE + SMALL * 3 + LARGE + SMALL, size)
    assert receiver.heard() == (SMALL_HEARD + LARGE_HEARD * 2 + SMALL_HEARD * 3 + LARGE_HEARD + SMALL_HEARD)
    assert sender.connection.in_messages == 8


def test_a_connection_goes_back_to_reads_of_the_loop_when_messages_are_small() -> None:
    sender = client(make_broker())
    sender.say(LARGE[:100_000])
    assert is_reading_bodies(sender)
    sender.say(LARGE[100_000:])
    assert is_reading_bodies(sender), "another large one may follow"
    sender.say(LARGE[:4096])
    assert is_reading_bodies(sender)
    sender.say(LARGE[4096:] + SMALL)
    assert not is_reading_bodies(sender)
    assert not sender.connection.reads_bodies


def test_a_small_rest_of_a_body_changes_nothing() -> None:
    sender = client(make_broker())
    sender.say(LARGE[:250_000])
    assert not is_reading_bodies(sender)
    sender.say(LARGE[250_000:])
    assert sender.connection.in_messages == 1


@pytest.mark.parametrize("end", [b"xx", b"\rx", b"x\n"])
def test_a_body_that_does_not_end_as_it_should_closes_the_connection(end: bytes) -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    in_pieces(sender, LARGE[:-2] + end, 100_000)
    assert sender.closed
    assert receiver.heard() == b""


def test_a_client_that_leaves_in_the_middle_of_a_body_is_forgotten() -> None:
    broker = make_broker()
    sender = client(broker)
    sender.say(LARGE[:100_000])
    sender.transport.peer_closes()
    loop_of(broker).run_ready()
    assert not broker.connections


def test_input_that_comes_while_a_connection_waits_for_its_turn_keeps_its_order() -> None:
    ticks = iter(range(10**9))
    broker = Broker(
        BrokerOptions(), server_id="N", loop=FakeLoop().as_loop(), clock=lambda: next(ticks) / 1000
    )
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    for piece in (LARGE[:100_000], LARGE[100_000:] + SMALL * 100 + LARGE, LARGE + SMALL):
        sender.transport.receive(piece)  # although it may be paused
    assert sender.heard() == b""
    assert receiver.heard() == LARGE_HEARD + SMALL_HEARD * 100 + LARGE_HEARD * 2 + SMALL_HEARD


def test_a_connection_that_is_read_many_times_in_one_round_of_the_loop_stops_after_its_turn() -> None:
    ticks = iter(range(10**9))
    broker = Broker(
        BrokerOptions(), server_id="N", loop=FakeLoop().as_loop(), clock=lambda: next(ticks) / 1000
    )
    sender = client(broker)
    read = 0
    while not sender.connection.waiting and read < 100:
        sender.transport.receive(LARGE)
        read += 1
    assert read < 20
    loop_of(broker).run_ready()
    assert not sender.connection.waiting
    assert sender.connection.in_messages == read


@pytest.mark.parametrize("kind", ["the fastest loop", "the loop of the standard library"])
def test_event_loops_read_into_the_parser(kind: str) -> None:
    if kind == "the fastest loop":
        uvloop = pytest.importorskip("uvloop")
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(exchange(loop), 30))
    finally:
        loop.close()


async def exchange(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.Event()

    class Leaving(Observer):
        def client_disconnected(self, connection: Connection, reason: CloseReason) -> None:
            left.set()

    broker = Broker(BrokerOptions(), server_id="N", loop=loop, observer=Leaving(), clock=loop.time)
    connect: Any = broker.new_connection
    server = await loop.create_server(connect, "127.0.0.1", 0)
    address: tuple[str, int] = server.sockets[0].getsockname()[:2]
    with socket.create_connection(address) as peer:
        peer.setblocking(False)
        heard = b""
        await loop.sock_sendall(peer, b'CONNECT {"verbose":false}\r\nSUB foo 1\r\n' + LARGE + SMALL)
        await loop.sock_sendall(peer, (LARGE * 3 + SMALL) * 5 + b"PING\r\n")
        while not heard.endswith(b"PONG\r\n"):
            heard += await loop.sock_recv(peer, 1 << 20)
    expected = LARGE_HEARD + SMALL_HEARD + (LARGE_HEARD * 3 + SMALL_HEARD) * 5 + b"PONG\r\n"
    assert heard.partition(b"\r\n")[2] == expected
    server.close()
    await left.wait()
    await server.wait_closed()
