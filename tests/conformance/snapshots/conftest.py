"""Servers with JetStream, and connections to them that use a name for each stream once."""

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.kits.conformance.clients import ServerFactory, library
from tests.kits.conformance.snapshots import Site
from tests.kits.reference import ServerKind, ServerProcess

Servers = dict[ServerKind, ServerProcess]

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Return the name of a stream that does not exist yet; its subjects are `<name>.>`."""
    return f"SNAP{next(_numbers)}"


@pytest_asyncio.fixture
async def site(shared_server: ServerFactory) -> AsyncIterator[Site]:
    client = await library(shared_server(jetstream=True).client_url)
    yield Site(client)
    await client.close()


@pytest_asyncio.fixture
async def here(origins: Servers, origin: ServerKind) -> AsyncIterator[Site]:
    """Yield the site where a test takes snapshots: a server of the kind in its parameter `origin`."""
    client = await library(origins[origin].client_url)
    yield Site(client)
    await client.close()


@pytest_asyncio.fixture
async def there(targets: Servers, target: ServerKind) -> AsyncIterator[Site]:
    """Yield the site where a test restores: another server, of the kind in its parameter `target`."""
    client = await library(targets[target].client_url)
    yield Site(client)
    await client.close()
