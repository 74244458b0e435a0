"""A stream to read on either kind of server, and clients that come back quickly."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from millstream.client import Client
from millstream.testing.garbage import garbage_collected
from millstream.testing.reference import ServerProcess
from tests.kits.client import KINDS, Connect, Lab, close_quickly, connect_quickly


@pytest.fixture(autouse=True)
def _library_may_stumble(stray_loop_exceptions: list[str]) -> Iterator[None]:
    """Forgive nats-py an error at the end of an attempt to reconnect that another one has overtaken."""
    with garbage_collected():
        yield
    stray_loop_exceptions[:] = [
        text
        for text in stray_loop_exceptions
        if not ("Client._attempt_reconnect" in text and "InvalidStateError" in text)
    ]


@pytest.fixture
def js_server(shared_server: Callable[..., ServerProcess]) -> ServerProcess:
    """Shared: leave nothing behind, and do not stop it."""
    return shared_server(jetstream=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """What the ordered consumer runs on: a link of ours, or a connection of nats-py."""
    return str(request.param)


@pytest_asyncio.fixture
async def connect(kind: str) -> AsyncIterator[Connect]:
    """`connect(port or urls)` gives a client that is closed when the test ends."""
    opened: list[Client] = []

    async def open_one(server: int | list[str], **options: Any) -> Client:
        client = await connect_quickly(kind, server, **options)
        opened.append(client)
        return client

    yield open_one
    for client in opened:
        await close_quickly(client)
    await _end_lost_attempts()


async def _end_lost_attempts() -> None:
    """nats-py can lose sight of an attempt to reconnect, which then goes on and survives a cancel."""
    for _ in range(200):
        lost = [
            task
            for task in asyncio.all_tasks()
            if getattr(task.get_coro(), "__qualname__", "") == "Client._attempt_reconnect"
        ]
        if not lost:
            return
        for task in lost:
            task.cancel()
        await asyncio.wait(lost, timeout=0.05)


@pytest_asyncio.fixture
async def lab(js_server: ServerProcess, connect: Connect) -> AsyncIterator[Lab]:
    """A fresh stream on the shared server."""
    lab = Lab(js_server, await connect(js_server.port))
    await lab.create()
    yield lab
    await lab.remove()


@pytest_asyncio.fixture
async def own_lab(own_server: Callable[..., ServerProcess], connect: Connect) -> Lab:
    """A fresh stream on a server that is this test's to kill."""
    server = own_server(jetstream=True, config="jetstream: {sync_interval: always}")
    lab = Lab(server, await connect(server.port))
    await lab.create()
    return lab
