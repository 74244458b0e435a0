"""A connection of an event loop that logs in and then hands every answer to one receiver.

``open_connection`` does what `blocking` does with a socket: INFO, TLS, CONNECT, PONG.  Operations that are
not messages are dealt with here.  Not here: what to do when it ends (`async_publisher`).
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final, cast

from millstream.base.reasons import connection_reason
from millstream.link.errors import LinkError, NotConnected, ProtocolViolation
from millstream.link.login import (
    ServerInfo,
    connect_frames,
    read_info,
    refusal,
    tls_context,
    wants_tls,
)
from millstream.link.options import LinkOptions, ServerAddress
from millstream.link.parser import Op, Parser

_ROOM: Final = 128 * 1024  # bytes asked for at once
_MOST_PINGS: Final = 2  # of ours without an answer, then the connection is dead
PING_INTERVAL_S: Final = 20.0


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection; `lost` is called once, with the reason, when it has ended after it was opened."""

    def __init__(
        self,
        server: ServerAddress,
        receive: Callable[[Parser], object],
        received: Callable[[], None],
        writable: Callable[[], None],
        lost: Callable[[LinkError], None],
    ) -> None:
        self.server: Final = server
        self.info = ServerInfo()
        self.can_write = True
        self.told: Callable[[str], None] | None = None  # of errors that do not end the connection
        self._receive = receive
        self._received = received
        self._writable = writable
        self._lost = lost
        self._parser = Parser()
        self._transport: asyncio.Transport | None = None
        self._reason: LinkError | None = None
        self._awaited: asyncio.Future[None] | None = None
        self._awaited_op = Op.NEED_MORE
        self._greeted = False
        self._options = LinkOptions()
        self._open = False
        self._pings = 0
        self._ping_timer: asyncio.TimerHandle | None = None

    # -- called by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._parser.room(_ROOM)

    def buffer_updated(self, count: int) -> None:
        parser = self._parser
        parser.filled(count)
        try:
            op = parser.next()
            while op != Op.NEED_MORE:
                if op == Op.MSG:
                    self._receive(parser)
                else:
                    self._take(op)
                op = parser.next()
        except LinkError as error:
            self.abort(error)
            return
        self._received()

    def eof_received(self) -> None:
        if self._reason is None:
            self._reason = NotConnected(f"{self.server} closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        reason = self._reason
        if reason is None:
            cause = f" broke: {error}" if error is not None else " was closed"
            reason = NotConnected(f"the connection to {self.server}{cause}")
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(reason)
        if self._open:
            self._open = False
            self._lost(reason)

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        self._writable()

    # -- called by us -------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self, reason: LinkError) -> None:
        """End it now, and tell `lost` why."""
        if self._reason is None:
            self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End it after what was written; nobody is told."""
        self._open = False
        if self._transport is not None:
            self._transport.close()

    def _take(self, op: int) -> None:
        if op == Op.PING:
            self.write(b"PONG\r\n")
        elif op == Op.PONG:
            self._pings = 0
        elif op == Op.INFO:
            self.info = read_info(self._parser.line())
            self._greeted = True
        elif op == Op.ERR:
            line = self._parser.line()
            if not line.strip(b"'").lower().startswith(b"permissions violation"):
                raise refusal(self.server, line, self._options)
            if self.told is not None:
                self.told(line.strip(b"'").decode(errors="replace"))
        if op == self._awaited_op and self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def _keep_alive(self, interval_s: float) -> None:
        if self._pings >= _MOST_PINGS:
            self.abort(NotConnected(f"{self.server} does not answer any more"))
            return
        self._pings += 1
        self.write(b"PING\r\n")
        loop = asyncio.get_running_loop()
        self._ping_timer = loop.call_later(interval_s, self._keep_alive, interval_s)

    # -- logging in ---------------------------------------------------------------------------------

    async def log_in(
        self, options: LinkOptions, ping_interval_s: float, context: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        self._options = options
        first = options.tls is not None and options.tls.first
        if not self._greeted:  # it may have been there before we asked
            await self._wait_for(Op.INFO)
        if not first and wants_tls(options, self.server, self.info):
            if self._parser.rest():
                raise ProtocolViolation("the server spoke in the clear where TLS should begin")
            assert self._transport is not None
            transport = await loop.start_tls(
                self._transport, self, context or tls_context(options), server_hostname=self.server.host
            )
            assert transport is not None
            self._transport = transport
        self.write(connect_frames(options, self.server, self.info))
        await self._wait_for(Op.PONG)
        self._open = True
        self._ping_timer = loop.call_later(ping_interval_s, self._keep_alive, ping_interval_s)

    async def _wait_for(self, op: Op) -> None:
        self._awaited_op = op
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            await self._awaited
        finally:
            self._awaited_op = Op.NEED_MORE
            self._awaited = None


async def open_connection(
    options: LinkOptions,
    connection: AsyncConnection,
    *,
    ping_interval_s: float = PING_INTERVAL_S,
    context: ssl.SSLContext | None = None,
) -> None:
    """Connect to the server of `connection` and log in; NotConnected and the like if that fails.

    `context` is for TLS, in place of the files that the options name.
    """
    server = connection.server
    loop = asyncio.get_running_loop()
    first = options.tls is not None and options.tls.first
    try:
        async with asyncio.timeout(options.connect_timeout_s):
            await loop.create_connection(
                lambda: connection,
                server.host,
                server.port,
                ssl=(context or tls_context(options)) if first else None,
                server_hostname=server.host if first else None,
            )
            await connection.log_in(options, ping_interval_s, context)
    except LinkError:
        connection.close()
        raise
    except (OSError, TimeoutError) as error:
        connection.close()
        raise NotConnected(f"cannot connect to {server}: {connection_reason(error)}") from None
    except BaseException:
        with contextlib.suppress(OSError):
            connection.close()
        raise


async def check_login(options: LinkOptions, context: ssl.SSLContext | None = None) -> None:
    """Log in to the first server of the options, and leave; LinkError says why that fails."""

    def ignore(*_: object) -> None:
        pass

    connection = AsyncConnection(options.servers[0], ignore, ignore, ignore, ignore)
    await open_connection(options, connection, context=context)
    connection.close()
