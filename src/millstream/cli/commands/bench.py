"""`millstream bench`: simple rates of a server, measured from this machine: publish, consume, request, kv.

Each measurement creates a stream with a random name and deletes it at the end, even after Ctrl-C.  It uses
one connection, so the figures are those of one program and not the limits of a server.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import msgspec
import typer

from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import FAILED, Ending, UsageError
from millstream.cli.groups import CommandGroup
from millstream.cli.output.readings import read_size
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import count_text, size_text
from millstream.cli.session import run
from millstream.link.deliveries import LinkMessage
from millstream.link.link import Link
from millstream.link.options import LinkOptions
from millstream.link.publisher import Publisher
from millstream.transfer.api import JetStreamApi

app = CommandGroup("Measure a server from here: simple rates of one connection.")

_BATCH: Final = 500
_PULL: Final = 500
_SILENCE_S: Final = 30.0

Messages = Annotated[
    int,
    typer.Option("--messages", "-n", metavar="NUMBER", min=1, max=100_000_000, help="Number of messages."),
]
Size = Annotated[str, typer.Option("--size", metavar="BYTES", help="Size of each payload.")]
Parallel = Annotated[
    int,
    typer.Option("--parallel", metavar="NUMBER", min=1, max=10_000, help="Number of concurrent operations."),
]
Storage = Annotated[str, typer.Option("--storage", metavar="file|memory", help="Storage of the stream.")]
Replicas = Annotated[
    int, typer.Option("--replicas", metavar="NUMBER", min=1, max=5, help="Replicas of the stream.")
]


class _Figures:
    """Counts messages, and collects the times of some."""

    def __init__(self, size: int) -> None:
        self.size: Final = size
        self.count = 0
        self.times: list[float] = []
        self._began = time.perf_counter()
        self._ended = 0.0

    def stop(self) -> None:
        self._ended = time.perf_counter()

    def report(self, output: CommandOutput, name: str) -> None:
        """Print a line: rate, bytes, and the times of single messages if they were measured."""
        seconds = max((self._ended or time.perf_counter()) - self._began, 1e-9)
        rate = self.count / seconds
        document: dict[str, Any] = {
            "bench": name,
            "messages": self.count,
            "size": self.size,
            "seconds": round(seconds, 6),
            "per_second": round(rate, 1),
            "bytes_per_second": round(rate * self.size, 1),
        }
        amount = f"{count_text(self.count)} in {seconds:.2f} s"
        text = f"{name}: {count_text(rate)} a second, {size_text(rate * self.size)}/s ({amount})"
        if self.times:
            times = sorted(self.times)
            points = {
                f"p{share}": times[min(len(times) * share // 100, len(times) - 1)] for share in (50, 90, 99)
            }
            document |= {f"{key}_ms": round(value * 1000, 3) for key, value in points.items()}
            text += ", " + ", ".join(f"{key} {value * 1000:.2f} ms" for key, value in points.items())
        output.event(document, text)


def _measure(
    server: LinkOptions, json: bool, work: Callable[[JetStreamApi, CommandOutput], Awaitable[None]]
) -> None:
    async def measured() -> None:
        async with connected(server, "millstream bench") as api:
            await work(api, CommandOutput(json=json))

    run(measured())


def _payload(size: str) -> bytes:
    length = read_size(size, "--size")
    if not 0 <= length <= 64 * 1024 * 1024:
        raise UsageError("--size is at most 64MB")
    return (b"abcdefghijklmnopqrstuvwxyz" * (length // 26 + 1))[:length]


@asynccontextmanager
async def _stream(
    api: JetStreamApi, storage: str, replicas: int, **more: Any
) -> AsyncIterator[tuple[str, str]]:
    """Yield a new stream and its subject; the stream is deleted at the end."""
    if storage not in ("file", "memory"):
        raise UsageError(f"--storage: {storage!r} is neither file nor memory")
    name = f"BENCH_{secrets.token_hex(6)}"
    subject = f"bench.{name}"
    config = {"name": name, "subjects": [subject], "storage": storage, "num_replicas": replicas, **more}
    await api.ask(f"STREAM.CREATE.{name}", config)
    try:
        yield name, subject
    finally:
        await asyncio.shield(api.delete_stream(name))


async def _store(link: Link, subject: bytes, payload: bytes, count: int, figures: _Figures | None) -> None:
    """Publish messages into a stream, some at a time; returns when all are acknowledged."""
    publisher = Publisher(link)
    try:
        left = count
        waiting: list[Any] = []
        while left or waiting:
            while left and len(waiting) < 4:
                some = min(_BATCH, left)
                waiting.append(await publisher.submit([(subject, b"", payload)] * some))
                left -= some
            receipts = await waiting.pop(0)
            for place in range(len(receipts)):
                receipts.ack(place)
            if figures is not None:
                figures.count += len(receipts)
    finally:
        publisher.close()


@app.command("publish")
@talks_to_a_server
def publish(
    *, server: LinkOptions, messages: Messages = 100_000, size: Size = "128",
    core: Annotated[bool, typer.Option("--core", help="Without a stream and confirmations.")] = False,
    storage: Storage = "file", replicas: Replicas = 1, json: JsonOption = False,
) -> None:  # fmt: skip
    """Publish messages into a stream, which confirms each of them.

    \b
    Examples:
      millstream bench publish
      millstream bench publish --core --messages 1000000 --size 16
      millstream bench publish --storage memory --size 1KB --json
    """
    payload = _payload(size)

    async def work(api: JetStreamApi, output: CommandOutput) -> None:
        if core:
            figures = _Figures(len(payload))
            for number in range(1, messages + 1):
                api.link.publish("bench.nobody", payload)
                if number % _BATCH == 0:
                    await api.link.flush()
            await api.link.flush()
            figures.count = messages
            figures.stop()
            figures.report(output, "publish without a stream")
            return
        async with _stream(api, storage, replicas) as (_, subject):
            figures = _Figures(len(payload))
            await _store(api.link, subject.encode(), payload, messages, figures)
            figures.stop()
        figures.report(output, f"publish to a stream in {storage}")

    _measure(server, json, work)


@app.command("consume")
@talks_to_a_server
def consume(
    *, server: LinkOptions, messages: Messages = 100_000, size: Size = "128",
    ack: Annotated[bool, typer.Option("--ack/--no-ack", help="Acknowledge each message.")] = True,
    storage: Storage = "file", replicas: Replicas = 1, json: JsonOption = False,
) -> None:  # fmt: skip
    """Fill a stream, then take its messages with a pull consumer.

    \b
    Examples:
      millstream bench consume
      millstream bench consume --no-ack --size 1KB
    """
    payload = _payload(size)

    async def work(api: JetStreamApi, output: CommandOutput) -> None:
        async with _stream(api, storage, replicas) as (name, subject):
            await _store(api.link, subject.encode(), payload, messages, None)
            policy = "explicit" if ack else "none"
            config = {"name": "c", "durable_name": "c", "ack_policy": policy, "max_ack_pending": 20_000}
            await api.create_consumer(name, config)
            figures = _Figures(len(payload))
            await _take(api, api.next_subject(name, "c"), messages, ack, figures)
            figures.stop()
        figures.report(output, f"consume with {'acks' if ack else 'no acks'}")

    _measure(server, json, work)


async def _take(api: JetStreamApi, subject: str, count: int, ack: bool, figures: _Figures) -> None:
    """Take `count` messages; two pull requests are always open."""
    link, done = api.link, asyncio.Event()
    inbox = link.new_inbox()
    request = msgspec.json.encode({"batch": _PULL, "expires": 60_000_000_000})
    asked = 0

    def take(some: list[LinkMessage]) -> None:
        nonlocal asked
        for message in some:
            if message.status:
                continue
            figures.count += 1
            if ack:
                link.publish(message.reply, b"+ACK")
        while asked - figures.count <= _PULL and asked < count:
            asked += _PULL
            link.publish(subject, request, reply=inbox)
        if figures.count >= count:
            done.set()

    subscription = link.subscribe(inbox, deliver=take)
    try:
        take([])
        while not done.is_set():
            before = figures.count
            try:
                await asyncio.wait_for(done.wait(), _SILENCE_S)
            except TimeoutError:
                if figures.count == before:
                    raise Ending(f"only {before} of {count} messages came", FAILED) from None
        await link.flush()
    finally:
        subscription.unsubscribe()


@app.command("request")
@talks_to_a_server
def request(
    *, server: LinkOptions, messages: Messages = 20_000, size: Size = "128",
    parallel: Parallel = 16,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Send requests to a responder on another connection.

    \b
    Examples:
      millstream bench request
      millstream bench request --parallel 1
    """
    payload = _payload(size)

    async def work(api: JetStreamApi, output: CommandOutput) -> None:
        subject = f"bench.{secrets.token_hex(8)}"
        async with Link(server) as other:

            def answer(some: list[LinkMessage]) -> None:
                for message in some:
                    other.publish(message.reply, message.payload)

            other.subscribe(subject, deliver=answer)
            await other.flush()
            figures = _Figures(len(payload))
            left = messages

            async def ask() -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    began = time.perf_counter()
                    await api.link.request(subject, payload)
                    figures.times.append(time.perf_counter() - began)
                    figures.count += 1

            await asyncio.gather(*(ask() for _ in range(parallel)))
            figures.stop()
        figures.report(output, f"request, {parallel} at a time")

    _measure(server, json, work)


@app.command("kv")
@talks_to_a_server
def kv(
    *, server: LinkOptions, messages: Messages = 20_000, size: Size = "128",
    keys: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Number of different keys.")] = 1000,
    parallel: Parallel = 16,
    storage: Storage = "file", replicas: Replicas = 1, json: JsonOption = False,
) -> None:  # fmt: skip
    """Put values into a bucket, then get them.

    \b
    Examples:
      millstream bench kv
      millstream bench kv --keys 100000 --size 1KB --storage memory
    """
    payload = _payload(size)

    async def work(api: JetStreamApi, output: CommandOutput) -> None:
        from millstream.buckets.kv import KeyValue
        from millstream.buckets.kv_types import KvConfig
        from millstream.jsapi.enums import StorageType

        if storage not in ("file", "memory"):
            raise UsageError(f"--storage: {storage!r} is neither file nor memory")
        name = f"BENCH_{secrets.token_hex(6)}"
        config = KvConfig(name, storage=StorageType(storage), replicas=replicas)
        bucket = await KeyValue.create(api.link, config)
        try:
            for title, call in (("kv put", lambda key: bucket.put(key, payload)), ("kv get", bucket.get)):
                figures = _Figures(len(payload))
                await _repeat(figures, messages, parallel, keys, call)
                figures.stop()
                figures.report(output, f"{title}, {parallel} at a time")
        finally:
            await asyncio.shield(KeyValue.remove(api.link, name))

    _measure(server, json, work)


async def _repeat(
    figures: _Figures, count: int, parallel: int, keys: int, call: Callable[[str], Awaitable[Any]]
) -> None:
    """Make `count` calls with successive keys, `parallel` at a time."""
    number = 0

    async def go() -> None:
        nonlocal number
        while number < count:
            key, number = f"k{number % keys}", number + 1
            began = time.perf_counter()
            await call(key)
            figures.times.append(time.perf_counter() - began)
            figures.count += 1

    await asyncio.gather(*(go() for _ in range(parallel)))
