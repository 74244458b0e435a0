"""Shared by the tests of the gateway: one that runs here, one that is a process, and ways to call them."""

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from millstream.base.ids import nuid
from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Group, Listener, Nats, Settings
from tests.kits.patience import PATIENCE_S

_LONG_S: Final = 2 * PATIENCE_S  # so what is answered was not answered because the gateway gave up
_LISTENS: Final = re.compile(r"listens on https?://\S+:(\d+)")


def settings_for(*urls: str, groups: frozenset[Group] = frozenset(Group), **more: Any) -> Settings:
    """A gateway on a port of its own, that finds NATS again quickly."""
    patient = {"connect_timeout_s": 20.0, "request_timeout_s": _LONG_S, "publish_timeout_s": _LONG_S}
    nats = Nats.at(*urls, **{**patient, "reconnect_wait_s": 0.05, **more.pop("nats", {})})
    listener = Listener(host="127.0.0.1", port=0, groups=groups)
    return Settings(nats=nats, listeners=(listener,), **more)


class Gateway:
    """A gateway in this process, and a client of it."""

    def __init__(self, server: GatewayServer, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client

    @property
    def port(self) -> int:
        return self.server.addresses[0][1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def call(
        self, method: str, path: str, body: object = None, **options: Any
    ) -> tuple[int, dict[str, Any]]:
        """The status and the envelope; `body` goes out as JSON unless it is text or bytes."""
        content = body if isinstance(body, bytes | str) or body is None else json.dumps(body)
        answer = await self.client.request(method, path, content=content, **options)
        assert answer.headers["content-type"] == "application/json"
        told = answer.json()
        assert told["request_id"] == answer.headers["httpmq-request-id"]
        assert ("error" in told) == (not told["success"])
        return answer.status_code, told

    async def good(self, method: str, path: str, body: object = None, **options: Any) -> dict[str, Any]:
        status, told = await self.call(method, path, body, **options)
        assert (status, told["success"]) == (200, True), told
        return told

    async def refused(self, method: str, path: str, body: object = None) -> tuple[int, int, str]:
        """The status, the code and the message."""
        status, told = await self.call(method, path, body)
        assert not told["success"], told
        return status, told["error"]["code"], told["error"].get("message", "")

    async def publish(self, subject: str, text: str) -> int:
        """Publish a message and return its sequence."""
        told = await self.good("POST", f"/v1/data/subject/{subject}", base64.b64encode(text.encode()))
        return int(told["seq"])

    @contextlib.asynccontextmanager
    async def subscribed(self, stream: str, consumer: str, **query: Any) -> AsyncIterator["Lines"]:
        path = f"/v1/data/stream/{stream}/consumer/{consumer}"
        give_up = time.monotonic() + PATIENCE_S
        while True:
            async with self.client.stream("GET", path, params=query) as answer:
                if answer.status_code == 200:
                    yield Lines(answer)
                    return
                refusal = (await answer.aread()).decode()
            # A broker that stalls may take the reader before us for alive for longer than the gateway waits.
            assert "already bound" in refusal, refusal
            assert time.monotonic() < give_up, refusal


class Lines:
    """The lines of a subscription."""

    def __init__(self, answer: httpx.Response) -> None:
        self.headers = answer.headers
        self._lines = answer.aiter_lines()

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            return dict(json.loads(await anext(self._lines)))

    async def text(self) -> str:
        """The payload of the next message."""
        return payload_of(await self.next())

    async def ended(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            return await anext(self._lines, None) is None

    async def silent_for(self, seconds: float) -> bool:
        """Return whether no line comes; useful where a message would have come already."""
        waiting = asyncio.ensure_future(anext(self._lines))
        await asyncio.wait([waiting], timeout=seconds)
        if waiting.done():
            return False
        waiting.cancel()
        await asyncio.wait([waiting])
        return True


class Lab:
    """A stream with subjects `<name>.a` and `<name>.b` behind a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.stream = f"S{nuid()}"

    def subject(self, token: str = "a") -> str:
        return f"{self.stream}.{token}"

    async def create(self, **limits: Any) -> None:
        body = {"name": self.stream, "subjects": [self.subject("a"), self.subject("b")], **limits}
        await self.gateway.good("POST", "/v1/admin/stream", body)

    async def consumer(self, name: str = "c", token: str = "a", **fields: Any) -> str:
        body = {
            "name": name,
            "mode": "push",
            "max_inflight": 1,
            "filter_subject": self.subject(token),
            **fields,
        }
        await self.gateway.good("POST", f"/v1/admin/stream/{self.stream}/consumer", body)
        return name

    async def publish(self, text: str, token: str = "a") -> int:
        return await self.gateway.publish(self.subject(token), text)

    def subscribed(
        self, consumer: str = "c", token: str = "a", **query: Any
    ) -> "contextlib.AbstractAsyncContextManager[Lines]":
        return self.gateway.subscribed(self.stream, consumer, subject_name=self.subject(token), **query)

    async def ack(self, line: dict[str, Any], gateway: Gateway | None = None) -> dict[str, Any]:
        path = f"/v1/data/stream/{self.stream}/consumer/{line['consumer']}/ack"
        return await (gateway or self.gateway).good("POST", path, line["sequence"])

    async def info(self, consumer: str = "c") -> dict[str, Any]:
        told = await self.gateway.good("GET", f"/v1/admin/stream/{self.stream}/consumer/{consumer}")
        return dict(told["consumer"])

    async def remove(self) -> None:
        await self.gateway.call("DELETE", f"/v1/admin/stream/{self.stream}")


def payload_of(line: dict[str, Any]) -> str:
    assert line["success"], line
    return base64.b64decode(line["b64_msg"]).decode()


MakeGateway = Callable[..., Awaitable[Gateway]]


@contextlib.asynccontextmanager
async def running_gateway(settings: Settings, *, wait: bool = True) -> AsyncIterator[Gateway]:
    """A gateway that is ready, unless nobody waits for that."""
    async with GatewayServer(settings) as server:
        url = f"http://127.0.0.1:{server.addresses[0][1]}"
        async with httpx.AsyncClient(
            base_url=url, timeout=PATIENCE_S, limits=httpx.Limits(max_connections=None)
        ) as client:
            gateway = Gateway(server, client)
            if wait:
                await eventually(lambda: is_ready(gateway), "the gateway did not become ready")
            yield gateway


async def is_ready(gateway: Gateway) -> bool:
    group = "data" if Group.DATAPLANE in gateway.server.core.settings.groups else "admin"
    return (await gateway.client.get(f"/v1/{group}/ready")).status_code == 200


async def eventually(check: Callable[[], Awaitable[bool]], complaint: str) -> None:
    """Ask until it is so: for what happens on the other side and is told to nobody."""
    deadline = time.monotonic() + PATIENCE_S
    while not await check():
        assert time.monotonic() < deadline, complaint
        await asyncio.sleep(0.02)


class GatewayProcess:
    """`millstream gateway` as a process, on a port it picks."""

    def __init__(
        self, *arguments: str, environment: dict[str, str] | None = None, port: int | None = 0
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        where = [] if port is None else ["--host", "127.0.0.1", "--port", str(port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "millstream", "gateway", *where, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return os.pread(self._log.fileno(), 1 << 24, 0).decode()

    @property
    def ports(self) -> list[int]:
        return [int(port) for port in _LISTENS.findall(self.log)]

    async def started(self) -> "GatewayProcess":
        async def listens() -> bool:
            assert self._process.poll() is None, self.log
            return bool(self.ports)

        await eventually(listens, "the gateway did not start")
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        return await asyncio.to_thread(self._process.wait, PATIENCE_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()


async def curl(*arguments: str, check: bool = True) -> str:
    """Return the output of curl."""
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        told, complaint = await process.communicate()
    assert not check or process.returncode == 0, complaint.decode()
    return told.decode()


class CurlStream:
    """A curl that stays; its lines as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            return dict(json.loads(await self._process.stdout.readline()))

    async def rest(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self._process.stdout.read()).decode()


@contextlib.asynccontextmanager
async def curl_stream(*arguments: str) -> AsyncIterator[CurlStream]:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "-N", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield CurlStream(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def with_limits(settings: Settings, **limits: Any) -> Settings:
    changed = msgspec.structs.replace(settings.limits, **limits)
    return msgspec.structs.replace(settings, limits=changed)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
