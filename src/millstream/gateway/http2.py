"""HTTP/2 by hypercorn's protocol, on a connection whose first bytes asked for it.

hypercorn reads from a stream, so what has arrived already is put back in front.  It also speaks HTTP/1.1, for
those that ask for an upgrade and then do not go on with it.

What hypercorn leaves open is bounded here, for each connection:

    requests that were reset    they count until they are done, and each costs the peer some of its credit
                                (CVE-2023-44487, and its kin with other frames that cost us more than him)
    the first request           it comes within `head_timeout_s`
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Final, cast

import h2.events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H2CProtocolRequiredError, H2ProtocolAssumedError
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr

from millstream.gateway.alarms import Alarm
from millstream.gateway.exchange import Application
from millstream.gateway.settings import Limits

_STREAMS: Final = 100  # open at once, of one connection
_RUNNING: Final = 2 * _STREAMS  # requests that are being served, those that were reset included
_PIECE: Final = 16 * 1024  # bytes that are read at once
_CREDIT: Final = 1000.0
_CREDIT_A_SECOND: Final = 100.0
_COSTS: Final[dict[type, float]] = {
    h2.events.StreamReset: 5.0,
    h2.events.PingReceived: 1.0,
    h2.events.RemoteSettingsChanged: 1.0,
    h2.events.PriorityUpdated: 1.0,
}


class Http2:
    """The HTTP/2 side of one listener."""

    def __init__(self, application: Application, limits: Limits) -> None:
        self._application = ASGIWrapper(cast(Any, application))
        self._config = _config(limits)
        self._head_timeout_s = limits.head_timeout_s
        self._context = WorkerContext(None)
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(
            "an HTTP/2 connection was closed: its peer resets requests, or sends too many frames"
        )

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
        server = _Server(self._application, loop, self._config, self._context, cast(Any, {}), reader, writer)
        server.alarm = self._alarm
        task = loop.create_task(server.run())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self._head_timeout_s:
            timer = loop.call_later(self._head_timeout_s, server.expect_request)
            task.add_done_callback(lambda _: timer.cancel())
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


class _Server(TCPServer):
    """One connection, as hypercorn serves it, with an HTTP/2 of ours."""

    alarm: Alarm

    async def run(self) -> None:
        socket = self.writer.get_extra_info("socket")
        ssl_object = self.writer.get_extra_info("ssl_object")
        try:
            async with TaskGroup(self.loop) as group:
                self._task_group = group
                self.protocol = _Protocol(
                    self.app,
                    self.config,
                    self.context,
                    group,
                    ConnectionState(self.state),
                    ssl_object is not None,
                    parse_socket_addr(socket.family, socket.getpeername()),
                    parse_socket_addr(socket.family, socket.getsockname()),
                    self.protocol_send,
                    None if ssl_object is None else ssl_object.selected_alpn_protocol(),
                )
                self.protocol.adopt(self.alarm)
                await self.protocol.initiate()
                await self.idle_task.restart(group, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass
        finally:
            await self._close()

    async def _read_data(self) -> None:
        """Read in pieces that are soon dealt with: a piece of hypercorn's size has a thousand requests."""
        while not self.reader.at_eof() and not self.writer.is_closing():
            try:
                data = await self.reader.read(_PIECE)
            except OSError:
                break
            await self.protocol.handle(RawData(data))
            await asyncio.sleep(0)
        await self.protocol.handle(Closed())

    def expect_request(self) -> None:
        """Close a connection on which no request came."""
        protocol = getattr(self, "protocol", None)
        if protocol is None or not protocol.has_served:
            self.writer.transport.abort()


class _Protocol(ProtocolWrapper):
    """HTTP/2 at once, or after hypercorn's HTTP/1.1 was asked for it."""

    alarm: Alarm

    def adopt(self, alarm: Alarm) -> None:
        self.alarm = alarm
        if isinstance(self.protocol, H2Protocol):
            self.protocol = self._http2()

    @property
    def has_served(self) -> bool:
        """Whether there was a request; those of HTTP/1.1 are there before they get here."""
        return not isinstance(self.protocol, _Connection) or self.protocol.keep_alive_requests > 0

    async def handle(self, event: Event) -> None:
        try:
            await self.protocol.handle(event)
        except H2ProtocolAssumedError as error:
            await self._switch(error.data)
        except H2CProtocolRequiredError as error:
            await self._switch(error.data, error.headers, error.settings)

    async def _switch(self, data: bytes, *request: Any) -> None:
        self.protocol = self._http2()
        await self.protocol.initiate(*request)
        if data:
            await self.protocol.handle(RawData(data=data))

    def _http2(self) -> _Connection:
        made = _Connection(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.state,
            self.ssl,
            self.client,
            self.server,
            self.send,
        )
        made.alarm = self.alarm
        return made


class _Connection(H2Protocol):
    """The streams of one connection."""

    alarm: Alarm

    def __init__(self, app: Any, *arguments: Any) -> None:
        super().__init__(cast(AppWrapper, self._serve), *arguments)
        self._application = app
        self._running = 0
        self._credit = _CREDIT
        self._counted = time.monotonic()

    async def _serve(self, *arguments: Any) -> None:
        self._running += 1
        try:
            await self._application(*arguments)
        finally:
            self._running -= 1

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        given_up = {event.stream_id for event in events if isinstance(event, h2.events.StreamReset)}
        for event in events:
            if self.closed:
                return
            if not self._pays(event):
                self.alarm.ring()
                await self._end()
                return
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                # The answer was given before the end of the request, whose rest nobody wants.
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                continue
            if isinstance(event, h2.events.RequestReceived) and event.stream_id in given_up:
                continue  # not even begun
            await super()._handle_events([event])
        await self._flush()

    def _pays(self, event: h2.events.Event) -> bool:
        """Whether the peer may send this: it has credit, which it gets back in time."""
        if isinstance(event, h2.events.RequestReceived):
            return self._running < _RUNNING
        cost = _COSTS.get(type(event), 0.0)
        if not cost:
            return True
        now = time.monotonic()
        self._credit = min(_CREDIT, self._credit + (now - self._counted) * _CREDIT_A_SECOND) - cost
        self._counted = now
        return self._credit >= 0

    async def _end(self) -> None:
        with contextlib.suppress(ProtocolError):
            self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
        await self._flush()
        await self.handle(Closed())
        await self.send(Closed())


def _config(limits: Limits) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = limits.idle_timeout_s or 365 * 24 * 3600.0
    # hypercorn would end a connection after so many requests, with those that are under way: `_COSTS` is
    # what stands against peers that send requests only to reset them.
    config.keep_alive_max_requests = 2**31
    config.h2_max_concurrent_streams = _STREAMS
    config.h2_max_header_list_size = limits.max_head or 2**20
    config.h11_max_incomplete_size = limits.max_head or 2**20
    return config
