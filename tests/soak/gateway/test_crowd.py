"""A thousand subscriptions at one gateway, a hundred of which never read."""

import asyncio
import resource
from pathlib import Path

import pytest

from tests.kits.gateway.v1 import GatewayProcess, Lab
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

READERS = 900
STALLED = 100
MESSAGES = 200
PAYLOAD = b"x" * 2000
MOST_MEMORY_KB = 500_000
LONG_NS = 600_000_000_000


def memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("the process is gone")


async def subscribe(port: int, lab: Lab, consumer: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = f"/v1/data/stream/{lab.stream}/consumer/{consumer}?subject_name={lab.subject()}&max_msg_inflight=0"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    return reader, writer


async def read(reader: asyncio.StreamReader) -> list[int]:
    """The sequences that come, until the last one was there."""
    marker, seen = b'"sequence":{"stream":', []
    while not seen or seen[-1] < MESSAGES or len(set(seen)) < MESSAGES:
        line = await reader.readline()
        assert line, "the subscription ended"
        if marker in line:
            seen.append(int(line.split(marker)[1].split(b",")[0]))
    return seen


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_nothing_is_lost_and_memory_is_bounded(js_server: ServerProcess, lab: Lab) -> None:
    wanted = 2 * (READERS + STALLED) + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{wanted} open files are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    link = lab.gateway.server.core.links.own
    names = [f"c{number}" for number in range(READERS + STALLED)]
    for start in range(0, len(names), 50):
        await asyncio.gather(
            *(lab.consumer(name, max_inflight=1000, ack_wait=LONG_NS) for name in names[start : start + 50])
        )
    process = GatewayProcess("--server", js_server.client_url)
    writers: list[asyncio.StreamWriter] = []
    try:
        await process.started()
        readers = []
        for start in range(0, len(names), 50):
            for reader, writer in await asyncio.gather(
                *(subscribe(process.ports[0], lab, name) for name in names[start : start + 50])
            ):
                writers.append(writer)
                readers.append(reader)
        reading = [asyncio.ensure_future(read(reader)) for reader in readers[STALLED:]]
        for _ in range(MESSAGES // 10):
            await asyncio.gather(
                *(link.store(lab.subject(), PAYLOAD, timeout_s=PATIENCE_S) for _ in range(10))
            )
        for seen in await asyncio.gather(*reading):
            assert sorted(seen) == list(range(1, MESSAGES + 1))
        assert memory_kb(process.pid) < MOST_MEMORY_KB
    finally:
        for writer in writers:
            writer.transport.abort()
        process.close()
