"""A busy life of a server and a gateway, and what is left of it: ``make soak-life MINUTES=60``.

    python -m tests.soak.life --minutes 20

Clients come and go, publish, read with push and pull consumers, and acknowledge; streams and consumers are
made and deleted, keys are put and deleted, readers do not read, the configuration is reloaded, and a gateway
serves requests.  Each part of the time is followed by silence.  In the first silence everything has been used
once; in the last, both processes must have the same numbers of descriptors, threads, tasks, connections,
subscriptions, streams and consumers as then, and not much more memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, KeyValueConfig, StreamConfig
from nats.js.errors import Error as JetStreamError

from tests.kits.gateway.v2 import GatewayProcess, gateway_process
from tests.kits.reference import ServerKind, ServerProcess

PARTS = 6  # of the time, each followed by silence
MOST_GROWTH = 0.10  # of memory, between the first silence and the last
SETTLES_S = 15.0  # time-outs of what clients left behind
KEPT = 5_000  # messages in the stream that everybody uses
TENANTS = 40  # names of streams that come and go
CONFIGS = ("debug: false\nmax_payload: 1MB\n", "debug: false\nmax_payload: 2MB\n")
_GONE = (NatsError, JetStreamError, OSError, TimeoutError, asyncio.TimeoutError, httpx.HTTPError)


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of a process while nobody uses it."""

    memory_kb: int
    descriptors: int
    threads: int
    tasks: int = 0
    connections: int = 0
    subscriptions: int = 0
    streams: int = 0
    consumers: int = 0


def sample_process(pid: int) -> Sample:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Sample(int(fields["VmRSS"].split()[0]), descriptors, int(fields["Threads"]))


class Life:
    """The load, what it did, and how long answers took."""

    def __init__(self, seed: int, server: ServerProcess, gateway: GatewayProcess) -> None:
        self.random = Random(seed)
        self.server = server
        self.gateway = gateway
        self.did: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.took_s: dict[str, list[float]] = defaultdict(list)
        self.until = 0.0

    # -- what clients do --------------------------------------------------------------------------

    async def publish(self, client: Client) -> None:
        body = self.random.randbytes(self.random.choice((10, 200, 2_000)))
        await client.jetstream().publish(f"kept.{self.random.randrange(50)}", body, timeout=10)

    async def pull(self, client: Client) -> None:
        name = f"c{self.random.randrange(4)}"
        reader = await client.jetstream().pull_subscribe("kept.>", name, stream="KEPT")
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            for message in await reader.fetch(20, timeout=1):
                await self.random.choice((message.ack, message.ack, message.nak, message.term))()
        await reader.unsubscribe()

    async def push(self, client: Client) -> None:
        """Read some messages with an ordered consumer, which the client makes and deletes."""
        reader = await client.jetstream().subscribe("kept.>", ordered_consumer=True)
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            for _ in range(50):
                await reader.next_msg(timeout=1)
        await reader.unsubscribe()

    async def tenant(self, client: Client) -> None:
        """Make a stream with consumers, use it, and delete it."""
        streams = client.jetstream(timeout=10)
        name = f"T{self.random.randrange(TENANTS)}"
        await streams.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
        for number in range(3):
            await streams.publish(f"{name}.{number}", b"x" * 100)
            await streams.add_consumer(
                name, ConsumerConfig(durable_name=f"d{number}", ack_policy=AckPolicy.EXPLICIT)
            )
        await streams.delete_consumer(name, "d1")
        await streams.purge_stream(name, subject=f"{name}.1")
        await streams.delete_stream(name)

    async def keys(self, client: Client) -> None:
        bucket = await client.jetstream(timeout=10).key_value("B")
        key = f"k{self.random.randrange(200)}"
        await bucket.put(key, self.random.randbytes(100))
        await bucket.get(key)
        if self.random.random() < 0.3:
            await bucket.delete(key)

    async def core(self, client: Client) -> None:
        """Ask another client, through a subscription that comes and goes."""
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, max_msgs=1)
        await client.publish(inbox, b"x")
        await subscription.next_msg(timeout=10)

    async def over_http(self, http: httpx.AsyncClient) -> None:
        url = self.gateway.url
        if self.random.random() < 0.5:
            await http.post(f"{url}/v2/subjects/kept.http", content=b"x" * 300)
        else:
            await http.get(f"{url}/v2/streams/KEPT/messages", params={"limit": 20})

    # -- who they are -----------------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    async def clients(self) -> None:
        """One connection after another, each for a while."""
        while self.goes_on:
            with contextlib.suppress(*_GONE):
                client = await nats.connect(self.server.client_url, allow_reconnect=False, error_cb=_ignore)
                leaves = time.monotonic() + self.random.uniform(0.1, 10)
                while self.goes_on and time.monotonic() < leaves:
                    act = self.random.choice(
                        (self.publish,) * 6 + (self.pull, self.push, self.core, self.keys)
                    )
                    await self._timed(act.__name__, act, client)
                await client.close()

    async def tenants(self) -> None:
        client = await nats.connect(self.server.client_url, error_cb=_ignore)
        while self.goes_on:
            await self._timed("tenant", self.tenant, client)
        await client.close()

    async def slow_readers(self) -> None:
        """Subscribe to everything, and read nothing until the server gives up, or for a while."""
        while self.goes_on:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            writer.write(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
            await asyncio.sleep(self.random.uniform(0.5, 4))
            writer.transport.abort()
            self.did["slow reader"] += 1
            del reader

    async def reloads(self) -> None:
        while self.goes_on:
            await asyncio.sleep(5)
            config = CONFIGS[self.did["reload"] % len(CONFIGS)]
            assert await asyncio.to_thread(self.server.reload, config)
            self.did["reload"] += 1

    async def browsers(self) -> None:
        while self.goes_on:
            async with httpx.AsyncClient(timeout=30) as http:
                leaves = time.monotonic() + self.random.uniform(0.1, 10)
                while self.goes_on and time.monotonic() < leaves:
                    await self._timed("over_http", self.over_http, http)

    async def _timed(self, name: str, act: Callable[[Any], Awaitable[None]], argument: Any) -> None:
        began = time.monotonic()
        try:
            await act(argument)
        except _GONE as error:
            self.refused[f"{name}: {type(error).__name__}"] += 1
            return
        self.did[name] += 1
        self.took_s[name].append(time.monotonic() - began)

    # -- parts ------------------------------------------------------------------------------------

    async def part(self, seconds: float) -> None:
        """Load the server for a while, then wait until everything that clients left has timed out."""
        self.took_s.clear()
        self.until = time.monotonic() + seconds
        lives = [self.clients() for _ in range(8)]
        lives += [self.tenants(), self.slow_readers(), self.reloads(), self.browsers(), self.browsers()]
        async with asyncio.TaskGroup() as group:
            for life in lives:
                group.create_task(life)
        await asyncio.sleep(SETTLES_S)

    async def look(self) -> tuple[Sample, Sample]:
        """Return the resources of the server and of the gateway."""
        async with httpx.AsyncClient(base_url=self.server.monitor_url) as http:
            stacks = (await http.get("/stacksz")).text.splitlines()
            general = (await http.get("/varz")).json()
            stored = (await http.get("/jsz")).json()
        found = sample_process(self.server.pid)
        server = Sample(
            found.memory_kb,
            found.descriptors,
            found.threads,
            sum(line.startswith("task ") for line in stacks),
            general["connections"],
            general["subscriptions"],
            stored["streams"],
            stored["consumers"],
        )
        return server, sample_process(self.gateway.pid)

    def latencies(self) -> str:
        parts = []
        for name, took in sorted(self.took_s.items()):
            took.sort()
            p50, p99 = (took[int(len(took) * share)] * 1000 for share in (0.5, 0.99))
            parts.append(f"{name} {p50:.1f}/{p99:.1f}")
        return ", ".join(parts)


async def _ignore(_: Exception) -> None: ...


def leaks(before: Sample, after: Sample) -> list[str]:
    """Return what is left over."""
    found = [
        f"{name}: {getattr(before, name)} before, {getattr(after, name)} after"
        for name in Sample.__slots__
        if name != "memory_kb" and getattr(after, name) > getattr(before, name)
    ]
    if after.memory_kb > before.memory_kb * (1 + MOST_GROWTH):
        found.append(f"memory: {before.memory_kb} KB before, {after.memory_kb} KB after")
    return found


async def live(minutes: float, seed: int) -> int:
    with ServerProcess(ServerKind.MILLSTREAM, config=CONFIGS[0], jetstream=True, monitor=True) as server:
        client = await nats.connect(server.client_url)
        streams = client.jetstream(timeout=30)
        await streams.add_stream(StreamConfig(name="KEPT", subjects=["kept.>"], max_msgs=KEPT))
        for number in range(4):
            config = ConsumerConfig(
                durable_name=f"c{number}", ack_policy=AckPolicy.EXPLICIT, max_ack_pending=100
            )
            await streams.add_consumer("KEPT", config)
        await streams.create_key_value(KeyValueConfig(bucket="B", history=3))
        await client.close()
        async with gateway_process(server.client_url) as gateway:
            life = Life(seed, server, gateway)
            samples = []
            for number in range(PARTS):
                await life.part(max(minutes * 60 / PARTS - SETTLES_S, 5.0))
                samples.append(await life.look())
                print(f"part {number + 1}: server {samples[-1][0]}\n        gateway {samples[-1][1]}")
                print(f"        ms, median/99th: {life.latencies()}", flush=True)
    print(f"did {dict(life.did)}\nrefused {dict(life.refused)}")
    found = [f"server, {line}" for line in leaks(samples[0][0], samples[-1][0])]
    found += [f"gateway, {line}" for line in leaks(samples[0][1], samples[-1][1])]
    print("\n".join(["LEAKS", *found]) if found else "nothing is left over")
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.soak.life", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return asyncio.run(live(chosen.minutes, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
