"""Turn an accepted socket into a connection, in clear or over TLS, as the options say.

    plain                  INFO in clear, then the handshake
    handshake_first        the handshake, then the connection sends INFO itself
      with a fallback      wait that long for the client to begin; silent: INFO in clear, continue as plain
    allow_non_tls          INFO in clear, then the client's first byte decides: 0x16 begins a handshake

Nothing is read here: the first byte is only peeked at, before a transport exists, because uvloop does not let
anybody watch a socket that has one.  This module owns the socket until the loop has it.

Always true:  on any error, and when the caller is cancelled, the socket is closed.
Not here:     contexts (broker.tls), the content of INFO and everything after the handshake (the connection).
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import msgspec

from millstream.base.clock import Clock
from millstream.base.errors import MillstreamError
from millstream.base.tls_server import failure_handler
from millstream.broker.handshake_pace import HandshakePace
from millstream.broker.options import TlsOptions

_HANDSHAKE_RECORD: Final = 0x16
_WINDOW_S: Final = 1.0
_LINGER_S: Final = 1.0  # for the alert of a failed handshake to arrive
# What OpenSSL calls bytes that do not even begin like TLS.
_NO_RECORD: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL")
THROTTLED: Final = b"-ERR 'Connection throttling is active. Please try again later.'\r\n"


class TlsHandshakeError(MillstreamError):
    """The client is gone or failed the handshake; its socket is closed."""

    level = logging.ERROR  # to log it at


class NotTls(TlsHandshakeError):
    """The client was silent or spoke another protocol; logged quietly, because of port scanners."""

    level = logging.DEBUG


class ConnectionThrottled(TlsHandshakeError):
    """Raised on too many handshakes in a second; the client was told, and its socket is closed."""


class Accepted(msgspec.Struct, frozen=True):
    """Result of the negotiation before the protocol was created."""

    tls: bool
    info_sent: bool  # False: the connection has to send INFO


class HandshakeRate:
    """Limits the handshakes that begin in each second; 0: unlimited."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._window_end = float("-inf")
        self._count = 0

    def allow(self) -> bool:
        """Count one handshake; return True if it may begin."""
        if self._limit <= 0:
            return True
        now = self._clock.monotonic()
        if now > self._window_end:
            self._window_end = now + _WINDOW_S
            self._count = 0
        self._count += 1
        return self._count <= self._limit


async def secure(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    protocol_factory: Callable[[Accepted], asyncio.Protocol],
    options: TlsOptions,
    context: ssl.SSLContext,
    info: bytes,
    rate: HandshakeRate | None = None,
    pace: HandshakePace | None = None,
) -> None:
    """Turn a newly accepted socket into a connection; `info` is what may be sent in clear.

    The factory is called when the kind of connection is known, `connection_made` after the handshake.  Raises
    TlsHandshakeError if it does not get that far.
    """
    try:
        sock.setblocking(False)
        accepted = await _negotiate(loop, sock, options, info)
        if accepted.tls and rate is not None and not rate.allow():
            await loop.sock_sendall(sock, THROTTLED)
            raise ConnectionThrottled("connection throttling is active")
    except OSError as error:
        sock.close()
        raise TlsHandshakeError(f"client is gone: {error}") from None
    except BaseException:
        sock.close()
        raise
    if accepted.tls:
        await secure_now(loop, sock, lambda: protocol_factory(accepted), context, options.timeout_s, pace)
    else:
        await _connect(loop, sock, lambda: protocol_factory(accepted))


async def secure_now(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    protocol_factory: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext,
    timeout_s: float,
    pace: HandshakePace | None = None,
) -> None:
    """Do the handshake when `pace` lets it begin, as for websockets and handshake_first."""
    sock.setblocking(False)
    if pace is not None:
        try:
            await pace.turn()
        except BaseException:
            sock.close()
            raise
    await _connect(loop, sock, protocol_factory, context, timeout_s)


async def _connect(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    protocol_factory: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext | None = None,
    timeout_s: float | None = None,
) -> None:
    try:
        protocol = protocol_factory()
    except BaseException:
        sock.close()
        raise
    failure: asyncio.Future[Any] = loop.create_future()
    failure_handler.set(failure.set_result)  # in the context of this task, whose copy the transport gets
    connecting: asyncio.Future[Any] = asyncio.ensure_future(
        loop.connect_accepted_socket(lambda: protocol, sock, ssl=context, ssl_handshake_timeout=timeout_s)
    )
    try:
        await asyncio.wait([connecting, failure], return_when=asyncio.FIRST_COMPLETED)
        if failure.done():
            await _hang_up(sock, connecting)
            raise failure.result()
        await connecting
    except (OSError, EOFError) as error:
        raise _explained(error) from None
    finally:
        connecting.cancel()


async def _hang_up(sock: socket.socket, connecting: asyncio.Future[Any]) -> None:
    """Wait until the client has received the alert and closed, which it must do soon.

    Closing at once, while it still sends, would destroy the alert on its way.
    """
    await asyncio.sleep(0)  # the transport sends it in this round
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
    await asyncio.wait({connecting}, timeout=_LINGER_S)
    if connecting.done():
        connecting.exception()  # it ended, as it should


def _explained(error: Exception) -> TlsHandshakeError:
    if isinstance(error, ConnectionAbortedError):
        return NotTls("TLS handshake timeout")
    if isinstance(error, ConnectionResetError | BrokenPipeError | EOFError):
        return TlsHandshakeError("TLS handshake error: EOF")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsHandshakeError(
            f"TLS handshake error: failed to verify the client's certificate: {error.verify_message}"
        )
    reason = getattr(error, "reason", None) or ""
    if reason in _NO_RECORD:
        return NotTls("TLS handshake error: the first record does not look like a TLS handshake")
    return TlsHandshakeError(f"TLS handshake error: {reason.replace('_', ' ').lower() or error}")


async def _negotiate(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, options: TlsOptions, info: bytes
) -> Accepted:
    if options.handshake_first:
        fallback_s = options.handshake_first_fallback_s
        if not fallback_s or await _first_byte(loop, sock, fallback_s) is not None:
            return Accepted(tls=True, info_sent=False)
    await loop.sock_sendall(sock, info)
    if options.allow_non_tls:
        first = await _first_byte(loop, sock, options.timeout_s)
        return Accepted(tls=first == _HANDSHAKE_RECORD, info_sent=True)
    return Accepted(tls=True, info_sent=True)


async def _first_byte(loop: asyncio.AbstractEventLoop, sock: socket.socket, timeout_s: float) -> int | None:
    """Return the first byte of the client without consuming it; None if it stays silent."""
    readable = loop.create_future()

    def wake() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(sock, wake)
    try:
        async with asyncio.timeout(timeout_s):
            await readable
    except TimeoutError:
        return None
    finally:
        loop.remove_reader(sock)
    data = sock.recv(1, socket.MSG_PEEK)
    if not data:
        raise ConnectionResetError("it closed the connection")
    return data[0]
