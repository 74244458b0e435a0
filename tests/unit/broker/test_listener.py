"""Listening sockets: addresses, ports, and what is left when a listener is closed."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from millstream.base.reasons import CannotListen
from millstream.broker.broker import Broker
from millstream.broker.listener import ClientListener, bind
from millstream.broker.options import BrokerOptions, ConnectionType, WebSocketOptions


@pytest.fixture
async def broker() -> Broker:
    websocket = WebSocketOptions(host="127.0.0.1", port=-1, handshake_timeout_s=60.0)
    options = BrokerOptions(host="127.0.0.1", port=-1, websocket=websocket)
    return Broker(options, server_id="NSERVER", loop=asyncio.get_running_loop())


@pytest.fixture
async def listener(broker: Broker) -> AsyncIterator[ClientListener]:
    listening = ClientListener(broker, ConnectionType.STANDARD, None)
    await listening.start("127.0.0.1", -1)
    yield listening
    await listening.close()


@pytest.mark.parametrize("port", [-1, 0])
def test_the_system_picks_a_port(port: int) -> None:
    sockets = bind("127.0.0.1", port, "clients", "-p")
    ports = {sock.getsockname()[1] for sock in sockets}
    for sock in sockets:
        sock.close()
    assert len(ports) == 1
    assert ports.pop() > 0


def test_the_wildcard_address_is_one_socket() -> None:
    sockets = bind("0.0.0.0", -1, "clients", "-p")
    for sock in sockets:
        sock.close()
    assert len(sockets) == 1


def test_all_addresses_of_a_name_share_one_port() -> None:
    sockets = bind("localhost", -1, "clients", "-p")
    ports = {sock.getsockname()[1] for sock in sockets}
    for sock in sockets:
        sock.close()
    assert len(ports) == 1


def test_a_port_in_use_is_an_error_and_leaves_no_socket_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            bind("127.0.0.1", port, "clients", "-p")
    assert isinstance(caught.value, CannotListen)
    assert str(caught.value) == (
        f"cannot listen for clients on 127.0.0.1:{port}: Address already in use; stop the program that uses "
        "the port, or choose another one (-p)"
    )


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The next line; a slow machine lets the server ask first whether its client is still there."""
    while (line := await reader.readline()) == b"PING\r\n":
        pass
    return line


async def test_a_client_is_greeted(broker: Broker, listener: ClientListener) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    assert (await reader.readline()).startswith(b"INFO {")
    assert len(broker.connections) == 1
    writer.close()
    await writer.wait_closed()


async def test_a_closed_listener_refuses_new_clients_and_keeps_the_old(broker: Broker) -> None:
    listening = ClientListener(broker, ConnectionType.STANDARD, None)
    await listening.start("127.0.0.1", -1)
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    await reader.readline()
    await listening.close()
    with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the system likes
        await asyncio.open_connection("127.0.0.1", listening.port)
    writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
    assert await answer(reader) == b"PONG\r\n"
    writer.close()
    await writer.wait_closed()


async def test_a_closed_listener_gives_up_websockets_that_are_not_open_yet(broker: Broker) -> None:
    listening = ClientListener(broker, ConnectionType.WEBSOCKET, None)
    await listening.start("127.0.0.1", -1)
    upgrading_reader, upgrading = await asyncio.open_connection("127.0.0.1", listening.port)
    upgrading.write(b"GET / HTTP/1.1\r\n")
    open_reader, opened = await asyncio.open_connection("127.0.0.1", listening.port)
    opened.write(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"INFO {" in await open_reader.readuntil(b"INFO {")
    await listening.close()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await upgrading_reader.readexactly(1)
    assert len(broker.connections) == 1
    for writer in (upgrading, opened):
        writer.close()


async def test_a_client_may_send_before_it_has_read_the_greeting(
    broker: Broker, listener: ClientListener
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
    assert (await reader.readline()).startswith(b"INFO {")
    assert await answer(reader) == b"PONG\r\n"
    writer.close()
    await writer.wait_closed()


async def test_the_end_of_input_ends_the_connection(broker: Broker, listener: ClientListener) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"CONNECT {}\r\nSUB foo 1\r\n")
    writer.write_eof()
    await reader.read()
    assert broker.connections == {}
    assert broker.global_account.space.tree.count == 0
    writer.close()
    await writer.wait_closed()
