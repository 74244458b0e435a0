"""HTTP/2 by hypercorn's protocol, on a connection whose first bytes asked for it.

hypercorn reads from a stream, so what has arrived already is put back in front.  It also speaks HTTP/1.1, for
those that ask for an upgrade and then do not go on with it.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from millstream.gateway.exchange import Application
from millstream.gateway.settings import Limits


class Http2:
    """The HTTP/2 side of one listener."""

    def __init__(self, application: Application, limits: Limits) -> None:
        self._application = ASGIWrapper(cast(Any, application))
        self._config = _config(limits)
        self._context = WorkerContext(None)
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def take(self, transport: asyncio.Transport, received: bytes) -> asyncio.Task[None]:
        """Serve the connection, of which `received` was read so far."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        if received:
            reader.feed_data(received)
        server = TCPServer(
            self._application, loop, self._config, self._context, cast(Any, {}), reader, writer
        )
        task = loop.create_task(server.run())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self, timeout_s: float) -> None:
        """Let requests that are under way end, then everything."""
        await self._context.terminated.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # of a connection that broke: told to nobody, and that is fine


def _config(limits: Limits) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = limits.idle_timeout_s or 365 * 24 * 3600.0
    config.keep_alive_max_requests = 2**31
    config.h2_max_header_list_size = limits.max_head or 2**20
    config.h11_max_incomplete_size = limits.max_head or 2**20
    return config
