"""A socket on the event loop, with or without TLS, that a thread can take over later.

An asyncio transport cannot be handed to a thread.  A client that waits here costs a task and no thread.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from millstream.base.tls_server import ServerContext

T = TypeVar("T")


class LoopSocket:
    """One connection; the owner must close it or call ``hand_over``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self._loop = loop
        self._sock = sock
        self._handed_over = False
        sock.setblocking(False)

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate in DER."""
        return self._sock.getpeercert(binary_form=True) if isinstance(self._sock, ssl.SSLSocket) else None

    async def secure(self, context: ServerContext) -> None:
        """Perform the TLS handshake."""
        secured = context.wrap_socket(self._sock)
        self._sock = secured
        await self._do(secured.do_handshake)

    async def receive(self, size: int) -> bytes:
        """Return some bytes, or none at the end of the connection."""
        return await self._do(lambda: self._sock.recv(size))

    async def send(self, data: bytes) -> None:
        while data:
            data = data[await self._do(functools.partial(self._sock.send, data), writes=True) :]

    def end(self) -> None:
        """Shut down the sending side; with TLS that happens when the socket is closed."""
        if not isinstance(self._sock, ssl.SSLSocket):
            self._sock.shutdown(socket.SHUT_WR)

    def hand_over(self) -> socket.socket:
        """Return the socket, which the caller then owns."""
        self._handed_over = True
        return self._sock

    def close(self) -> None:
        if not self._handed_over:
            self._sock.close()

    async def _do(self, attempt: Callable[[], T], *, writes: bool = False) -> T:
        while True:
            try:
                return attempt()
            except ssl.SSLWantReadError:
                await self._ready(writes=False)
            except ssl.SSLWantWriteError:
                await self._ready(writes=True)
            except BlockingIOError:
                await self._ready(writes=writes)

    async def _ready(self, *, writes: bool) -> None:
        ready = self._loop.create_future()
        place = self._sock.fileno()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        (self._loop.add_writer if writes else self._loop.add_reader)(place, wake)
        try:
            await ready
        finally:
            (self._loop.remove_writer if writes else self._loop.remove_reader)(place)
