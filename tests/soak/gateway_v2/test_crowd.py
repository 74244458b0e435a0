"""A thousand readers of one stream at one gateway, as lines and as events, a hundred of whom never read."""

import asyncio
import resource
from pathlib import Path

import pytest

from tests.kits.gateway.v2 import Gateway, gateway_process

READERS = 900
STALLED = 100
MESSAGES = 200
PAYLOAD = b"x" * 2000
MOST_MEMORY_KB = 600_000
AT_ONCE = 25
AHEAD = 20  # messages that the publisher is before the slowest reader: nats-server cuts a connection at 64 MB
MEDIA_TYPES = ("application/x-ndjson", "text/event-stream")
MARKER = b'"seq":'


def _memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("the process is gone")


async def _subscribe(
    port: int, path: str, media_type: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {media_type}\r\n\r\n"
    writer.write(head.encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    return reader, writer


async def _read(reader: asyncio.StreamReader, seen: list[int]) -> None:
    """Note the sequences that come, until the last one was there."""
    while not seen or seen[-1] < MESSAGES:
        line = await reader.readline()
        assert line, "the connection ended"
        assert b"problem" not in line, line
        if MARKER in line:
            seen.append(int(line.split(MARKER)[1].split(b",")[0]))


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_everybody_gets_everything_once_in_order_and_memory_is_bounded(gateway: Gateway) -> None:
    wanted = 2 * (READERS + STALLED) + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{wanted} open files are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    await gateway.add_stream()
    writers: list[asyncio.StreamWriter] = []
    async with gateway_process(gateway.nats.client_url) as process:
        try:
            readers = []
            for start in range(0, READERS + STALLED, AT_ONCE):
                for reader, writer in await asyncio.gather(
                    *(
                        _subscribe(process.port, f"{gateway.path}/live", MEDIA_TYPES[number % 2])
                        for number in range(start, start + AT_ONCE)
                    )
                ):
                    writers.append(writer)
                    readers.append(reader)
            noted: list[list[int]] = [[] for _ in range(READERS)]
            reading = asyncio.gather(*map(_read, readers[STALLED:], noted))
            for number in range(MESSAGES):
                await gateway.publish(PAYLOAD)
                while number - min(map(len, noted)) >= AHEAD and not reading.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await reading
            assert all(seen == list(range(1, MESSAGES + 1)) for seen in noted)
            assert _memory_kb(process.pid) < MOST_MEMORY_KB
        finally:
            for writer in writers:
                writer.transport.abort()
