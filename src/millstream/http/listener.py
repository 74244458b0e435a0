"""One application on some sockets: which connections are accepted, when they time out, how it stops.

Each connection begins as HTTP/1.1 (`http1`), which hands it over to HTTP/2 or a WebSocket if the peer asks
for that.  Everything runs on one event loop; each request is a task.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from millstream.base.complaints import Complaints
from millstream.base.descriptors import is_kept
from millstream.http.answers import PHRASES, DateClock, whole
from millstream.http.asgi import Application, Scope
from millstream.http.cycle import Cycle
from millstream.http.http1 import Http1
from millstream.http.limits import HttpLimits
from millstream.http.line import NEVER, Line

_LOG: Final = logging.getLogger("millstream.http")
_BACKLOG: Final = 2048
_TICK_S: Final = 1.0
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_TEXT: Final = b"text/plain; charset=utf-8"

Refusal = Callable[[int, str], bytes]


class Counts:
    """Counters for metrics."""

    __slots__ = ("abuse", "connections", "refused", "requests", "requests_http2", "timeouts", "websockets")

    def __init__(self) -> None:
        self.connections = 0  # that are open
        self.refused = 0  # connections refused because of a limit
        self.requests = 0
        self.requests_http2 = 0  # of these
        self.websockets = 0
        self.timeouts = 0  # requests that arrived too slowly
        self.abuse = 0  # HTTP/2 connections closed for misuse


def plain_refusal(status: int, detail: str) -> bytes:
    """Return an answer of one line of text for a request that no application gets."""
    text = f"{status} {PHRASES[status]}"
    return whole(status, [(b"Content-Type", _TEXT)], text.encode())


class HttpListener:
    """Serves `application` from `start` to `stop`.

    `refusal` makes the answer to malformed requests: a whole HTTP/1.1 answer, or an empty one to abort the
    connection without an answer.
    """

    def __init__(
        self,
        application: Application,
        limits: HttpLimits,
        *,
        refusal: Refusal = plain_refusal,
        http2: bool = True,
        h2c_upgrade: bool = False,
        websockets: bool = True,
        counts: Counts | None = None,
        log: logging.Logger = _LOG,
    ) -> None:
        self.application = application
        self.limits = limits
        self.refusal = refusal
        self.http2 = http2
        self.h2c_upgrade = http2 and h2c_upgrade
        self.websockets = websockets
        self.counts = Counts() if counts is None else counts
        self.clock = DateClock()
        self.is_secure = False
        self.is_stopping = False
        self.loop: asyncio.AbstractEventLoop
        self.time: Callable[[], float]
        self.log = log
        self.complaints = Complaints(log)
        self.address = ("", 0)  # the first address that it listens on
        self._servers: list[asyncio.Server] = []
        self._lines: set[Line] = set()
        self._by_address: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    async def start(
        self,
        where: tuple[str, int] | Sequence[socket.socket],
        context: ssl.SSLContext | None = None,
        handshake_timeout_s: float | None = None,
    ) -> None:
        """Listen at a host and port, or on bound sockets, which the listener then owns."""
        self.loop = loop = asyncio.get_running_loop()
        self.time = loop.time
        self.is_secure = context is not None
        more: dict[str, Any] = {"ssl": context, "backlog": _BACKLOG}
        if context is not None:
            more["ssl_handshake_timeout"] = handshake_timeout_s or self.limits.head_timeout_s or None
        places: list[dict[str, Any]] = (
            [{"host": where[0], "port": where[1]}]
            if isinstance(where[0], str)
            else [{"sock": sock} for sock in where]
        )
        for place in places:
            server = await loop.create_server(lambda: Http1(self), **place, **more)
            self._servers.append(server)
            for sock in server.sockets:
                _watch_for_death(sock)
        host, port = self._servers[0].sockets[0].getsockname()[:2]
        self.address = str(host), int(port)
        self._tick()

    # -- connections ------------------------------------------------------------------------------------

    def admit(self, line: Line) -> bool:
        """Count a new connection; return False if there are too many."""
        limits = self.limits
        address = line.client[0] if line.client else ""
        if (
            (limits.connections and len(self._lines) >= limits.connections)
            or (
                limits.connections_per_address and self._by_address[address] >= limits.connections_per_address
            )
            or (limits.keeps_descriptors and is_kept(line.transport.get_extra_info("socket").fileno()))
        ):
            self.counts.refused += 1
            self.complaints.warn(
                "connections are refused; see the limits of connections, in all and per address"
            )
            return False
        self._lines.add(line)
        self.counts.connections += 1
        if limits.connections_per_address:
            self._by_address[address] += 1
        return True

    def replace(self, line: Line, other: Line) -> None:
        """Replace a connection's protocol by another."""
        self._lines.discard(line)
        self._lines.add(other)

    def forget(self, line: Line) -> None:
        """Forget a connection that has ended."""
        if line not in self._lines:
            return
        self._lines.discard(line)
        self.counts.connections -= 1
        if self._emptied is not None and not self._lines and not self._emptied.done():
            self._emptied.set_result(None)
        if self.limits.connections_per_address:
            address = line.client[0] if line.client else ""
            self._by_address[address] -= 1
            if self._by_address[address] <= 0:
                del self._by_address[address]

    def after(self, seconds: float) -> float:
        """Return the deadline in `seconds`, or never if that is zero."""
        return self.time() + seconds if seconds else NEVER

    def _tick(self) -> None:
        if self.is_stopping and not self._lines:
            return
        self._ticker = self.loop.call_later(_TICK_S, self._tick)
        self.clock.renew()
        self.sweep(self.time())

    def sweep(self, now: float) -> None:
        """Expire the connections whose deadline has passed."""
        for line in [line for line in self._lines if line.deadline <= now]:
            line.expire()

    # -- requests ---------------------------------------------------------------------------------------

    def run(self, cycle: Cycle) -> asyncio.Task[None]:
        """Serve a request in a task of its own."""
        self.counts.requests += 1
        tasks = self._tasks
        task = self.loop.create_task(cycle.run(self.application, tasks))
        tasks.add(task)
        cycle.start(task)
        return task

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that `stop` waits for."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def complain(self, scope: Scope, error: Exception) -> None:
        """Log an exception of the application."""
        where = scope.get("method", "WebSocket"), scope["path"]
        self.log.error("the application failed: %s %s", *where, exc_info=error)

    # -- the end ----------------------------------------------------------------------------------------

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        self.is_stopping = True
        for server in self._servers:
            server.close()

    async def stop(self, timeout_s: float) -> None:
        """Let open requests end, then close every connection."""
        self.stop_accepting()
        for line in list(self._lines):
            line.stop()
        if self._tasks and timeout_s:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)
        late = set(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        for line in list(self._lines):
            line.close()
        if self._lines and timeout_s:
            self._emptied = self.loop.create_future()
            await asyncio.wait([self._emptied], timeout=min(timeout_s, self.limits.linger_s))
        for line in list(self._lines):
            line.transport.abort()
        if self._ticker is not None:
            self._ticker.cancel()
        for server in self._servers:
            await server.wait_closed()


def _watch_for_death(listening: socket.socket) -> None:
    """Enable TCP keepalive, which accepted sockets inherit, to notice peers that vanished."""
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
