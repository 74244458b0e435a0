"""Servers with JetStream, and connections to them that use a name for each stream once."""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from compat_kit import ServerFactory, library
from snapshot_kit import Site

from millstream.testing.reference import ServerKind, ServerProcess

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Of a stream that nobody has used; its subjects are `<name>.>`."""
    return f"SNAP{next(_numbers)}"


@pytest_asyncio.fixture
async def site(shared_server: ServerFactory) -> AsyncIterator[Site]:
    client = await library(shared_server(jetstream=True).client_url)
    yield Site(client)
    await client.close()


@pytest.fixture(scope="session")
def both_servers() -> Iterator[dict[ServerKind, ServerProcess]]:
    """One of each kind, whatever kind is asked for."""
    servers = {kind: ServerProcess(kind, jetstream=True) for kind in ServerKind}
    for server in servers.values():
        server.start()
    yield servers
    for server in servers.values():
        server.close()


@pytest_asyncio.fixture
async def sites(both_servers: dict[ServerKind, ServerProcess]) -> AsyncIterator[dict[ServerKind, Site]]:
    clients = {kind: await library(server.client_url) for kind, server in both_servers.items()}
    yield {kind: Site(client) for kind, client in clients.items()}
    for client in clients.values():
        await client.close()
