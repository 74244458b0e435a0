"""Helpers of the tests of /v2: a running gateway with a client, and readers of its streams."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from millstream.base.ids import nuid
from millstream.gateway.server import GatewayServer
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess


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

    async def consumer_has(self, consumer: str, field: str, least: int) -> None:
        """Wait until a number in a consumer's info is at least so high."""

        async def enough() -> bool:
            return bool((await self.http.get(consumer)).json()[field] >= least)

        await eventually(enough)

    async def publish_in_the_end(self, body: bytes) -> None:
        """Publish while NATS may still be coming back."""

        async def done() -> bool:
            answer = await self.http.post(f"/v2/subjects/{self.subject}.a", content=body)
            assert answer.status_code in (200, 404, 503, 504), answer.text
            return answer.status_code == 200

        await eventually(done)

    async def fetch(self, consumer: str, **wanted: Any) -> list[dict[str, Any]]:
        answer = await self.http.post(f"{consumer}/fetch", json=wanted)
        assert answer.status_code == 200, answer.text
        messages: list[dict[str, Any]] = answer.json()["messages"]
        return messages

    @asynccontextmanager
    async def lines(self, path: str) -> AsyncIterator["Lines"]:
        """Read a live resource as NDJSON."""
        async with self.http.stream("GET", path, headers={"Accept": "application/x-ndjson"}) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield Lines(answer)


class Lines:
    """The lines of an answer, one by one."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> dict[str, Any]:
        """The next line; StopAsyncIteration at the end."""
        line: dict[str, Any] = json.loads(await self.text())
        return line

    async def text(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await anext(self._lines)

    async def take(self, count: int) -> list[dict[str, Any]]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[str]:
        async with asyncio.timeout(PATIENCE_S):
            return [line async for line in self._lines]


class GatewayProcess:
    """`millstream gateway` as a process, which can be killed."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()


@asynccontextmanager
async def gateway_process(nats_url: str) -> AsyncIterator[GatewayProcess]:
    """One that has its connection to NATS."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "millstream", "gateway", "--host", "127.0.0.1", "--port", "0"),
        *("--server", nats_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        line = (await process.stdout.readline()).decode()
    listens = re.search(r"listens on \S+:(\d+)", line)
    assert listens, line
    made = GatewayProcess(process, int(listens[1]))
    try:
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:

            async def is_ready() -> bool:
                return (await http.get(f"{made.url}/v1/data/ready")).status_code == 200

            await eventually(is_ready)
        yield made
    finally:
        await made.kill()


async def eventually(question: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the answer is yes."""
    async with asyncio.timeout(PATIENCE_S):
        while not await question():  # noqa: ASYNC110 - what another process does has no event here
            await asyncio.sleep(0.02)


async def is_up(server: GatewayServer) -> None:
    """Wait until the gateway has its connection to NATS."""
    link = server.core.links.own
    changed = asyncio.Event()
    link.listen(changed.set)
    async with asyncio.timeout(PATIENCE_S):
        while not link.is_up:
            changed.clear()
            await changed.wait()
    link.unlisten(changed.set)
