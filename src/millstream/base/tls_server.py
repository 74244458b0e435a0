"""TLS contexts for servers that verify every client certificate and report every failed handshake.

They add two things to ``ssl.SSLContext``:

*   OpenSSL does not check a client's certificate again when a session is resumed, so an expired certificate
    would stay valid as long as its sessions.  Python can switch off tickets, but not the cache of TLS 1.2's
    session ids.  A context that verifies clients therefore begins each handshake with a new context that has
    no cache and no known ticket key: nothing can be resumed, and every handshake is a full one.  A context
    that does not verify clients resumes sessions as OpenSSL does.
*   When a handshake fails, an event loop closes the connection and drops the alert that OpenSSL has written
    for the client.  A failed handshake here first asks the loop for more data, which makes the loop send the
    alert, and calls ``failure_handler``, which closes the connection.  Without a handler the connection ends
    when the client closes it or the handshake times out.

Sockets wrapped with ``wrap_socket`` send their alerts themselves.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Self

# Called with the error of a failed handshake that was begun in this context (of contextvars).
failure_handler: ContextVar[Callable[[ssl.SSLError], None] | None] = ContextVar(
    "failure_handler", default=None
)


class ServerContext(ssl.SSLContext):
    """A context for PROTOCOL_TLS_SERVER; call ``require_certificates`` to verify clients."""

    _curve: str | None = None

    def __new__(cls) -> Self:
        self = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        self.sslobject_class = _TellingObject
        return self

    def set_ecdh_curve(self, name: str, /) -> None:
        super().set_ecdh_curve(name)
        self._curve = name

    def require_certificates(self) -> None:
        """Refuse clients without a certificate signed by one of the loaded authorities."""
        self.verify_mode = ssl.CERT_REQUIRED

    @property
    def verifies(self) -> bool:
        """Return True if clients must present certificates."""
        return self.verify_mode is ssl.CERT_REQUIRED

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a handshake in memory, as event loops do."""
        if self.verifies:
            secured = self._beginning().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        else:
            secured = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(secured, _TellingObject)
        secured.watch(incoming, failure_handler.get())
        return secured

    def wrap_socket(  # type: ignore[override]
        self, sock: socket.socket, server_side: bool = True, do_handshake_on_connect: bool = False
    ) -> ssl.SSLSocket:
        """Begin a handshake on a socket; the caller completes it."""
        if self.verifies:
            return self._beginning().wrap_socket(sock, server_side, do_handshake_on_connect)
        return super().wrap_socket(sock, server_side, do_handshake_on_connect)

    def _beginning(self) -> ssl.SSLContext:
        """Return a context for the beginning of one handshake, which then continues with this one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = _TellingObject
        # OpenSSL copies these to the connection before it switches to this context; it looks up the rest
        # later.
        context.minimum_version = self.minimum_version
        context.maximum_version = self.maximum_version
        context.verify_mode = self.verify_mode
        context.options = self.options | ssl.OP_NO_TICKET
        context.num_tickets = 0
        if self._curve is not None:
            context.set_ecdh_curve(self._curve)

        def go_on(secured: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
            secured.context = self

        context.sni_callback = go_on
        return context


class _TellingObject(ssl.SSLObject):
    """One end of a connection; a failed handshake waits until its alert has been sent."""

    _incoming: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None
    _tell: Callable[[ssl.SSLError], None] | None = None

    def watch(self, incoming: ssl.MemoryBIO, tell: Callable[[ssl.SSLError], None] | None) -> None:
        self._incoming = incoming
        self._tell = tell

    def do_handshake(self) -> None:
        if self._failure is not None:
            self._incoming.read()  # data after the failure is discarded
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            if self._tell is not None:
                self._tell(error)
            raise ssl.SSLWantReadError from error
