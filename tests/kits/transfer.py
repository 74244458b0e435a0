"""Streams with everything that can be lost on a move, and the commands run as a user would."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeout

from millstream.link.link import Link
from millstream.link.options import LinkOptions, parse_servers
from millstream.transfer.api import JetStreamApi
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

HOUR = 3600 * 10**9


class Site:
    """One server: a client of it, and the API as the commands use it."""

    def __init__(self, client: Client, link: Link) -> None:
        self.client = client
        self.api = JetStreamApi(link)

    async def create(self, name: str, **config: Any) -> dict[str, Any]:
        return await self.api.ask(
            f"STREAM.CREATE.{name}", {"name": name, "num_replicas": 1, "storage": "file", **config}
        )

    async def publish(
        self, subject: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        answer = await self.client.request(subject, body, timeout=PATIENCE_S, headers=headers)
        found: dict[str, Any] = json.loads(answer.data)
        assert "error" not in found, found
        return found

    async def add_consumer(self, stream: str, name: str, **config: Any) -> dict[str, Any]:
        return await self.api.create_consumer(
            stream, {"durable_name": name, "name": name, "ack_policy": "explicit", **config}
        )

    async def pull(self, stream: str, consumer: str, batch: int, patience_s: float = PATIENCE_S) -> list[Msg]:
        """Pull the messages that are there now; nats-server sends nothing for a paused consumer."""
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        body = json.dumps({"batch": batch, "no_wait": True}).encode()
        await self.client.publish(self.api.next_subject(stream, consumer), body, reply=inbox)
        found: list[Msg] = []
        while len(found) < batch:
            try:
                message = await subscription.next_msg(timeout=patience_s)
            except NatsTimeout:
                assert patience_s < PATIENCE_S, f"{consumer} says nothing"
                break
            if (message.headers or {}).get("Status"):
                break
            found.append(message)
        await subscription.unsubscribe()
        return found

    async def fill(self, name: str, count: int = 20, **config: Any) -> None:
        """Messages with and without headers, gaps, and consumers in every state."""
        await self.create(name, subjects=[f"{name}.>"], **config)
        await self.add_consumer(name, "fresh")
        for number in range(1, count + 1):
            headers = {"Nats-Msg-Id": f"{name}-{number}", "Trace": "ü" * (number % 3)} if number % 2 else None
            await self.publish(f"{name}.{number % 4}", f"body {number}".encode() * (number % 7), headers)
        for seq in (2, 3, count - 1):
            await self.api.delete_message(name, seq)
        await self.add_consumer(name, "some", ack_wait=HOUR)
        for number, message in enumerate(await self.pull(name, "some", 8)):
            if number in (0, 1, 3, 5):
                await message.ack_sync(timeout=PATIENCE_S)
        await self.add_consumer(name, "filtered", filter_subject=f"{name}.1", ack_policy="all")
        await self.add_consumer(name, "done", ack_wait=HOUR)
        for message in await self.pull(name, "done", count):
            await message.ack_sync(timeout=PATIENCE_S)

    async def messages(self, name: str) -> list[dict[str, Any]]:
        """Every message as the server stores it."""
        last = (await self.api.stream(name))["state"]["last_seq"]
        found = await asyncio.gather(*(self.api.get_message(name, seq) for seq in range(1, last + 1)))
        return [each for each in found if each is not None]

    async def places(self, name: str) -> dict[str, Any]:
        """Return the position of each consumer."""
        return {
            info["name"]: {
                "config": {
                    key: value
                    for key, value in info["config"].items()
                    if key not in ("metadata", "num_replicas")
                },
                "delivered": info["delivered"]["stream_seq"],
                "ack_floor": info["ack_floor"]["stream_seq"],
                "num_ack_pending": info["num_ack_pending"],
                "num_pending": info["num_pending"],
            }
            for info in await self.api.consumers(name)
        }


@asynccontextmanager
async def site_of(url: str) -> AsyncIterator[Site]:
    client = await nats.connect(url, max_reconnect_attempts=20, reconnect_time_wait=0.2)
    options = LinkOptions(servers=parse_servers(url), request_timeout_s=PATIENCE_S)
    try:
        async with Link(options) as link:
            yield Site(client, link)
    finally:
        await client.close()


async def eventually(check: Callable[[], bool]) -> None:
    """Wait until it is so."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if check():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never was so")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "millstream", *map(str, arguments)]


def run_millstream(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, without a terminal."""
    assert ServerProcess.nursery is not None
    return ServerProcess.nursery.run([*map(str, arguments)], environment, PATIENCE_S)


async def run_aside(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `millstream` in a thread, while the test goes on."""
    return await asyncio.to_thread(run_millstream, *arguments, **environment)
