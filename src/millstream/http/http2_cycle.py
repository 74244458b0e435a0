"""The answer to one HTTP/2 request: its head, and data as fast as the peer's windows allow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from millstream.http.answers import BadAnswer
from millstream.http.asgi import Pair, Scope
from millstream.http.cycle import Cycle

if TYPE_CHECKING:
    from millstream.http.http2 import Http2

_NOT_IN_HTTP2: Final = frozenset(
    (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"proxy-connection")
)
_BREAKS: Final = (b"\r", b"\n", b"\0")


class Http2Cycle(Cycle):
    """One stream; at most one piece of its answer waits for a window."""

    __slots__ = ("_connection", "_place", "at", "ends", "has_begun", "moved", "number", "out")

    def __init__(self, connection: Http2, number: int, scope: Scope, *, expects_continue: bool) -> None:
        super().__init__(scope, expects_continue=expects_continue)
        self._connection = connection
        self._place: asyncio.Future[None] | None = None
        self.number = number
        self.out = b""  # the piece that is being sent, starting at `at`
        self.at = 0
        self.ends = False  # the piece is the last one
        self.has_begun = False
        self.moved = connection.listener.time()  # when the body or the answer last made progress

    def _is_full(self) -> bool:
        return bool(self.out) or self._connection.is_paused

    async def _room(self) -> None:
        connection = self._connection
        while self._is_full() and not self.is_gone:
            self._place = connection.listener.loop.create_future()
            connection.block(self)
            await self._place

    def make_room(self) -> None:
        """Resume the write that waits for room."""
        if self._place is not None and not self._place.done():
            self._place.set_result(None)

    def leave(self) -> None:
        super().leave()
        self.make_room()

    def head(self) -> list[Pair]:
        """Return the head in HTTP/2's form; raises BadAnswer."""
        pairs = [(b":status", b"%d" % self.status), (b"date", self._connection.listener.clock.value)]
        for name, value in self._head:
            name = name.lower()
            if name in _NOT_IN_HTTP2:
                continue
            if any(each in value or each in name for each in _BREAKS):
                raise BadAnswer("a header has a line break")
            pairs.append((name, value.strip()))
        return pairs

    def _write(self, data: bytes, more: bool) -> None:
        self.out = data
        self.at = 0
        self.ends = not more
        self.moved = self._connection.listener.time()
        self._connection.send_piece(self)
        if not more:
            self._answered()

    def _continue(self) -> None:
        self._connection.send_continue(self)

    def _waiting(self) -> None:
        self.moved = self._connection.listener.time()

    def _taken(self, size: int) -> None:
        self._connection.taken(self, size)

    def _fail(self, error: Exception | None) -> None:
        if error is not None:
            self._connection.listener.complain(self.scope, error)
        self._connection.fail(self)
