"""One request and its answer as ASGI sees them, the same for HTTP/1.1 and HTTP/2.

    connection ── feed, end_body, leave ──▶ Cycle ── receive ──▶ application
    connection ◀── begin, write, taken  ──  Cycle ◀── send   ──

The cycle buffers the body until the application takes it; `_taken` then lets the peer send more.  A write
waits for room first, so a cancelled write has written nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from millstream.http.answers import BadAnswer
from millstream.http.asgi import Application, Message, Pair, Scope

_NO_BODY: Final = frozenset((204, 304))

LENGTH: Final = b"content-length"
CONNECTION: Final = b"connection"


class Cycle:
    """One request; `receive` and `send` are ASGI's callables.  Subclasses write the answer."""

    __slots__ = (
        "_announced",
        "_callbacks",
        "_chunks",
        "_expects_continue",
        "_head",
        "_left",
        "_task",
        "_waiter",
        "body_ended",
        "buffered",
        "closes",
        "has_body",
        "is_answered",
        "is_gone",
        "is_head",
        "is_stream",
        "scope",
        "status",
    )

    def __init__(self, scope: Scope, *, expects_continue: bool = False) -> None:
        self.scope = scope
        self.is_head = scope["method"] == "HEAD"
        self.body_ended = False  # everything of the request has arrived
        self.buffered = 0  # bytes of the body that the application has not taken yet
        self.is_gone = False
        self.is_answered = False
        self.status = 0  # as the application gave them
        self.closes = False  # the connection ends with this answer
        self.is_stream = False  # the answer has no announced length
        self.has_body = True  # the answer may have a body
        self._announced = False  # the application has been told that the body has ended
        self._chunks: list[bytes] = []
        self._callbacks: list[Callable[[], None]] | None = None
        self._expects_continue = expects_continue
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._head: Sequence[Pair] = ()
        self._left = -1  # bytes of the answer that are announced and not written; -1: not announced

    # -- for the connection ---------------------------------------------------------------------------

    async def run(self, application: Application, tasks: set[asyncio.Task[None]]) -> None:
        """Run the application and answer 500 if it fails; `tasks` holds the task until it ends."""
        try:
            await application(self.scope, self.receive, self.send)
            if not self.is_answered and not self.is_gone:
                raise BadAnswer("the application ended before its answer did")
        except Exception as error:
            if not self.is_gone:
                self._fail(error)
        except asyncio.CancelledError:
            if not self.is_answered and not self.is_gone:
                self._fail(None)
            raise
        finally:
            self._callbacks = None
            self.scope.pop("extensions", None)  # which refer to this
            if self._task is not None:
                tasks.discard(self._task)
                self._task = None

    def start(self, task: asyncio.Task[None]) -> None:
        """Remember the task of `run`."""
        self._task = task

    def feed(self, data: bytes) -> None:
        """Buffer a piece of the body."""
        self._chunks.append(data)
        self.buffered += len(data)
        self._wake()

    def end_body(self) -> None:
        """Note that the request is complete."""
        self.body_ended = True
        self._wake()

    def leave(self) -> None:
        """Note that the caller has disconnected: no more of the answer will reach it."""
        if self.is_gone:
            return
        self.is_gone = True
        self._wake()
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback()

    # -- ASGI -----------------------------------------------------------------------------------------

    def when_gone(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback as `asgi.Caller` describes."""
        if self.is_gone:
            callback()
            return lambda: None
        callbacks = self._callbacks = [] if self._callbacks is None else self._callbacks
        callbacks.append(callback)
        return lambda: callbacks.remove(callback) if callback in callbacks else None

    async def receive(self) -> Message:
        if self._expects_continue and not self.status and not self.body_ended:
            self._expects_continue = False
            self._continue()
        while True:
            if self.is_gone or self.is_answered:
                return {"type": "http.disconnect"}
            if self._chunks or (self.body_ended and not self._announced):
                break
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                self._waiting()
                await waiter
            finally:
                self._waiter = None
        chunks = self._chunks
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        size, self.buffered = self.buffered, 0
        self._announced = self.body_ended
        if size:
            self._taken(size)
        return {"type": "http.request", "body": body, "more_body": not self._announced}

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self.status:
                raise BadAnswer("the answer has begun already")
            self._begin(message["status"], message.get("headers", ()))
        elif kind == "http.response.body":
            if not self.status:
                raise BadAnswer("the answer has not begun")
            if self.is_answered:
                raise BadAnswer("the answer has ended already")
            data = message.get("body", b"")
            more = message.get("more_body", False)
            if not self.has_body:
                data = b""
            elif self._left >= 0:
                self._left -= len(data)
                if self._left < 0 or (self._left and not more):
                    raise BadAnswer("the answer is not as long as its Content-Length")
            if self._is_full():
                await self._room()
            if not self.is_gone:
                self._write(data, more)
        else:
            raise BadAnswer(f"a request is not answered with {kind!r}")

    def _begin(self, status: int, headers: Any) -> None:
        self.status = status
        self._head = headers = headers if isinstance(headers, list | tuple) else list(headers)
        for name, value in headers:
            lower = name.lower()
            if lower == LENGTH:
                self._left = int(value)
            elif lower == CONNECTION and value.lower() == b"close":
                self.closes = True
        self.has_body = status >= 200 and status not in _NO_BODY and not self.is_head
        self.is_stream = self._left < 0 and self.has_body

    def _answered(self) -> None:
        """Finish the answer; `_write` calls this with the last piece."""
        self.is_answered = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- what the version of HTTP decides ---------------------------------------------------------------

    def _is_full(self) -> bool:
        """Return whether a write has to wait for room."""
        raise NotImplementedError

    async def _room(self) -> None:
        """Wait until there is room for a write, or the caller is gone."""
        raise NotImplementedError

    def _write(self, data: bytes, more: bool) -> None:
        """Write a piece of the answer, preceded by its head if that is not written yet."""
        raise NotImplementedError

    def _continue(self) -> None:
        """Send `100 Continue`: the peer may send its body."""
        raise NotImplementedError

    def _waiting(self) -> None:
        """Called when the application begins to wait for the body."""
        raise NotImplementedError

    def _taken(self, size: int) -> None:
        """Called when the application has taken `size` bytes of the body."""
        raise NotImplementedError

    def _fail(self, error: Exception | None) -> None:
        """Answer 500, or abort an answer that has begun."""
        raise NotImplementedError
