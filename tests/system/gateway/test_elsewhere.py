"""The gateway is an ASGI application: it runs on a server that is not ours."""

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio
import uvicorn
import websockets

from millstream.base.ids import nuid
from millstream.gateway.app import build_app
from tests.kits.gateway.v1 import PATIENCE_S, eventually, settings_for
from tests.kits.reference import ServerProcess


@pytest_asyncio.fixture
async def elsewhere(js_server: ServerProcess) -> AsyncIterator[str]:
    """The address of a gateway on uvicorn."""
    sock = socket.create_server(("127.0.0.1", 0))
    app = build_app(settings_for(js_server.client_url), listens_on="127.0.0.1")
    config = uvicorn.Config(app, log_config=None, lifespan="on", ws="wsproto")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.ensure_future(server.serve([sock]))
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:

        async def is_ready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return (await client.get("/v1/data/ready")).status_code == 200
            return False

        await eventually(is_ready, "the gateway did not become ready")
    yield url
    server.should_exit = True
    await serving
    sock.close()


async def test_everything_works_on_another_server(elsewhere: str) -> None:
    name = f"S{nuid()}"
    async with httpx.AsyncClient(base_url=elsewhere, timeout=PATIENCE_S) as client:
        made = await client.post("/v2/streams", json={"name": name, "subjects": [f"{name}.>"]})
        assert made.status_code == 201, made.text
        try:
            assert (await client.post(f"/v2/subjects/{name}.a", content=b"one")).json()["seq"] == 1
            told = await client.post(f"/v1/data/subject/{name}.a", content=base64.b64encode(b"two"))
            assert told.json()["seq"] == 2
            async with client.stream("GET", f"/v2/streams/{name}/live") as answer:
                lines = answer.aiter_lines()
                assert [json.loads(await anext(lines))["data"] for _ in range(2)] == ["one", "two"]

            async def nobody_reads() -> bool:
                state = (await client.get(f"/v2/streams/{name}")).json()["state"]
                return not state["consumer_count"]

            await eventually(nobody_reads, "a reader that left is kept")
            pull = {"durable_name": "p", "ack_policy": "explicit"}
            assert (await client.post(f"/v2/streams/{name}/consumers", json=pull)).status_code == 201
            url = elsewhere.replace("http", "ws") + f"/v2/streams/{name}/consumers/p/socket"
            async with websockets.connect(url) as read:
                assert json.loads(await read.recv())["data"] == "one"
            assert (await client.get("/nothing")).status_code == 404
        finally:
            await client.delete(f"/v2/streams/{name}")
