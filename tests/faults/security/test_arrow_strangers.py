"""The Arrow endpoint beside silent, slow and half connections: whoever may read is served."""

import asyncio
import base64
import contextlib
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import bcrypt
import nats
import pyarrow as pa
import pytest

from millstream import Server
from millstream.config.load import load
from millstream.server.arrow import clients, conversation, places
from millstream.server.arrow.clients import Clients
from tests.kits.patience import PATIENCE_S

SILENT = 600
MOST_THREADS = 4


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Yield a server for four readers at a time, with two users and a stream of 40 MB."""
    hashed = bcrypt.hashpw(b"b", bcrypt.gensalt(4)).decode()
    config = tmp_path / "server.conf"
    config.write_text(
        f"""listen: "127.0.0.1:-1", jetstream {{ store_dir: "{tmp_path}/store" }}
        authorization {{ users: [{{user: ann, password: a}}, {{user: bob, password: "{hashed}"}}] }}
        millstream {{ arrow {{ max_clients: {MOST_THREADS} }} }}"""
    )
    async with Server(options=load(config)) as server:
        client = await nats.connect(server.client_url, user="ann", password="a")
        streams = client.jetstream(timeout=PATIENCE_S)
        await streams.add_stream(name="S", subjects=["s"])
        for _ in range(400):
            await streams.publish("s", b"x" * 100_000)
        await client.close()
        yield server


def clients_of(server: Server) -> Clients:
    assert server._arrow is not None
    found = server._arrow._clients
    assert found is not None
    return found


def dial(server: Server) -> socket.socket:
    parts = urlsplit(server.arrow_url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=PATIENCE_S)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(server: Server, user: str = "ann", password: str = "a", buffer: int = 0) -> socket.socket:
    """Send a request for everything, and read nothing."""
    parts = urlsplit(server.arrow_url)
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(PATIENCE_S)
    sock.connect((str(parts.hostname), int(parts.port or 0)))
    head = f"GET /arrow/v1/streams/S HTTP/1.1\r\nHost: x\r\nAuthorization: {basic(user, password)}\r\n\r\n"
    sock.sendall(head.encode())
    return sock


async def rows(server: Server, user: str = "bob", password: str = "b") -> int:
    def read() -> int:
        headers = {"Authorization": basic(user, password)}
        url = f"{server.arrow_url}/arrow/v1/streams/S?to=3"
        with urlopen(Request(url, headers=headers), timeout=PATIENCE_S) as response:
            count: int = pa.ipc.open_stream(response).read_all().num_rows
            return count

    return await asyncio.wait_for(asyncio.to_thread(read), PATIENCE_S)


async def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < deadline, "it did not come to that"
        await asyncio.sleep(0.01)


@contextlib.contextmanager
def all_closed(socks: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    finally:
        for sock in socks:
            sock.close()


@pytest.mark.parametrize(
    "beginning",
    [b"", b"GET /arrow/v1/streams/S HT", b"GET / HTTP/1.1\r\nA: " + b"x" * 60_000],
    ids=["silent", "half", "long"],
)
async def test_strangers_hold_no_thread_and_keep_nobody_out(
    server: Server, beginning: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack, caplog.at_level(logging.WARNING):
        for _ in range(SILENT):
            sock = await asyncio.to_thread(dial, server)
            stack.enter_context(sock)
            await asyncio.to_thread(sock.sendall, beginning)
        await until(lambda: len(clients_of(server)._strangers) == clients._MOST_STRANGERS)
        assert await rows(server) == 3
        assert await rows(server, "ann", "a") == 3
        await until(lambda: not clients_of(server)._conversations)
        assert threading.active_count() <= before + 8  # those of this test and of the loop's executor
    assert caplog.text.count("connections without a request") >= 1
    assert len(caplog.records) < 20
    await until(lambda: not clients_of(server)._strangers)


async def test_a_user_that_reads_slowly_leaves_room_for_others(server: Server) -> None:
    slow = [await asyncio.to_thread(ask, server, buffer=4096) for _ in range(3 * MOST_THREADS)]
    with all_closed(slow):
        await until(lambda: len(clients_of(server)._conversations) == MOST_THREADS - 1)
        for _ in range(5):
            assert await rows(server, "bob", "b") == 3
        assert len(clients_of(server)._conversations) >= MOST_THREADS - 1


async def test_who_takes_a_byte_now_and_then_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes long before `WRITE_S`, but all of them are below the least rate."""
    monkeypatch.setattr(conversation, "WRITE_S", 0.5)
    monkeypatch.setattr(conversation, "MIN_RATE", 4 * 1024 * 1024)
    slow = await asyncio.to_thread(ask, server, buffer=4096)
    with all_closed([slow]):
        await until(lambda: bool(clients_of(server)._conversations))
        slow.setblocking(False)
        while clients_of(server)._conversations:
            with contextlib.suppress(OSError):
                slow.recv(1024)
            await asyncio.sleep(0.05)


async def test_too_many_that_wait_are_told_to_come_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAIT_S", 0.2)
    slow = [await asyncio.to_thread(ask, server, buffer=4096) for _ in range(MOST_THREADS)]
    with all_closed(slow):
        await until(lambda: len(clients_of(server)._conversations) == MOST_THREADS - 1)
        late = await asyncio.to_thread(ask, server)
        with all_closed([late]):
            answer = await asyncio.to_thread(late.recv, 65536)
        assert answer.startswith(b"HTTP/1.1 503 ")


async def test_places_are_given_back_whatever_becomes_of_a_reader(server: Server) -> None:
    for _ in range(3):
        slow = [await asyncio.to_thread(ask, server, buffer=4096) for _ in range(2 * MOST_THREADS)]
        await until(lambda: len(clients_of(server)._conversations) == MOST_THREADS - 1)
        for sock in slow:
            sock.close()
        await until(lambda: not clients_of(server)._conversations and not clients_of(server)._known)
        assert clients_of(server)._places.taken == 0
    assert await rows(server) == 3


async def test_wrong_passwords_hold_no_thread(server: Server) -> None:
    guesses = [await asyncio.to_thread(ask, server, "bob", "wrong") for _ in range(100)]
    with all_closed(guesses):
        assert await rows(server, "bob", "b") == 3
        await until(lambda: not clients_of(server)._conversations)


async def test_the_end_of_the_server_does_not_wait_for_strangers(server: Server) -> None:
    socks = [await asyncio.to_thread(dial, server) for _ in range(50)]
    socks += [await asyncio.to_thread(ask, server, buffer=4096) for _ in range(2 * MOST_THREADS)]
    with all_closed(socks):
        await until(lambda: len(clients_of(server)._conversations) == MOST_THREADS - 1)
        await asyncio.wait_for(server.stop(), PATIENCE_S)
