"""The clients of the Arrow endpoint.

    accepted ──▶ stranger: handshake, head, credentials, on the loop ──▶ a place ──▶ a thread that answers

Only a client that may read gets a thread; neither reading the log nor waiting for a client runs on the loop.
At most `_MOST_STRANGERS` clients may be unauthenticated.  Beyond that, the oldest connection of the address
that has the most is dropped, so that a client which sends its request promptly gets through beside many
silent ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from millstream.broker.strangers import Strangers
from millstream.broker.tls import server_context
from millstream.broker.tls_peer import pins_allow
from millstream.config.reload import Area
from millstream.server.arrow import reception
from millstream.server.arrow.access import Access
from millstream.server.arrow.conversation import Conversation, Grant
from millstream.server.arrow.gate import Gate
from millstream.server.arrow.loop_socket import LoopSocket
from millstream.server.arrow.places import Places
from millstream.server.arrow.problem import ArrowProblem, Gone
from millstream.server.arrow.query import read_target
from millstream.server.arrow.source import find, stream_of

if TYPE_CHECKING:
    from millstream.arrow.options import ArrowOptions
    from millstream.base.tls_server import ServerContext
    from millstream.broker.auth import Identity
    from millstream.config.reload import ReloadPlan
    from millstream.jetstream.stream.stream import Stream
    from millstream.server.arrow.tickets import Tickets
    from millstream.server.server import Server

_log = logging.getLogger("millstream.arrow")

_MOST_STRANGERS: Final = 256


class Clients:
    """The clients, managed on the event loop; each answer has a thread of its own."""

    def __init__(self, server: Server, options: ArrowOptions, tickets: Tickets) -> None:
        self._server = server
        self._loop = server.broker.loop
        self._gate = Gate(self._loop)
        self._access = Access(server.broker, tickets)
        self._context: ServerContext | None = None
        self._pins: frozenset[str] = frozenset()
        # Filling batches competes with publishers for processors: leave some.
        self._working = threading.Semaphore(max(1, (os.cpu_count() or 1) // 2))
        self._strangers = Strangers(_MOST_STRANGERS, "a request", _log)
        self._known: set[asyncio.Task[None]] = set()  # clients that may read and wait for a place
        self._places = Places(options.max_clients)
        self._conversations: dict[threading.Thread, Conversation] = {}
        self._renew_context()

    def add(self, sock: socket.socket, address: str) -> None:
        """Serve a newly accepted client."""
        task = self._loop.create_task(self._receive(LoopSocket(self._loop, sock), address))
        task.add_done_callback(self._received)
        self._strangers.add(task, address)

    async def stop(self) -> None:
        """Disconnect everybody; when this returns, no part of the log is in use."""
        self._gate.close()
        waiting = [*self._strangers, *self._known]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for conversation in self._conversations.values():
            conversation.cut()
        for thread in list(self._conversations):
            await asyncio.to_thread(thread.join)

    def reloaded(self, plan: ReloadPlan) -> None:
        """Use new certificates, and disconnect clients that may no longer read."""
        if Area.TLS in plan.areas:
            self._renew_context()
        for conversation in self._conversations.values():
            self._check_again(conversation)

    def _check_again(self, conversation: Conversation) -> None:
        """Cut off the answer to a client that would be refused now."""
        grant = conversation.grant
        name = grant.query.stream
        if not self._access.still_may_read(grant.identity, name, self._stream(grant.identity, name)):
            _log.info("a range of stream %s is cut off: user %r may not read it any more", name, grant.user)
            conversation.cut()

    def _renew_context(self) -> None:
        tls = self._server.options.broker.tls
        self._context = server_context(tls) if tls is not None else None
        self._pins = tls.pinned_certs if tls is not None else frozenset()

    def _received(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a request failed unexpectedly", exc_info=error)

    async def _receive(self, line: LoopSocket, address: str) -> None:
        """Serve an accepted socket: start the thread that answers, or refuse the request."""
        try:
            async with asyncio.timeout(reception.HEAD_S):
                grant = await self._judge(line, address)
            if grant is not None:
                self._known.add(task := _this_task())
                self._strangers.discard(task)
                await self._answer(line, grant)
        except ArrowProblem as problem:
            await reception.refuse(line, problem)
        except Gone as gone:
            await reception.refuse(line, ArrowProblem(HTTPStatus.SERVICE_UNAVAILABLE, str(gone)))
        except (OSError, TimeoutError) as error:
            _log.debug("a request of %s ended early: %s", address, error)
        except Exception:
            _log.exception("cannot answer a request")
            text = "this is our fault; see the server's log"
            await reception.refuse(line, ArrowProblem(HTTPStatus.INTERNAL_SERVER_ERROR, text))
        finally:
            self._known.discard(_this_task())
            line.close()

    async def _judge(self, line: LoopSocket, address: str) -> Grant | None:
        """Return the grant of a client, or None if it disconnected; raises Problem."""
        if self._context is not None:
            pins = self._pins
            await line.secure(self._context)
            if not pins_allow(pins, line.certificate):
                raise OSError("its certificate is not pinned")
        request = await reception.receive_head(line)
        if request is None:
            return None
        query = read_target(request.target)
        authorization = request.first("authorization")
        identity = await self._access.identify(authorization, line.certificate, address)
        self._access.check_may_read(identity, query.stream, self._stream(identity, query.stream))
        found = await find(self._gate, self._server.jetstream, identity.account, query)
        user = f"{identity.account}/{identity.user}" if identity.user else address
        return Grant(identity, user, query, found, with_body=request.method == "GET")

    def _stream(self, identity: Identity, name: str) -> Stream | None:
        try:
            return stream_of(self._server.jetstream, identity.account, name)
        except ArrowProblem:
            return None

    async def _answer(self, line: LoopSocket, grant: Grant) -> None:
        await self._places.enter(grant.user)
        conversation = Conversation(line.hand_over(), grant, self._working)
        thread = threading.Thread(
            target=self._serve, args=(conversation,), name="millstream-arrow", daemon=True
        )
        self._conversations[thread] = conversation
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            _log.error("cannot start a thread for a reader: %s", error)
            conversation.cut()
            self._ended(thread)

    def _serve(self, conversation: Conversation) -> None:
        try:
            conversation.hold()
        except Exception:
            _log.exception("a request failed unexpectedly")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended, threading.current_thread())

    def _ended(self, thread: threading.Thread) -> None:
        conversation = self._conversations.pop(thread, None)
        if conversation is not None:
            self._places.leave(conversation.grant.user)


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
