"""A lone client beside the load of a soak: ``python -m tests.soak.probe URL``.

Nothing else runs in its loop, so its latencies are the server's, where those of the load's own clients
contain the time for which they wait for each other.  A few times in a second it publishes a message, and
puts, gets and deletes a key and an object.  When its input ends, it prints its latencies.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from tests.soak.latencies import Latencies

REST_S = 0.2
OBJECT_BYTES = 200_000
_LONGEST_S = 30.0  # nats-py waits for ever for an object that was replaced
_GONE = (NatsError, JetStreamError, TimeoutError)


@asynccontextmanager
async def probing(url: str) -> AsyncIterator[list[str]]:
    """Run this module beside a block, and return its latencies in a list that is filled in the end."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.soak.probe", url)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    found: list[str] = []
    try:
        yield found
        output, _ = await process.communicate(b"")  # which closes its input
        found.append(output.decode().strip())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def measure(client: Client, latencies: Latencies, stop: asyncio.Event) -> None:
    """Use a stream, a bucket of keys and one of objects.

    It is told to stop, since nats-py may swallow a cancellation.
    """
    streams = client.jetstream(timeout=_LONGEST_S)
    keys = await streams.key_value("B")
    objects = await streams.object_store("O")
    body = Random(0).randbytes(OBJECT_BYTES)
    while not stop.is_set():
        with contextlib.suppress(*_GONE):
            async with asyncio.timeout(_LONGEST_S):
                with latencies.timed("publish"):
                    await streams.publish("kept.probe", body[:200])
                with latencies.timed("key put"):
                    await keys.put("probe", body[:100])
                with latencies.timed("key get"):
                    await keys.get("probe")
                with latencies.timed("object put"):
                    await objects.put("probe", body)
                with latencies.timed("object get"):
                    await objects.get("probe")
                with latencies.timed("object delete"):
                    await objects.delete("probe")
        await asyncio.sleep(REST_S)


async def main(url: str) -> None:
    latencies = Latencies()
    client = await nats.connect(url)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        lag = group.create_task(latencies.time_the_loop())
        measures = group.create_task(measure(client, latencies, stop))
        await asyncio.to_thread(sys.stdin.read)
        stop.set()
        await measures
        lag.cancel()
    await client.close()
    print(latencies.take())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
