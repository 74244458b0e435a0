"""A gateway for each test, in its own event loop, in front of a server that tests share."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from gateway_v2_kit import PATIENCE_S, Gateway, is_up

from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Limits, Listener, Nats, Settings
from millstream.testing.reference import ServerProcess

GatewayFactory = Callable[..., Any]
# Longer than a test waits: what is answered was not answered because the gateway gave up.
_LONG_S = 2 * PATIENCE_S
_PATIENT: Any = {"connect_timeout_s": 20.0, "request_timeout_s": _LONG_S, "publish_timeout_s": _LONG_S}


@pytest.fixture
async def start_gateway() -> AsyncIterator[GatewayFactory]:
    """Start one in front of `nats`; further keyword arguments are those of `Limits`."""
    async with AsyncExitStack() as stack:

        async def start(
            nats: ServerProcess, prefix: str = "/", read_only: bool = False, **limits: Any
        ) -> Gateway:
            settings = Settings(
                nats=Nats.at(nats.client_url, reconnect_wait_s=0.1, **_PATIENT),
                listeners=(Listener(host="127.0.0.1", port=0, path_prefix=prefix),),
                limits=Limits(**{"stop_timeout_s": 2.0, **limits}),
                read_only=read_only,
            )
            server = await stack.enter_async_context(GatewayServer(settings))
            await is_up(server)
            host, port = server.addresses[0]
            http = httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE_S)
            await stack.enter_async_context(http)
            return Gateway(server, http, nats)

        yield start


@pytest.fixture
async def gateway(start_gateway: GatewayFactory, shared_server: Callable[..., ServerProcess]) -> Gateway:
    """In front of a server with JetStream that other tests use too."""
    made: Gateway = await start_gateway(shared_server(jetstream=True))
    return made
