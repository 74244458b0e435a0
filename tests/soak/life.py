"""A busy life of a server and a gateway, and what is left of it: ``make soak-life MINUTES=60``.

    python -m tests.soak.life --minutes 20

Clients come and go, over TCP and WebSocket, publish, read with push and pull consumers, and acknowledge;
streams, mirrors, sources and consumers are made and deleted, keys and objects are put, watched and deleted,
readers do not read, leaf links are made and cut, the configuration is reloaded, a second server is linked,
and a gateway serves requests.  If Spark is installed, a pipeline archives a stream beside them, unless
``--no-spark`` is given.  Another process measures what a client waits that has nothing else to do.

Each part of the time is followed by silence.  In the first silence everything has been used once, and what
has a limit has reached it, if a part takes ten minutes; in the last, all processes but Spark must have the
same numbers of descriptors, threads, tasks, connections, subscriptions, streams and consumers as then, and
not much more memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, KeyValueConfig, StreamConfig, StreamSource
from nats.js.errors import Error as JetStreamError

from tests.kits.gateway.v2 import GatewayProcess, gateway_process
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.soak.latencies import Latencies
from tests.soak.probe import probing
from tests.soak.resources import Sample, children, leaks, sample_process, sample_server

PARTS = 6  # of the time, each followed by silence
SETTLES_S = 15.0  # time-outs of what clients left behind
# Limits, each of which is reached in the first part: what comes later is a leak.
CLOSED = "max_closed_clients: 100\n"  # shown by monitoring; 10,000 take 13 MB
KEPT = 5_000  # messages in the stream that everybody uses
ARCHIVED = 20_000  # messages in the stream that Spark reads, which may be a minute behind
CLIENTS = 8  # at a time
OBJECTS = 25  # names of each: nats-py waits for ever for an object that somebody else replaces
TENANTS = 40  # names of streams that come and go
PAYLOADS = ("1MB", "2MB")  # a reload changes the limit
PIPELINE = """
name = "soak"
checkpoint = "checkpoints"

[spark]
master = "local[1]"
conf = { "spark.driver.memory" = "512m" }

[[job]]
name = "archive"
kind = "archive"
streams = ["ARCHIVED"]
table = "archive"
trigger = "20s"
"""
_LONGEST_S = 30.0  # that a client tries something
_GONE = (NatsError, JetStreamError, OSError, TimeoutError, asyncio.TimeoutError, httpx.HTTPError)


@dataclass(frozen=True, slots=True)
class Site:
    """The server under load, and another that is linked to it."""

    server: ServerProcess
    spoke: ServerProcess
    websocket_port: int
    leaf_port: int

    def config(self, reloads: int) -> str:
        return configured(self.websocket_port, self.leaf_port, PAYLOADS[reloads % len(PAYLOADS)])


def configured(websocket_port: int, leaf_port: int, payload: str = PAYLOADS[0]) -> str:
    """Return the configuration of the server under load."""
    return (
        f"{CLOSED}max_payload: {payload}\n"
        f'websocket {{ listen: "127.0.0.1:{websocket_port}", no_tls: true }}\n'
        f'leafnodes {{ listen: "127.0.0.1:{leaf_port}" }}\n'
    )


class Life:
    """The load, what it did, and how long answers took."""

    def __init__(self, seed: int, site: Site, gateway: GatewayProcess) -> None:
        self.random = Random(seed)
        self.site = site
        self.server = site.server
        self.gateway = gateway
        self.did: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.latencies = Latencies()
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
        for copy in (
            StreamConfig(mirror=StreamSource(name=name)),
            StreamConfig(sources=[StreamSource(name=name)]),
        ):
            copy.name = f"{name}_COPY"
            await streams.add_stream(copy)
            await asyncio.sleep(0.05)
            await streams.delete_stream(copy.name)
        await streams.delete_stream(name)

    async def keys(self, client: Client) -> None:
        bucket = await client.jetstream(timeout=10).key_value("B")
        key = f"k{self.random.randrange(200)}"
        await bucket.put(key, self.random.randbytes(100))
        await bucket.get(key)
        if self.random.random() < 0.3:
            await bucket.delete(key)
        if self.random.random() < 0.1:
            watcher = await bucket.watch(key, inactive_threshold=5.0)
            await watcher.updates(timeout=10)
            await watcher.stop()

    async def objects(self, client: Client) -> None:
        store = await client.jetstream(timeout=10).object_store("O")
        name = f"{client.options['name']}-{self.random.randrange(OBJECTS)}"
        await store.put(name, self.random.randbytes(200_000))
        await store.get(name)
        await store.delete(name)

    async def archived(self, client: Client) -> None:
        """Publish what the pipeline archives."""
        for _ in range(10):
            await client.jetstream().publish("archived.a", self.random.randbytes(100), timeout=10)

    async def linked(self, client: Client) -> None:
        """Hear from a client of the other server, which comes and goes."""
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        await client.flush()
        remote = await nats.connect(self.site.spoke.client_url, allow_reconnect=False, error_cb=_ignore)
        try:
            for _ in range(20):
                await remote.publish(inbox, b"x")
                with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                    await subscription.next_msg(timeout=0.5)
                    return
            raise TimeoutError("nothing comes over the link")
        finally:
            await remote.close()
            await subscription.unsubscribe()

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

    async def clients(self, name: str) -> None:
        """One connection after another, each for a while."""
        while self.goes_on:
            with contextlib.suppress(*_GONE):
                url = self.server.client_url
                if self.random.random() < 0.25:
                    url = f"ws://127.0.0.1:{self.site.websocket_port}"
                client = await nats.connect(url, name=name, allow_reconnect=False, error_cb=_ignore)
                leaves = time.monotonic() + self.random.uniform(0.1, 10)
                while self.goes_on and time.monotonic() < leaves:
                    act = self.random.choice(
                        (self.publish,) * 6
                        + (
                            self.pull,
                            self.push,
                            self.core,
                            self.keys,
                            self.objects,
                            self.archived,
                            self.linked,
                        )
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

    async def leaf_links(self) -> None:
        """Link as a spoke does, and cut the connection."""
        while self.goes_on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.site.leaf_port)
                await reader.readline()
                writer.write(
                    b'CONNECT {"name":"cut","server_id":"cut","headers":true}\r\nLS+ kept.1\r\nPING\r\n'
                )
                await reader.readuntil(b"PONG")
                await asyncio.sleep(self.random.uniform(0, 2))
                writer.transport.abort()
                self.did["leaf link"] += 1

    async def reloads(self) -> None:
        while self.goes_on:
            await asyncio.sleep(5)
            config = self.site.config(self.did["reload"] + 1)
            assert await asyncio.to_thread(self.server.reload, config)
            self.did["reload"] += 1

    async def browsers(self) -> None:
        while self.goes_on:
            async with httpx.AsyncClient(timeout=30) as http:
                leaves = time.monotonic() + self.random.uniform(0.1, 10)
                while self.goes_on and time.monotonic() < leaves:
                    await self._timed("over_http", self.over_http, http)

    async def _timed(self, name: str, act: Callable[[Any], Awaitable[None]], argument: Any) -> None:
        try:
            async with asyncio.timeout(_LONGEST_S):  # nats-py waits for ever for an object that was replaced
                with self.latencies.timed(name):
                    await act(argument)
        except _GONE as error:
            self.refused[f"{name}: {type(error).__name__}"] += 1
            return
        self.did[name] += 1

    # -- parts ------------------------------------------------------------------------------------

    async def part(self, seconds: float) -> str:
        """Load the server for a while, then wait until everything that clients left has timed out."""
        self.until = time.monotonic() + seconds
        lives = [self.clients(f"client{number}") for number in range(CLIENTS)]
        lives += [self.tenants(), self.slow_readers(), self.leaf_links(), self.reloads()]
        lives += [self.browsers(), self.browsers()]
        async with probing(self.server.client_url) as probed, asyncio.TaskGroup() as group:
            lag = group.create_task(self.latencies.time_the_loop())
            tasks = [group.create_task(life) for life in lives]
            await asyncio.wait(tasks)
            lag.cancel()
        await self.delete_tenants()
        await asyncio.sleep(SETTLES_S)
        return f"load: {self.latencies.take()}\nlone client: {probed[0]}"

    async def delete_tenants(self) -> None:
        """Delete the streams that stayed because a request took too long."""
        client = await nats.connect(self.server.client_url)
        streams = client.jetstream(timeout=60)
        for info in await streams.streams_info():
            if info.config.name is not None and info.config.name.startswith("T"):
                await streams.delete_stream(info.config.name)
        await client.close()

    async def look(self) -> dict[str, Sample]:
        """Return the resources of both servers and of the gateway."""
        return {
            "server": await sample_server(self.server),
            "linked": await sample_server(self.site.spoke),
            "gateway": sample_process(self.gateway.pid),
        }


async def _ignore(_: Exception) -> None: ...


async def live(minutes: float, seed: int, kind: ServerKind, *, spark: bool) -> int:
    async with AsyncExitStack() as stack:
        websocket_port, leaf_port = free_ports(2)
        config = configured(websocket_port, leaf_port)
        server = stack.enter_context(ServerProcess(kind, config=config, jetstream=True, monitor=True))
        remote = f"url: nats-leaf://127.0.0.1:{leaf_port}"
        link = f"{CLOSED}leafnodes {{ reconnect: 1s, remotes: [ {{ {remote} }} ] }}"
        spoke = stack.enter_context(ServerProcess(kind, config=link, monitor=True))
        await prepare(server)
        pids = {"load": os.getpid()}
        if spark:
            pids["pipeline"] = stack.enter_context(pipeline(server.client_url))
        gateway = await stack.enter_async_context(gateway_process(server.client_url))
        life = Life(seed, Site(server, spoke, websocket_port, leaf_port), gateway)
        samples = []
        for number in range(PARTS):
            latencies = await life.part(max(minutes * 60 / PARTS - SETTLES_S, 5.0))
            samples.append(await life.look())
            started = children(pids["pipeline"]) if spark else {}
            others = {name: sample_process(pid) for name, pid in (pids | started).items()}
            print(f"PART {number + 1}, {time.strftime('%H:%M:%S')}")
            for name, sample in (samples[-1] | others).items():
                print(f"{name}: {sample}")
            print(f"ms, median/99th/longest (how many): {latencies}", flush=True)
    print(f"did {dict(life.did)}\nrefused {dict(life.refused)}")
    first, last = samples[0], samples[-1]
    found = [f"{name}, {line}" for name in first for line in leaks(first[name], last[name])]
    print("\n".join(["LEAKS", *found]) if found else "nothing is left over")
    return bool(found)


async def prepare(server: ServerProcess) -> None:
    """Make the streams, consumers and buckets that stay."""
    client = await nats.connect(server.client_url)
    streams = client.jetstream(timeout=30)
    await streams.add_stream(StreamConfig(name="KEPT", subjects=["kept.>"], max_msgs=KEPT))
    await streams.add_stream(StreamConfig(name="ARCHIVED", subjects=["archived.>"], max_msgs=ARCHIVED))
    for number in range(4):
        config = ConsumerConfig(durable_name=f"c{number}", ack_policy=AckPolicy.EXPLICIT, max_ack_pending=100)
        await streams.add_consumer("KEPT", config)
    await streams.create_key_value(KeyValueConfig(bucket="B", history=3))
    await streams.create_object_store("O")
    await client.close()


@contextmanager
def pipeline(nats_url: str) -> Iterator[int]:
    """Run a pipeline of local Spark, with files in a folder of its own, and return its process."""
    with TemporaryDirectory() as folder:
        Path(folder, "pipeline.toml").write_text(PIPELINE)
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                (sys.executable, "-m", "millstream", "pipeline", "run", "pipeline.toml"),
                cwd=folder,
                env={**os.environ, "NATS_URL": nats_url},
                stdout=log,
                stderr=log,
            )
        try:
            yield process.pid
            files = len(list(Path(folder).glob("archive/**/*.parquet")))
            text = Path(folder, "log").read_text(errors="replace")
            print(f"pipeline: {files} files, {'runs' if process.poll() is None else text[-2000:]}")
        finally:
            process.terminate()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.soak.life", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--server", type=ServerKind, choices=list(ServerKind), default=ServerKind.MILLSTREAM)
    parser.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        default=importlib.util.find_spec("pyspark") is not None,
        help="run a pipeline beside them (if Spark is installed)",
    )
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return asyncio.run(live(chosen.minutes, chosen.seed, chosen.server, spark=chosen.spark))


if __name__ == "__main__":
    sys.exit(main())
