"""Streams, and their ranges as Arrow."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
from nats.aio.client import Client

from tests.kits.patience import PATIENCE_S


@dataclass
class Answer:
    """The complete answer to a request."""

    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    about: list[dict[str, str]] = field(default_factory=list)  # metadata of each batch

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, self.schema)

    @property
    def metadata(self) -> dict[str, str]:
        return {key.decode(): value.decode() for key, value in (self.schema.metadata or {}).items()}

    def column(self, name: str) -> list[Any]:
        values: list[Any] = self.table.column(name).to_pylist()
        return values


def read_now(url: str, stream: str, query: str = "", authorization: str = "") -> Answer:
    """Get a range; HTTPError if there is none, IncompleteRead if it was cut."""
    headers = {"Authorization": authorization} if authorization else {}
    with urlopen(
        Request(f"{url}/arrow/v1/streams/{stream}{query}", headers=headers), timeout=PATIENCE_S
    ) as response:
        return parse(response)


async def read(url: str, stream: str, query: str = "", authorization: str = "") -> Answer:
    """Read from a server in this event loop."""
    return await asyncio.to_thread(read_now, url, stream, query, authorization)


def parse(source: Any) -> Answer:
    reader = pa.ipc.open_stream(source)
    answer = Answer(reader.schema)
    while True:
        try:
            batch, about = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return answer
        batch.validate(full=True)
        answer.batches.append(batch)
        answer.about.append({key.decode(): value.decode() for key, value in dict(about or {}).items()})


async def ask(connection: Client) -> dict[str, Any]:
    """Return the announcement of the endpoint."""
    reply = await connection.request("$MILLSTREAM.ARROW.INFO", b"", timeout=PATIENCE_S)
    info: dict[str, Any] = json.loads(reply.data)
    return info


async def fill(connection: Client, stream: str, count: int, **config: Any) -> None:
    """A stream with `count` messages on five subjects, all durable."""
    await connection.jetstream(timeout=PATIENCE_S).add_stream(name=stream, subjects=[f"{stream}.>"], **config)
    await publish(connection, stream, count)


async def publish(connection: Client, stream: str, count: int, size: int = 0) -> None:
    """Add messages; all are durable when this returns."""
    streams = connection.jetstream(timeout=PATIENCE_S)
    for number in range(1, count):
        await connection.publish(f"{stream}.{number % 5}", b"%d " % number + b"x" * size)
    await streams.publish(f"{stream}.{count % 5}", b"%d " % count + b"x" * size)
