"""One TCP connection of an event loop, from its login to its end; it is not reused.

``open_connection`` does INFO, TLS, CONNECT and PONG.  Then input goes through the parser to the link's
`Dialogue`, and `ended` is called exactly once, with the reason.  `link` decides what happens after that.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import Any, Final, Protocol, cast

from millstream.base.reasons import connection_reason
from millstream.link.dialogue import Dialogue
from millstream.link.errors import LinkError, NotConnected, ProtocolViolation, TlsFailure
from millstream.link.login import ServerInfo, connect_frames, read_info, refusal, tls_context, wants_tls
from millstream.link.options import LinkOptions, ServerAddress
from millstream.link.parser import LinkOp, LinkParser

PING_INTERVAL_S: Final = 20.0
_ROOM: Final = 128 * 1024  # bytes of one read
_MOST_PINGS: Final = 2  # unanswered pings after which the connection is dead

_LOG: Final = logging.getLogger("millstream.link")


class Owner(Protocol):
    """The link of a connection, as the connection sees it."""

    def received(self) -> None:
        """Called after each chunk that was read and dispatched."""

    def writable(self) -> None:
        """Called when the server reads again."""

    def ended(self, connection: "LinkConnection", reason: LinkError) -> None:
        """Called once when a connection has ended, if it was logged in."""


class LinkConnection(asyncio.BufferedProtocol):
    """One connection; `is_open` is true from the end of the login to the end of the connection."""

    def __init__(self, server: ServerAddress, dialogue: Dialogue, owner: Owner) -> None:
        self.server: Final = server
        self.info = ServerInfo()
        self.can_write = True
        self.is_open = False
        self._dialogue = dialogue
        self._owner = owner
        self._parser = LinkParser()
        self._transport: asyncio.Transport | None = None
        self._reason: LinkError | None = None  # why it ends, if known
        self._gone: LinkError | None = None  # it has ended
        self._awaited: asyncio.Future[None] | None = None
        self._awaited_op = LinkOp.NEED_MORE
        self._greeted = False
        self._options = dialogue.options
        self._pings = 0
        self._ping_timer: asyncio.TimerHandle | None = None

    # -- called by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._parser.room(_ROOM)

    def buffer_updated(self, count: int) -> None:
        self._parser.filled(count)
        if self.is_open:
            self._pings = 0
            self._converse()
        else:
            self._log_in_further()

    def eof_received(self) -> None:
        if self.is_open:
            self._because(NotConnected(f"{self.server} closed the connection"))

    def connection_lost(self, error: Exception | None) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        self._gone = self._reason or self._why(error)
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(self._gone)
        if self.is_open:
            self.is_open = False
            self._owner.ended(self, self._gone)

    def _why(self, error: Exception | None) -> NotConnected:
        if self.is_open:
            cause = f"broke: {connection_reason(error)}" if error is not None else "was closed"
            return NotConnected(f"the connection to {self.server} {cause}")
        if error is None or isinstance(error, ConnectionResetError | BrokenPipeError):
            reason = "it closed the connection during the login; check the credentials, and TLS"
        else:
            reason = connection_reason(error)
        kind = TlsFailure if isinstance(error, ssl.SSLError) else NotConnected
        return kind(f"cannot connect to {self.server}: {reason}")

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        self._owner.writable()

    def _converse(self) -> None:
        dialogue, parser = self._dialogue, self._parser
        run = dialogue.dispatcher.run
        while True:
            try:
                op = run(parser)
                if op == LinkOp.NEED_MORE:
                    break
                answer = dialogue.take(op, parser)
                if answer:
                    self.write(answer)
            except LinkError as error:
                self.abort(error)
                break
            except Exception as error:  # an error of a receiver does not end the connection
                _LOG.error("a receiver of messages failed: %r", error, exc_info=error)
        for failure in dialogue.dispatcher.chunk_ended():
            _LOG.error("a receiver of messages failed: %r", failure, exc_info=failure)
        self._owner.received()

    # -- called by us -------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """The number of bytes that are not written to the socket yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self, reason: LinkError) -> None:
        """End the connection now; `ended` gets the reason."""
        self._because(reason)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End the connection after the pending writes, without calling `ended`."""
        self.is_open = False
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        if self._transport is not None:
            self._transport.close()

    def _because(self, reason: LinkError) -> None:
        if self._reason is None:
            self._reason = reason

    def _keep_alive(self, interval_s: float) -> None:
        if self._pings >= _MOST_PINGS:
            self.abort(NotConnected(f"{self.server} does not answer any more"))
            return
        self._pings += 1
        self.write(b"PING\r\n")
        self._ping_timer = asyncio.get_running_loop().call_later(interval_s, self._keep_alive, interval_s)

    # -- the login ----------------------------------------------------------------------------------

    async def log_in(self, ping_interval_s: float, context: ssl.SSLContext | None, tls_name: str) -> None:
        """Log in; return when the server has accepted us."""
        options = self._options
        first = options.tls is not None and options.tls.first
        if not self._greeted:  # INFO may have come already
            await self._wait_for(LinkOp.INFO)
        if not first and wants_tls(options, self.server, self.info):
            if self._parser.rest():
                raise ProtocolViolation("the server spoke in the clear where TLS should begin")
            assert self._transport is not None
            transport = await asyncio.get_running_loop().start_tls(
                self._transport, self, context or tls_context(options), server_hostname=tls_name
            )
            if transport is None or self._gone is not None:
                raise self._gone or ConnectionResetError
            self._transport = transport
        self.write(connect_frames(options, self.server, self.info))
        await self._wait_for(LinkOp.PONG)
        if self._gone is not None:  # sent together
            raise self._gone
        self.is_open = True
        self._ping_timer = asyncio.get_running_loop().call_later(
            ping_interval_s, self._keep_alive, ping_interval_s
        )

    def _log_in_further(self) -> None:
        try:
            while (op := self._parser.next()) != LinkOp.NEED_MORE:
                if op == LinkOp.INFO:
                    self.info = read_info(self._parser.line())
                    self._greeted = True
                elif op == LinkOp.PING:
                    self.write(b"PONG\r\n")
                elif op == LinkOp.ERR:
                    raise refusal(self.server, self._parser.line(), self._options)
                if op == self._awaited_op and self._awaited is not None and not self._awaited.done():
                    self._awaited.set_result(None)
        except LinkError as error:
            self.abort(error)

    async def _wait_for(self, op: LinkOp) -> None:
        if self._gone is not None:
            raise self._gone
        self._awaited_op = op
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            await self._awaited
        finally:
            self._awaited_op = LinkOp.NEED_MORE
            self._awaited = None


async def _connect(connection: LinkConnection, server: ServerAddress, **keywords: Any) -> None:
    """Connect to the first address of a server that can be reached; raises OSError.

    Names are looked up here: uvloop's ``create_connection`` leaves a look-up behind when it is cancelled,
    and its failure is printed later.
    """
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    found = await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    for host in dict.fromkeys(_host_of(info[4]) for info in found):
        try:
            await loop.create_connection(lambda: connection, host, server.port, **keywords)
            return
        except ssl.SSLError:
            raise
        except OSError as error:
            failure = failure or error
    raise failure or OSError("its name has no address")


def _host_of(address: tuple[Any, ...]) -> str:
    """Return the host of an address, with the scope that a link-local one needs."""
    host: str = address[0]
    return f"{host}%{address[3]}" if len(address) == 4 and address[3] and "%" not in host else host


async def open_connection(
    connection: LinkConnection,
    options: LinkOptions,
    *,
    tls_name: str = "",
    ping_interval_s: float = PING_INTERVAL_S,
    context: ssl.SSLContext | None = None,
) -> None:
    """Connect to the server of `connection` and log in; raises NotConnected or a subclass.

    `context` is a TLS context that replaces the files of the options.
    """
    server = connection.server
    first = options.tls is not None and options.tls.first
    name = tls_name or server.host
    try:
        async with asyncio.timeout(options.connect_timeout_s or None):
            await _connect(
                connection,
                server,
                ssl=(context or tls_context(options)) if first else None,
                server_hostname=name if first else None,
            )
            await connection.log_in(ping_interval_s, context, name)
    except ProtocolViolation as error:
        connection.close()
        raise NotConnected(
            f"cannot connect to {server}: it does not speak NATS; check the port ({error})"
        ) from None
    except LinkError:
        connection.close()
        raise
    except (OSError, TimeoutError) as error:
        connection.close()
        kind = TlsFailure if isinstance(error, ssl.SSLError) else NotConnected
        raise kind(f"cannot connect to {server}: {connection_reason(error)}") from None
    except BaseException:
        with contextlib.suppress(OSError):
            connection.close()
        raise
