"""The bytes of one HTTP/1.1 answer: its head, its length or chunks, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.http.answers import head
from millstream.http.asgi import Scope
from millstream.http.cycle import CONNECTION, Cycle

if TYPE_CHECKING:
    from millstream.http.http1 import Http1

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Http1Cycle(Cycle):
    """One HTTP/1.1 request; `closes` is final once the head is made."""

    __slots__ = ("_chunked", "_connection", "_keep_alive", "has_begun")

    def __init__(self, connection: Http1, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        super().__init__(scope, expects_continue=expects_continue)
        self._connection = connection
        self._keep_alive = keep_alive
        self._chunked = False
        self.has_begun = False  # part of the answer is written

    def _is_full(self) -> bool:
        return self._connection.is_paused

    async def _room(self) -> None:
        connection = self._connection
        while connection.is_paused and not self.is_gone:
            await connection.room()

    def _write(self, data: bytes, more: bool) -> None:
        connection = self._connection
        start = b"" if self.has_begun else self._start()
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            if not more:
                data += _LAST_CHUNK
        if more:
            if start or data:
                connection.gather(start + data)
            return
        self._answered()
        connection.write(start + data)
        connection.answered(self)

    def _start(self) -> bytes:
        listener = self._connection.listener
        is_old = self.scope["http_version"] == "1.0"
        extra = [listener.clock.line]
        self._chunked = self.is_stream and not is_old
        if self._chunked:
            extra.append(_CHUNKED)
        self.closes = (
            self.closes
            or not self._keep_alive
            or listener.is_stopping
            or not (self.body_ended or self._can_discard())
        )
        if self.closes:
            extra.append(_CLOSE)
            self._head = [pair for pair in self._head if pair[0].lower() != CONNECTION]
        start = head(self.status, self._head, *extra)
        self.has_begun = True
        self._head = ()
        return start

    def _can_discard(self) -> bool:
        """Return whether the rest of the body can be read and discarded."""
        if self._expects_continue:
            return False  # the peer may or may not send the body, so the start of the next request is unknown
        announced = next((value for name, value in self.scope["headers"] if name == b"content-length"), b"0")
        return int(announced) <= self._connection.listener.limits.max_discarded

    def _continue(self) -> None:
        self._connection.write(_CONTINUE)

    def _waiting(self) -> None:
        pass

    def _taken(self, size: int) -> None:
        self._connection.taken()

    def _fail(self, error: Exception | None) -> None:
        if error is not None:
            self._connection.listener.complain(self.scope, error)
        self._connection.fail(self)
