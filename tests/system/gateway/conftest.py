"""A gateway in front of either kind of server, and a stream behind it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from millstream.gateway.settings import Settings
from millstream.testing.garbage import garbage_collected
from millstream.testing.reference import ServerKind, ServerProcess
from tests.kits.gateway.v1 import Gateway, Lab, MakeGateway, running_gateway, settings_for


@pytest.fixture(autouse=True)
def _nothing_is_left_to_the_loop(stray_loop_exceptions: list[str]) -> Iterator[None]:
    """Errors of forgotten tasks are told in the test they belong to."""
    with garbage_collected():
        yield


@pytest.fixture
def js_server(shared_server: Callable[..., ServerProcess]) -> ServerProcess:
    """Shared: leave nothing behind, and do not stop it."""
    return shared_server(jetstream=True)


@pytest_asyncio.fixture
async def start_gateway() -> AsyncIterator[MakeGateway]:
    """`start_gateway(settings)` or `start_gateway(url, …)` gives a gateway that is stopped in the end."""
    async with AsyncExitStack() as stack:

        async def start(first: Settings | str, *, wait: bool = True, **more: Any) -> Gateway:
            settings = first if isinstance(first, Settings) else settings_for(first, **more)
            return await stack.enter_async_context(running_gateway(settings, wait=wait))

        yield start


@pytest_asyncio.fixture
async def gateway(js_server: ServerProcess, start_gateway: MakeGateway) -> Gateway:
    return await start_gateway(js_server.client_url)


@pytest_asyncio.fixture
async def plain_gateway(_server_pool: Any, start_gateway: MakeGateway) -> Gateway:
    """In front of one kind only: for what the gateway decides by itself."""
    server: ServerProcess = _server_pool.get(ServerKind.MILLSTREAM, jetstream=True)
    return await start_gateway(server.client_url)


@pytest_asyncio.fixture
async def lab(gateway: Gateway) -> AsyncIterator[Lab]:
    """A fresh stream on the shared server."""
    lab = Lab(gateway)
    await lab.create()
    yield lab
    await lab.remove()
