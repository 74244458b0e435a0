"""A gateway for each test, in the test's own event loop, in front of a server of either kind that tests share."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from millrace.base.ids import nuid
from millrace.gateway.server import GatewayServer
from millrace.gateway.settings import Limits, Listener, Nats, Settings
from millrace.testing.reference import ServerProcess

PATIENCE_S = 60.0


class Gateway:
    """A running gateway, a client of it, and names that no other test uses."""

    def __init__(self, server: GatewayServer, http: httpx.AsyncClient, nats: ServerProcess) -> None:
        self.server = server
        self.http = http
        self.nats = nats
        host, port = server.addresses[0]
        self.address = (host, port)
        self.ws_url = f"ws://{host}:{port}"
        self.stream = f"S{nuid()}"
        self.subject = f"s{nuid()}"

    @property
    def path(self) -> str:
        return f"/v2/streams/{self.stream}"

    async def add_stream(self, **config: Any) -> None:
        config = {"name": self.stream, "subjects": [f"{self.subject}.>"], **config}
        answer = await self.http.post("/v2/streams", json=config)
        assert answer.status_code == 201, answer.text

    async def add_consumer(self, name: str = "c", **config: Any) -> str:
        """The path of a new consumer."""
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        answer = await self.http.post(f"{self.path}/consumers", json=config)
        assert answer.status_code == 201, answer.text
        return f"{self.path}/consumers/{name}"

    async def publish(self, *bodies: bytes | str, token: str = "a") -> None:
        for body in bodies:
            answer = await self.http.post(f"/v2/subjects/{self.subject}.{token}", content=body)
            assert answer.status_code == 200, answer.text

    async def fetch(self, consumer: str, **wanted: Any) -> list[dict[str, Any]]:
        answer = await self.http.post(f"{consumer}/fetch", json=wanted)
        assert answer.status_code == 200, answer.text
        messages: list[dict[str, Any]] = answer.json()["messages"]
        return messages


GatewayFactory = Callable[..., Any]


@pytest.fixture
async def start_gateway() -> AsyncIterator[GatewayFactory]:
    """Start one in front of `nats`; keyword arguments are those of `Limits`."""
    async with AsyncExitStack() as stack:

        async def start(nats: ServerProcess, **limits: Any) -> Gateway:
            settings = Settings(
                nats=Nats(servers=(nats.client_url,), reconnect_wait_s=0.1),
                listeners=(Listener(host="127.0.0.1", port=0),),
                limits=Limits(**{"stop_timeout_s": 2.0, **limits}),
            )
            server = await stack.enter_async_context(GatewayServer(settings))
            await is_up(server)
            host, port = server.addresses[0]
            http = httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE_S)
            await stack.enter_async_context(http)
            return Gateway(server, http, nats)

        yield start


async def is_up(server: GatewayServer) -> None:
    """Back when the gateway has its connection to NATS."""
    link = server.core.links.own
    changed = asyncio.Event()
    link.listen(changed.set)
    async with asyncio.timeout(PATIENCE_S):
        while not link.is_up:
            changed.clear()
            await changed.wait()
    link.unlisten(changed.set)


@pytest.fixture
async def gateway(start_gateway: GatewayFactory, shared_server: Callable[..., ServerProcess]) -> Gateway:
    """In front of a server with JetStream that other tests use too."""
    made: Gateway = await start_gateway(shared_server(jetstream=True))
    return made
