"""The Arrow endpoint of a server: its address, the threads of its requests, its start and stop.

The event loop accepts; each connection then has a thread of its own, so neither reading the log nor waiting
for a client is done on the loop.  If as many are served as may be, the next ones wait in the system's queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Final

from millstream.broker.listener import bind
from millstream.broker.tls import server_context
from millstream.config.reload import Area
from millstream.server.arrow.access import Access
from millstream.server.arrow.announcement import WILDCARDS, Announcement, bracketed
from millstream.server.arrow.conversation import Conversation
from millstream.server.arrow.gate import Gate
from millstream.server.arrow.source import Found, find
from millstream.server.arrow.tickets import Tickets

if TYPE_CHECKING:
    from millstream.arrow.options import ArrowOptions
    from millstream.config.reload import ReloadPlan
    from millstream.server.arrow.query import RangeQuery
    from millstream.server.server import Server

_log = logging.getLogger("millstream.arrow")

_BACKLOG: Final = 1024
_RETRY_S: Final = 0.1  # after running out of file descriptors, say


class ArrowEndpoint:
    """Started when JetStream is; goes on until the server stops."""

    def __init__(self, server: Server, options: ArrowOptions) -> None:
        self.port = 0
        self._server = server
        self._options = options
        self._loop = server.broker.loop
        self._gate = Gate(self._loop)
        tickets = Tickets()
        self._access = Access(server.broker, tickets)
        self._announcement = Announcement(server, tickets, options, self)
        self._context: ssl.SSLContext | None = None
        self._sockets: list[socket.socket] = []
        self._accepting = False
        # Filling batches takes processors from whoever publishes: leave some.
        self._working = threading.Semaphore(max(1, (os.cpu_count() or 1) // 2))
        self._conversations: dict[threading.Thread, Conversation] = {}

    @property
    def scheme(self) -> str:
        return "http" if self._context is None else "https"

    @property
    def url(self) -> str:
        """Where this machine finds it."""
        host = "127.0.0.1" if self._options.host in WILDCARDS else bracketed(self._options.host)
        return f"{self.scheme}://{host}:{self.port}"

    def start(self) -> None:
        """Listen; OSError if the address cannot be had."""
        self._renew_context()
        self._sockets = bind(self._options.host, self._options.port)
        self.port = self._sockets[0].getsockname()[1]
        for sock in self._sockets:
            sock.listen(_BACKLOG)
        self._accept_more()
        self._announcement.start()
        self._server.reload_listeners.append(self._reloaded)
        _log.info("Serving streams as Arrow on %s", self.url)

    async def stop(self) -> None:
        """Cut off whoever is connected; when this returns, nothing of the log is in use."""
        if self._reloaded in self._server.reload_listeners:
            self._server.reload_listeners.remove(self._reloaded)
        self._announcement.stop()
        self._accept_no_more()
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
        self._gate.close()
        for conversation in self._conversations.values():
            conversation.cut()
        for thread in list(self._conversations):
            await asyncio.to_thread(thread.join)

    def _reloaded(self, plan: ReloadPlan) -> None:
        if Area.TLS in plan.areas:
            self._renew_context()
        self._announcement.follow()

    def _renew_context(self) -> None:
        tls = self._server.options.broker.tls
        self._context = server_context(tls) if tls is not None else None

    # -- connections ------------------------------------------------------------------------------

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
            sock, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            _log.error("cannot accept a connection: %s", error)
            self._accept_no_more()
            self._loop.call_later(_RETRY_S, self._freed)
            return
        conversation = Conversation(sock, self._context, self._find, self._working)
        thread = threading.Thread(
            target=self._serve, args=(conversation,), name="millstream-arrow", daemon=True
        )
        self._conversations[thread] = conversation
        thread.start()
        if len(self._conversations) >= self._options.max_clients:
            self._accept_no_more()

    def _serve(self, conversation: Conversation) -> None:
        try:
            conversation.hold()
        except Exception:
            _log.exception("a request failed unexpectedly")
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody counts any more
            self._loop.call_soon_threadsafe(self._ended, threading.current_thread())

    def _ended(self, thread: threading.Thread) -> None:
        self._conversations.pop(thread, None)
        self._freed()

    def _freed(self) -> None:
        if self._sockets and len(self._conversations) < self._options.max_clients:
            self._accept_more()

    def _find(self, authorization: str, certificate: bytes | None, query: RangeQuery) -> Found:
        identity = self._access.identify(authorization, certificate)
        self._access.check_may_read(identity, query.stream)
        return find(self._gate, self._server.jetstream, identity.account, query)
