"""A stream to read on either kind of server, and clients that come back quickly."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from client_kit import MILLRACE_SERVES_CONSUMERS, Connect, Lab, connect_quickly

from millrace.client import Client
from millrace.testing.reference import ServerKind, ServerProcess


@pytest.fixture(autouse=True)
def _servers_with_consumers(request: pytest.FixtureRequest) -> None:
    if "server_kind" not in request.fixturenames or MILLRACE_SERVES_CONSUMERS:
        return
    if request.getfixturevalue("server_kind") is ServerKind.MILLRACE:
        pytest.skip("Millrace has no consumers yet")


@pytest.fixture
def js_server(shared_server: Callable[..., ServerProcess]) -> ServerProcess:
    """Shared: leave nothing behind, and do not stop it."""
    return shared_server(jetstream=True)


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Connect]:
    """`connect(port or urls)` gives a client that is closed when the test ends."""
    opened: list[Client] = []

    async def open_one(server: int | list[str], **options: Any) -> Client:
        client = await connect_quickly(server, **options)
        opened.append(client)
        return client

    yield open_one
    for client in opened:
        await client.close()


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
