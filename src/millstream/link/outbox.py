"""The output of a link: gathered during one turn of the loop and written at its end in one piece.

Without a connection, frames are refused or kept up to a limit.  While the server does not read, callers that
can wait do so (`room`), and others fail before memory is full.
"""

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from typing import Final

from millstream.link.connection import LinkConnection
from millstream.link.errors import LinkError, NotConnected
from millstream.link.publish_window import FrameBuffer

WRITE_AT: Final = 128 * 1024  # gathered bytes that are written before the end of the turn
_MOST_UNSENT: Final = 64 * 1024 * 1024  # unread bytes beyond which frames are refused


class LinkOutbox:
    """The output of one link; to write to `frames` directly, call `plan_write` afterwards."""

    def __init__(self, hold_bytes: int) -> None:
        self.frames: Final = FrameBuffer()
        self.before_write: Final[set[Callable[[float], None]]] = set()  # called with the time of each write
        self._hold_bytes = hold_bytes
        self._held = bytearray()
        self._connection: LinkConnection | None = None
        self._problem: LinkError = NotConnected("there is no connection to NATS yet")
        self._planned = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    def attach(self, connection: LinkConnection, restored: bytes) -> None:
        """Write to `connection` from now on, first `restored`, then the kept frames."""
        held, self._held = self._held, bytearray()
        self._connection = connection
        if restored or held:
            connection.write(restored + held)

    def detach(self, problem: LinkError) -> None:
        """Note the loss of the connection; frames that were not written are lost."""
        self._connection = None
        self._problem = problem
        self.frames.clear()
        self.wake()

    def close(self, problem: LinkError) -> None:
        """Write what is left, and refuse all later frames."""
        self.write()
        self._hold_bytes = 0
        self._held.clear()
        self.detach(problem)

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    @property
    def problem(self) -> LinkError | None:
        """The error that prevents sending, or None."""
        return None if self._connection is not None else copy.copy(self._problem)

    def check(self) -> None:
        """Raise `problem`, if there is one."""
        if self._connection is None:
            raise copy.copy(self._problem)

    def send(self, frames: bytes) -> None:
        """Write whole frames at the end of this turn; NotConnected if they can neither be sent nor kept."""
        connection = self._connection
        if connection is None:
            if len(self._held) + len(frames) > self._hold_bytes:
                raise copy.copy(self._problem)
            self._held += frames
            return
        if not connection.can_write and self.frames.size + connection.unsent > _MOST_UNSENT:
            raise NotConnected(f"{connection.server} does not read what we send")
        self.frames.append(frames)
        self.plan_write()

    def plan_write(self) -> None:
        """Write `frames` at the end of this turn of the loop, or now if they are many."""
        if self.frames.size >= WRITE_AT:
            self.write()
        elif not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._write_planned)

    def _write_planned(self) -> None:
        self._planned = False
        self.write()

    def write(self) -> None:
        """Write `frames` now."""
        if self.frames.size and self._connection is not None:
            if self.before_write:
                now = asyncio.get_running_loop().time()
                for told in self.before_write:
                    told(now)
            self._connection.write(self.frames.take())

    @property
    def is_idle(self) -> bool:
        """Return whether everything is written to the socket."""
        return not self.frames.size and (self._connection is None or not self._connection.unsent)

    # -- waiting for room ---------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        """Return whether the server reads; also true without a connection, because sending fails at once."""
        return self._connection is None or self._connection.can_write

    async def room(self) -> None:
        """Wait until the server reads again, a window has room, or the connection is gone."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiters)

    def wake(self) -> None:
        """End every wait of `room`."""
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
