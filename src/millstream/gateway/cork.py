"""One write to the socket for what is written in one turn of the loop.

An answer is written in parts, head and body, and each write to a socket is a call of the kernel that wakes
the peer: the dearest thing that happens to a small request.  Larger amounts go at once, so that a transport
that is full says so in time.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_AT_ONCE: Final = 32 * 1024


class CorkedTransport:
    """Stands for a transport; everything but writing and closing is the transport's own."""

    __slots__ = ("_loop", "_parts", "_size", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        parts = self._parts
        if parts:
            self._parts = []
            self._size = 0
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._parts = []
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
