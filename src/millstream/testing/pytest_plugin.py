"""Fixtures for tests of programs that use NATS; pytest finds them once Millstream is installed.

    async def test_orders_are_counted(millstream_server):
        connection = await nats.connect(millstream_server.client_url)

The server runs in its own thread, on a free loopback port, so the fixture works for synchronous tests and
for tests of any asyncio plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from millstream.server.blocking_server import BlockingServer


@pytest.fixture
def make_millstream_server() -> Iterator[Callable[..., BlockingServer]]:
    """Return a function that starts servers (``millstream.Server``); all are stopped when the test ends."""
    from millstream.server.blocking_server import BlockingServer

    running: list[BlockingServer] = []

    def make(**arguments: Any) -> BlockingServer:
        server = BlockingServer(**arguments)
        server.start()
        running.append(server)
        return server

    yield make
    for server in reversed(running):
        server.stop()


@pytest.fixture
def millstream_server(
    make_millstream_server: Callable[..., BlockingServer], tmp_path: Path
) -> BlockingServer:
    """Start a server with JetStream for one test."""
    return make_millstream_server(store_dir=tmp_path)
