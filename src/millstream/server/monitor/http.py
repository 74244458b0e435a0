"""A small HTTP/1.1 server for documents that are made on request.

h11 knows the protocol; here are its sockets, its limits and its clock.  Every request is answered by
one handler, whatever its method, because the reference does so too; a body is read and forgotten.

Always true:  a client can hold a bounded amount of memory (head of the request, one response) and
              a bounded time (to send a head, to take a response, to stay idle).
Not here:     which path gives which document (``routes``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11

from millstream.base.descriptors import is_kept

_log = logging.getLogger("millstream.monitor")

MAX_CLIENTS: Final = 1024  # file descriptors are for those who bring messages
MAX_HEAD: Final = 64 * 1024  # bytes of a request line and its headers
_MAX_BODY: Final = 256 * 1024  # bytes read and forgotten; a longer body ends the connection
_BACKLOG: Final = 1024
_CHUNK: Final = 64 * 1024
_WRITTEN_AT_ONCE: Final = 8  # parts of a body


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # as sent, before the question mark
    query: str  # as sent, after it
    wanted: Callable[[], bool] = lambda: True  # False when the client is known to have gone


@dataclass(frozen=True, slots=True)
class Response:
    """`body` is in parts of some ten kilobytes, so that a long one need not be joined."""

    status: int
    content_type: str
    body: Sequence[bytes]
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client may take, in seconds."""

    head: float = 5.0  # from the first byte of a request to the last of its head
    idle: float = 120.0  # between requests
    write: float = 60.0  # to take a response
    close: float = 2.0  # to take the rest when we hang up


Handler = Callable[[Request], Awaitable[Response]]


class _Gone(Exception):
    """The client has left, is too slow or said something that cannot be answered."""


@dataclass(slots=True)
class HttpServer:
    """Serves until it is stopped."""

    handle: Handler
    timeouts: Timeouts = field(default_factory=Timeouts)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _clients: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(
        self,
        sockets: Sequence[socket.socket],
        context: ssl.SSLContext | None,
        handshake_timeout_s: float | None = None,
    ) -> None:
        """Listen on bound sockets, which belong to this server from now on."""
        for sock in sockets:
            server = await asyncio.start_server(
                self._accept,
                sock=sock,
                ssl=context,
                ssl_handshake_timeout=handshake_timeout_s if context is not None else None,
                backlog=_BACKLOG,
                limit=_CHUNK,
            )
            self._servers.append(server)

    async def stop(self) -> None:
        """Stop listening and cut off whoever is connected."""
        for server in self._servers:
            server.close()
        clients = list(self._clients)
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= MAX_CLIENTS or is_kept(writer.get_extra_info("socket").fileno()):
            writer.transport.abort()
            return
        self._clients.add(task)
        client = _Client(reader, writer, self.handle, self.timeouts)
        try:
            await client.serve()
        except (OSError, _Gone):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()  # only `stop` cancels; nobody waits for this task but it
        finally:
            self._clients.discard(task)
            await client.close()


class _Client:
    """One connection and the requests on it, one after the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handle: Handler,
        timeouts: Timeouts,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._timeouts = timeouts
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    async def serve(self) -> None:
        first = True
        while True:
            try:
                request = await self._next_request(self._timeouts.head if first else self._timeouts.idle)
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint)
                await self._linger()
                return
            if request is None:
                return
            holds_body_back = self._http.they_are_waiting_for_100_continue
            await self._answer(request)
            if holds_body_back or not await self._skip_body():
                await self._linger()
                return
            self._http.start_next_cycle()
            first = False

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(self._timeouts.close):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            self._writer.transport.abort()

    async def _linger(self) -> None:
        """Let the last answer arrive: to close on bytes that were not read yet can destroy it."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        async with self._limit(self._timeouts.close):
            while await self._reader.read(_CHUNK):
                pass

    async def _next_request(self, wait_s: float) -> h11.Request | None:
        """The head of the next request, or None if the client has no more."""
        event = self._http.next_event()
        if event is h11.NEED_DATA:
            await self._receive(wait_s)
            async with self._limit(self._timeouts.head):
                while (event := self._http.next_event()) is h11.NEED_DATA:
                    await self._receive(None)
        return event if isinstance(event, h11.Request) else None

    async def _receive(self, wait_s: float | None) -> None:
        async with self._limit(wait_s):
            self._http.receive_data(await self._reader.read(_CHUNK))

    @contextlib.asynccontextmanager
    async def _limit(self, seconds: float | None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise _Gone from None

    async def _answer(self, request: h11.Request) -> None:
        path, _, query = request.target.decode("latin-1").partition("?")
        try:
            response = await self._handle(
                Request(request.method.decode("latin-1"), path, query, self._is_there)
            )
        except Exception:
            _log.exception("cannot answer a request for %s", path)
            response = plain(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error\n")
        await self._send(response, with_body=request.method != b"HEAD")

    def _is_there(self) -> bool:
        return not self._writer.is_closing()

    async def _refuse(self, status: int) -> None:
        """Answer what is no request, if an answer is still possible; then the connection ends."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = f"{status} {HTTPStatus(status).phrase}"
            await self._send(plain(status, text, ("Connection", "close")))

    async def _send(self, response: Response, *, with_body: bool = True) -> None:
        size = sum(len(part) for part in response.body)
        head = h11.Response(
            status_code=response.status,
            headers=[
                *response.headers,
                ("Content-Type", response.content_type),
                ("Date", formatdate(usegmt=True)),
                ("Content-Length", str(size)),
            ],
            reason=HTTPStatus(response.status).phrase.encode(),
        )
        async with self._limit(self._timeouts.write):
            parts = [self._http.send(head) or b""]
            for part in response.body if with_body else ():
                parts.append(self._http.send(h11.Data(data=part)) or b"")
                if len(parts) >= _WRITTEN_AT_ONCE:
                    self._writer.writelines(parts)
                    parts.clear()
                    await self._writer.drain()
                    await asyncio.sleep(0)  # the rest of a long one waits for the messages of others
            parts.append(self._http.send(h11.EndOfMessage()) or b"")
            self._writer.writelines(parts)
            await self._writer.drain()

    async def _skip_body(self) -> bool:
        """Read what is left of the request; whether another one may follow."""
        if self._http.our_state is not h11.DONE:
            return False
        skipped = 0
        async with self._limit(self._timeouts.head):
            while skipped <= _MAX_BODY:
                try:
                    event = self._http.next_event()
                except h11.RemoteProtocolError:
                    return False
                if event is h11.NEED_DATA:
                    await self._receive(None)
                elif isinstance(event, h11.Data):
                    skipped += len(event.data)
                else:
                    return isinstance(event, h11.EndOfMessage)
        return False


def plain(status: int, text: str, *headers: tuple[str, str]) -> Response:
    """A line of text for people."""
    return Response(status, "text/plain; charset=utf-8", [text.encode()], headers)
