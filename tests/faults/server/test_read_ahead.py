"""Consumers that rest or are deleted keep nothing of what they have read."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import nats

from millstream.server.server import Server

READERS = 20
CHUNK = 64 * 1024  # bytes; nothing else that stays is as long


async def test_deleted_consumers_keep_no_memory_of_the_file(tmp_path: Path) -> None:
    async with Server(store_dir=tmp_path) as server:
        client = await nats.connect(server.client_url)
        streams = client.jetstream()
        await streams.add_stream(name="S", subjects=["s"])
        for number in range(2_000):
            await client.publish("s", b"%d" % number * 200)
        await client.flush()

        async def read() -> None:
            reader = await streams.pull_subscribe("s", stream="S")
            for _ in range(3):  # the chunks grow while most of them is used
                await reader.fetch(300, timeout=20)
            await streams.delete_consumer("S", (await reader.consumer_info()).name)

        await read()
        gc.disable()  # as for a server that is never quiet
        tracemalloc.start()
        try:
            for _ in range(READERS):
                await read()
            kept = [each.size for each in tracemalloc.take_snapshot().traces if each.size >= CHUNK]
        finally:
            tracemalloc.stop()
            gc.enable()
        assert len(kept) < READERS // 2
        await client.close()
