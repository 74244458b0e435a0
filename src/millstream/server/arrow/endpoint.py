"""The Arrow endpoint of a server: its address, its start and stop.

``clients`` serves connections.  It is imported with the first of them, so that a server starts without it.
"""

from __future__ import annotations

import logging
import socket
from functools import cached_property
from typing import TYPE_CHECKING, Final

from millstream.broker.listener import bind
from millstream.server.arrow.announcement import WILDCARDS, Announcement, bracketed

if TYPE_CHECKING:
    from millstream.arrow.options import ArrowOptions
    from millstream.config.reload import ReloadPlan
    from millstream.server.arrow.clients import Clients
    from millstream.server.arrow.tickets import Tickets
    from millstream.server.server import Server

_log = logging.getLogger("millstream.arrow")

_BACKLOG: Final = 1024
_RETRY_S: Final = 0.1  # seconds, for example after running out of file descriptors


class ArrowEndpoint:
    """The endpoint; it starts with JetStream and runs until the server stops."""

    def __init__(self, server: Server, options: ArrowOptions) -> None:
        self.port = 0
        self._server = server
        self._options = options
        self._loop = server.broker.loop
        self._announcement = Announcement(server, options, self)
        self._sockets: list[socket.socket] = []
        self._accepting = False
        self._clients: Clients | None = None

    @property
    def scheme(self) -> str:
        return "http" if self._server.options.broker.tls is None else "https"

    @property
    def url(self) -> str:
        """The URL of the endpoint on this machine."""
        host = "127.0.0.1" if self._options.host in WILDCARDS else bracketed(self._options.host)
        return f"{self.scheme}://{host}:{self.port}"

    @cached_property
    def tickets(self) -> Tickets:
        """The tickets with which clients of NATS authenticate over HTTP."""
        from millstream.server.arrow.tickets import Tickets

        return Tickets()

    def start(self) -> None:
        """Start to listen; raises CannotListen if the address is not available."""
        if self._server.options.broker.tls is not None:
            self._welcome()  # fails here if a certificate cannot be used
        self._sockets = bind(self._options.host, self._options.port, "readers of Arrow", "--arrow_port")
        self.port = self._sockets[0].getsockname()[1]
        for sock in self._sockets:
            sock.listen(_BACKLOG)
        self._accept_more()
        self._announcement.start()
        self._server.reload_listeners.append(self._reloaded)
        _log.info("Serving streams as Arrow on %s", self.url)

    async def stop(self) -> None:
        """Disconnect all clients; when this returns, no part of the log is in use."""
        if self._reloaded in self._server.reload_listeners:
            self._server.reload_listeners.remove(self._reloaded)
        self._announcement.stop()
        self._accept_no_more()
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
        if self._clients is not None:
            await self._clients.stop()

    def _reloaded(self, plan: ReloadPlan) -> None:
        self._announcement.follow()
        if self._clients is not None or self._server.options.broker.tls is not None:
            self._welcome().reloaded(plan)

    def _welcome(self) -> Clients:
        if self._clients is None:
            from millstream.server.arrow.clients import Clients

            self._clients = Clients(self._server, self._options, self.tickets)
        return self._clients

    def _accept_more(self) -> None:
        if not self._accepting:
            self._accepting = True
            for sock in self._sockets:
                self._loop.add_reader(sock, self._accept, sock)

    def _accept_no_more(self) -> None:
        if self._accepting:
            self._accepting = False
            for sock in self._sockets:
                self._loop.remove_reader(sock)

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, address = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            _log.error("cannot accept a connection: %s", error)
            self._accept_no_more()
            self._loop.call_later(_RETRY_S, self._retry)
            return
        self._welcome().add(sock, address[0])

    def _retry(self) -> None:
        if self._sockets:
            self._accept_more()
