"""Listening sockets: every accepted connection becomes a ``Connection`` of the broker.

The event loop itself accepts plain TCP.  TLS sockets are accepted here, because their first bytes decide how
the handshake begins (see ``tls_accept``); each has its own task, so a peer that stops during its handshake
delays nobody.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import weakref
from typing import TYPE_CHECKING, Any, Final

from millstream.base.clock import SystemClock
from millstream.base.descriptors import is_kept
from millstream.base.reasons import CannotListen
from millstream.broker.close_reason import CloseReason
from millstream.broker.newcomers import UpgradePace
from millstream.broker.options import ConnectionType, TlsOptions
from millstream.broker.session import ConnectOptions
from millstream.broker.strangers import Strangers

# TLS and web sockets are imported by a listener that has them: most servers start without.
if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.handshake_pace import HandshakePace
    from millstream.broker.tls_accept import Accepted, HandshakeRate
    from millstream.broker.websocket import WebSocketProtocol
    from millstream.broker.websocket_upgrade import Upgrade, Upgrader

_log = logging.getLogger("millstream.broker")

BACKLOG: Final = 4096
_MOST_HANDSHAKES: Final = 1024  # at a time
# Bytes of a compressed web socket message from a client that has not logged in: CONNECT and little more.
_UNKNOWN_MESSAGE: Final = 64 * 1024
_ACCEPT_RETRY_S: Final = 0.1  # after running out of file descriptors, say
# Who connects to a listener, and how its port is chosen.
_PURPOSES: Final = {
    ConnectionType.STANDARD: ("clients", "-p, or port in the configuration"),
    ConnectionType.WEBSOCKET: ("websocket clients", "websocket.port in the configuration"),
    ConnectionType.LEAFNODE: ("leaf nodes", "leafnodes.port in the configuration"),
}


def bind(host: str, port: int, purpose: str, change: str) -> list[socket.socket]:
    """Return bound sockets for every address of `host`, all on one port; -1 or 0 lets the system choose it.

    Raises CannotListen, which names the purpose of the port and how another one is chosen.
    """
    try:
        return _bind(host, max(port, 0))
    except OSError as error:
        raise CannotListen(error, purpose, host, max(port, 0), change) from None


def _bind(host: str, port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    wildcard = host in ("", "0.0.0.0", "::")
    # Of a host that is text, Python imports the rules for foreign letters first.
    name = host.encode() if host.isascii() else host
    addresses = socket.getaddrinfo(
        None if wildcard else name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    if wildcard:  # one dual-stack socket, as the reference has it
        addresses.sort(key=lambda entry: entry[0] != socket.AF_INET6)
    try:
        for family, kind, protocol, _, address in addresses:
            if sockets and wildcard:
                break
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError:
                continue  # e.g. no IPv6 on this machine
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if wildcard else 1)
            sock.setblocking(False)
            if port == 0 and sockets:
                port = sockets[0].getsockname()[1]
            try:
                sock.bind((address[0], port, *address[2:]))
            except OSError:
                sock.close()
                if wildcard and family == socket.AF_INET6:
                    continue
                raise
            sockets.append(sock)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


class ClientListener:
    """One listening address.  ``close`` stops accepting; accepted connections stay."""

    def __init__(self, broker: Broker, kind: ConnectionType, tls: TlsOptions | None) -> None:
        self._broker = broker
        self._kind = kind
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._rate: HandshakeRate | None = None
        self._pace: HandshakePace | None = None
        if tls is not None:
            from millstream.broker.handshake_pace import HandshakePace
            from millstream.broker.tls_accept import HandshakeRate

            self.replace_context(tls)
            self._pace = HandshakePace(broker.turns.soon)
            self._rate = HandshakeRate(tls.connection_rate_limit, SystemClock())
        self._upgrader = self._make_upgrader()
        self._servers: list[asyncio.Server] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes = Strangers(_MOST_HANDSHAKES, "a finished TLS handshake", _log)
        self._sockets: list[socket.socket] = []
        self._upgrade_pace = UpgradePace(broker)
        self._upgrading: weakref.WeakSet[WebSocketProtocol] = weakref.WeakSet()  # or upgraded since
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; raise CannotListen if the address is unavailable."""
        purpose, change = _PURPOSES[self._kind]
        self._sockets = bind(host, port, purpose, change)
        self.port = self._sockets[0].getsockname()[1]
        loop = self._broker.loop
        for sock in self._sockets:
            if self._tls is None:
                server = await loop.create_server(self._make_protocol, sock=sock, backlog=BACKLOG)
                self._servers.append(server)
            else:
                sock.listen(BACKLOG)
                self._accepting.append(loop.create_task(self._accept(sock)))

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        await asyncio.gather(*self._accepting, *self._handshakes, return_exceptions=True)
        for websocket in list(self._upgrading):
            websocket.give_up()
        for sock in self._sockets:
            sock.close()

    def _make_upgrader(self) -> Upgrader | None:
        """Build the upgrader at the start, so that an invalid origin or header fails there."""
        options = self._broker.options.websocket
        if self._kind is not ConnectionType.WEBSOCKET or options is None:
            return None
        # Both now, so that the first client does not wait for an import.
        import millstream.broker.websocket  # noqa: F401
        from millstream.broker.websocket_upgrade import Upgrader

        return Upgrader(options, leafs=self._broker.leafs is not None and self._broker.leafs.hub is not None)

    def replace_context(self, tls: TlsOptions) -> None:
        """Use new certificates for future connections."""
        from millstream.broker.tls import server_context

        self._context = server_context(tls)
        self._tls = tls

    def _make_protocol(self) -> Any:
        if self._kind is ConnectionType.WEBSOCKET:
            return self._make_websocket()
        connection = self._broker.new_connection(self._kind)
        if self._broker.options.proxy_protocol and self._kind is ConnectionType.STANDARD:
            from millstream.broker.proxied import ProxiedProtocol

            return ProxiedProtocol(self._broker, connection)
        return connection

    def _make_websocket(self) -> WebSocketProtocol:
        from millstream.broker.websocket import WebSocketProtocol

        options = self._broker.options.websocket
        assert options is not None
        assert self._upgrader is not None
        websocket = WebSocketProtocol(
            self._broker.loop,
            self._upgrader,
            self._make_websocket_client,
            max_payload=self._first_payload(),
            handshake_timeout_s=options.handshake_timeout_s,
            refused=lambda reason: _log.error("websocket upgrade refused: %s", reason),
            pace=self._upgrade_pace,
        )
        self._upgrading.add(websocket)
        return websocket

    def _first_payload(self) -> int:
        """Return the payload limit until the client is known; then its account's applies."""
        options = self._broker.options
        if not self._broker.authenticator.required_for(self._kind):
            return options.max_payload
        return min(options.max_payload, max(options.max_control_line, _UNKNOWN_MESSAGE))

    def _make_websocket_client(self, transport: asyncio.Transport, upgrade: Upgrade) -> Any:
        if upgrade.leaf:
            assert self._broker.leafs is not None
            return self._broker.leafs.accept(upgrade)
        cookies = ConnectOptions(
            user=upgrade.username, password=upgrade.password, auth_token=upgrade.token, jwt=upgrade.jwt
        )
        return self._broker.new_connection(ConnectionType.WEBSOCKET, cookies, upgrade.client_ip)

    # -- TLS --------------------------------------------------------------------------------------

    async def _accept(self, sock: socket.socket) -> None:
        loop = self._broker.loop
        while True:
            try:
                client, address = await loop.sock_accept(sock)
            except OSError as error:
                _log.error("cannot accept a connection: %s", error)
                await asyncio.sleep(_ACCEPT_RETRY_S)
                continue
            if is_kept(client.fileno()):
                client.close()
                continue
            task = loop.create_task(self._handshake(client, address))
            self._handshakes.add(task, address[0])

    async def _handshake(self, client: socket.socket, address: tuple[Any, ...]) -> None:
        from millstream.broker.tls_accept import TlsHandshakeError, secure, secure_now

        assert self._tls is not None
        assert self._context is not None
        loop = self._broker.loop
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._kind is ConnectionType.WEBSOCKET:
            try:
                await secure_now(
                    loop, client, self._make_websocket, self._context, self._tls.timeout_s, self._pace
                )
            except TlsHandshakeError as error:
                _log.log(error.level, "websocket client %s:%d - %s", address[0], address[1], error)
            return
        connection = self._broker.new_connection(self._kind)
        greeting = self._broker.greeting(connection, address)

        def make(accepted: Accepted) -> Any:
            connection.session.greeted = accepted.info_sent
            return connection

        try:
            await secure(loop, client, make, self._tls, self._context, greeting, self._rate, self._pace)
        except TlsHandshakeError as error:
            _log.log(error.level, "%s - %s", connection, error)
            self._broker.never_connected(connection, CloseReason.TLS_HANDSHAKE_FAILURE)
