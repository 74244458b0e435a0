"""One address: its socket, the connections on it and their limits."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from email.utils import formatdate
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from millstream.gateway.alarms import Alarm
from millstream.gateway.exchange import Application
from millstream.gateway.http1 import Http1
from millstream.gateway.http2 import Http2
from millstream.gateway.metrics import Metrics
from millstream.gateway.settings import Limits, Listener
from millstream.gateway.sniffer import Sniffer
from millstream.gateway.web_socket import WebSocket

_COMMAND_BYTES: Final = 64 * 1024  # what a reader says over a WebSocket; acknowledgements are small


class Listening:
    """Accepts connections for one application until it is stopped."""

    def __init__(
        self,
        application: Application,
        listener: Listener,
        limits: Limits,
        tls: ssl.SSLContext | None,
        metrics: Metrics,
        *,
        h2c_upgrade: bool = False,
    ) -> None:
        self.h2c_upgrade = h2c_upgrade
        self.limits = limits
        self.http2 = Http2(application, limits)
        self.uvicorn_state = ServerState()
        self.uvicorn_config = _uvicorn_config(application, limits)
        self._listener = listener
        self._tls = tls
        self._metrics = metrics
        self._full = Alarm(
            "connections are refused; see gateway.limits.connections and connections_per_address"
        )
        self._server: asyncio.Server | None = None
        self._admitted: dict[asyncio.Transport, str] = {}
        self._by_address: Counter[str] = Counter()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the port is known after `start`."""
        if self._server is None:
            return self._listener.host, self._listener.port
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.tick()
        self._server = await loop.create_server(
            lambda: Sniffer(self),
            self._listener.host,
            self._listener.port,
            ssl=self._tls,
            backlog=2048,
            ssl_handshake_timeout=(self.limits.head_timeout_s or None) if self._tls else None,
        )

    def admit(self, transport: asyncio.Transport) -> bool:
        """Count a new connection, unless there are too many."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        limits = self.limits
        if (limits.connections and len(self._admitted) >= limits.connections) or (
            limits.connections_per_address and self._by_address[address] >= limits.connections_per_address
        ):
            self._metrics.refused.inc()
            self._full.ring()
            return False
        self._admitted[transport] = address
        self._by_address[address] += 1
        self._metrics.connections.inc()
        return True

    def forget(self, transport: asyncio.Transport) -> None:
        """The connection is over; may be called more than once."""
        address = self._admitted.pop(transport, None)
        if address is None:
            return
        self._metrics.connections.dec()
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]

    def tick(self) -> None:
        """Once a second: the date of answers, and an end for those who let us wait."""
        self.uvicorn_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        now = asyncio.get_running_loop().time()
        for connection in list(self.uvicorn_state.connections):
            if isinstance(connection, Http1) and connection.overdue(now):
                connection.expire()

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def stop(self, timeout_s: float) -> None:
        """Let requests that are under way end, then close every connection."""
        self.stop_accepting()
        state = self.uvicorn_state
        for connection in list(state.connections):
            if isinstance(connection, Http1):  # a WebSocket would be closed before it is told why
                connection.shutdown()
        await asyncio.gather(self._finish_http1(timeout_s), self.http2.stop(timeout_s))
        for transport in list(self._admitted):
            transport.abort()
        if self._server is not None:
            await self._server.wait_closed()

    async def _finish_http1(self, timeout_s: float) -> None:
        tasks = set(self.uvicorn_state.tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)


def _uvicorn_config(application: Application, limits: Limits) -> Config:
    config = Config(
        cast(Any, application),
        http="httptools",
        ws=WebSocket,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=_COMMAND_BYTES,
        timeout_keep_alive=cast(Any, limits.idle_timeout_s or 365 * 24 * 3600),  # parts of a second too
    )
    config.load()
    return config
