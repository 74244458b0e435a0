"""The base of every protocol's connection: a transport, a deadline, room to write, and an end.

`deadline` is the time at which the peer is late; the listener checks it once a second and calls `expire`.
The transport pauses as soon as it cannot write everything at once, so a peer that does not read is noticed
with the first byte that it leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.http.listener import HttpListener

NEVER: Final = math.inf
_AT_ONCE: Final = 64 * 1024  # gathered bytes that are written before the end of the turn


class Line(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_out",
        "_out_size",
        "_room",
        "_unread",
        "alpn",
        "client",
        "deadline",
        "is_paused",
        "listener",
        "scheme",
        "server",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, listener: HttpListener) -> None:
        self.listener = listener
        self.deadline = NEVER
        self.is_paused = False  # the peer has not read everything that was written
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None
        self.scheme = "http"
        self.alpn = ""
        self._out: list[bytes] = []
        self._out_size = 0
        self._room: asyncio.Future[None] | None = None
        self._unread = 0  # bytes that were unread at the last check

    def attach(self, transport: asyncio.Transport) -> bool:
        """Accept a new connection; return False if there are too many."""
        self.transport = transport
        # TLS compares with `at least`, and would pause for ever at zero.
        transport.set_write_buffer_limits(high=1 if self.listener.is_secure else 0, low=0)
        self.client = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))
        if self.listener.is_secure:
            self.scheme = "https"
            ssl_object = transport.get_extra_info("ssl_object")
            self.alpn = (ssl_object.selected_alpn_protocol() or "") if ssl_object is not None else ""
        return self.listener.admit(self)

    def hand_over(self, other: Line) -> None:
        """Hand the transport and the place in the listener to another protocol."""
        other.transport = self.transport
        other.client, other.server, other.scheme = self.client, self.server, self.scheme
        other.is_paused = self.is_paused
        self.deadline = NEVER
        self.listener.replace(self, other)
        self.transport.set_protocol(other)
        other.begin()

    def begin(self) -> None:
        """Start on a connection that was handed over."""

    def detach(self) -> None:
        """Note that the connection is lost."""
        self.deadline = NEVER
        self.is_paused = False
        self._out = []
        self.listener.forget(self)
        self._make_room()

    # -- writing ----------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write at once, after what was gathered."""
        if self._out:
            self._out.append(data)
            self.flush()
        else:
            self.transport.write(data)

    def gather(self, data: bytes) -> None:
        """Add to the write at the end of this turn of the loop."""
        out = self._out
        out.append(data)
        self._out_size += len(data)
        if self._out_size >= _AT_ONCE:
            self.flush()
        elif len(out) == 1:
            self.listener.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was gathered."""
        out = self._out
        if out:
            self._out = []
            self._out_size = 0
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    def close(self) -> None:
        """Close when everything is written; a peer that does not read is disconnected in time."""
        self.flush()
        self.transport.close()
        self.deadline = self.listener.after(self.listener.limits.write_timeout_s)

    def linger(self) -> None:
        """Shut down our side and let the peer read the answer: closing with unread input can destroy it."""
        self.flush()
        self.deadline = self.listener.after(self.listener.limits.linger_s)
        with contextlib.suppress(OSError):  # it may be gone
            if self.transport.can_write_eof() and not self.transport.is_closing():
                self.transport.write_eof()

    def pause_writing(self) -> None:
        self.is_paused = True
        self._unread = self.transport.get_write_buffer_size()
        self._paused()

    def resume_writing(self) -> None:
        self.is_paused = False
        self._make_room()
        self._paused()

    async def room(self) -> None:
        """Wait until the peer has read everything or is gone.  Only one caller may wait."""
        if self.is_paused:
            self._room = self.listener.loop.create_future()
            await self._room

    def has_progress(self) -> bool:
        """Return whether the peer has read something since the last call."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        return self._unread < before

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # -- what protocols decide --------------------------------------------------------------------------

    def _paused(self) -> None:
        """Called when `is_paused` has changed."""

    def expire(self) -> None:
        """Called when the deadline has passed."""
        raise NotImplementedError

    def stop(self) -> None:
        """Begin to stop: answer open requests and accept no more."""
        raise NotImplementedError


def _address(name: object) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
