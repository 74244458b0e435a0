"""WebSockets with wsproto, on a connection that HTTP/1.1 has handed over.

Messages are buffered until the application takes them; reading pauses while too many wait.  A message has at
most `max_message` bytes after decompression.  Input is decompressed in slices, so that a small message cannot
take much memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import wsproto
import wsproto.events as ws
from wsproto.extensions import PerMessageDeflate
from wsproto.utilities import RemoteProtocolError

from millstream.http.answers import BadAnswer, head
from millstream.http.asgi import CALLER, DENIAL, Message, Pair, Scope
from millstream.http.line import Line

if TYPE_CHECKING:
    from wsproto.connection import Connection

    from millstream.http.listener import HttpListener

_SLICE: Final = 4 * 1024  # deflate expands this at most a thousand times
_WAITING: Final = 64 * 1024  # bytes of messages that the application has not taken yet
_NORMAL: Final = 1000
_CUT_OFF: Final = 1006
_TOO_BIG: Final = 1009
_OUR_FAULT: Final = 1011


class CallerGone(OSError):
    """Raised when an application writes to a caller that has disconnected."""


class WebSocket(Line):
    """One WebSocket and the application behind it."""

    __slots__ = (
        "_callbacks",
        "_code",
        "_denial",
        "_frames",
        "_handshake",
        "_inbox",
        "_is_closed",
        "_is_deflated",
        "_is_told",
        "_message",
        "_message_size",
        "_reads",
        "_scope",
        "_waiter",
        "_waiting",
        "is_gone",
    )

    def __init__(self, listener: HttpListener, scope: Scope) -> None:
        super().__init__(listener)
        self._scope = scope
        self._handshake: wsproto.WSConnection | None = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
        self._frames: Connection | None = None  # once it is open
        self._is_deflated = False
        self._denial: list[bytes] | None = None
        self._inbox: deque[str | bytes] = deque()
        self._waiting = 0
        self._message: list[Any] = []
        self._message_size = 0
        self._reads = True
        self._waiter: asyncio.Future[None] | None = None
        self._code = _CUT_OFF  # close code of the end
        self._is_closed = False  # we have sent a close frame
        self._is_told = False  # the application has got `websocket.connect`
        self._callbacks: list[Callable[[], None]] = []
        self.is_gone = False

    def begin(self) -> None:
        assert self._handshake is not None
        try:
            self._handshake.initiate_upgrade_connection(self._scope["headers"], self._scope["raw_path"])
        except Exception:  # wsproto does not catch errors of h11 and of codecs
            self._end(self.listener.refusal(400, "this is no request for a WebSocket"))
            return
        for _ in self._handshake.events():
            pass
        self._scope["extensions"][CALLER] = self
        self.listener.counts.websockets += 1
        self.listener.spawn(self._run())

    # -- the transport ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.is_gone:
            return
        if self._frames is None:
            self._end(self.listener.refusal(400, "frames came before the WebSocket was open"))
            return
        step = _SLICE if self._is_deflated else len(data)
        for at in range(0, len(data), step):
            if not self._read(data[at : at + step]):
                return
        self._read_on()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.detach()
        self._leave()

    def expire(self) -> None:
        self.transport.abort()

    def stop(self) -> None:
        """Do nothing: the application closes its WebSockets when the server stops."""

    def _read(self, data: bytes) -> bool:
        """Process frames; return False after the last one."""
        assert self._frames is not None
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                if isinstance(event, ws.Message):
                    if not self._gather_message(event):
                        return False
                elif isinstance(event, ws.Ping):
                    if not self.is_paused and not self._is_closed:
                        self.gather(self._frames.send(event.response()))
                elif isinstance(event, ws.CloseConnection):
                    self._code = event.code
                    if self._is_closed:
                        self.close()
                    else:
                        self._end(self._frames.send(event.response()))
                    return False
        except RemoteProtocolError as error:
            self._code = _CUT_OFF
            hint = error.event_hint
            self._end(self._frames.send(hint) if hint is not None and not self._is_closed else b"")
            return False
        return True

    def _gather_message(self, event: ws.Message[Any]) -> bool:
        self._message.append(event.data)
        self._message_size += len(event.data)
        if self._message_size > self.listener.limits.max_message:
            self._say_goodbye(_TOO_BIG, "the message is too long")
            self._leave()
            return False
        if event.message_finished:
            parts, self._message = self._message, []
            whole: str | bytes = "".join(parts) if isinstance(parts[0], str) else b"".join(parts)
            self._waiting += self._message_size + 64
            self._message_size = 0
            self._inbox.append(whole)
            self._wake()
        return True

    # -- the application --------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self.listener.application(self._scope, self.receive, self.send)
            if self._frames is None:
                self._deny(403)
            else:
                self._say_goodbye(_NORMAL, "")
        except Exception as error:
            if not self.is_gone:
                self.listener.complain(self._scope, error)
                self._fail()
        except asyncio.CancelledError:
            self._fail()
            raise
        finally:
            self._callbacks = []

    def when_gone(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback as `asgi.Caller` describes."""
        if self.is_gone:
            callback()
            return lambda: None
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    async def receive(self) -> Message:
        if not self._is_told:
            self._is_told = True
            return {"type": "websocket.connect"}
        while not self._inbox:
            if self.is_gone:
                return {"type": "websocket.disconnect", "code": self._code, "reason": ""}
            self._waiter = self.listener.loop.create_future()
            await self._waiter
        message = self._inbox.popleft()
        self._waiting -= len(message) + 64
        self._read_on()
        kind = "text" if isinstance(message, str) else "bytes"
        return {"type": "websocket.receive", kind: message}

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.accept":
            self._accept(message.get("subprotocol"), [*message.get("headers", ())])
        elif kind == "websocket.send":
            await self._send(message)
        elif kind == "websocket.close":
            if self._frames is None:
                self._deny(403)
            else:
                self._say_goodbye(message.get("code") or _NORMAL, message.get("reason") or "")
        elif kind == f"{DENIAL}.start":
            self._denial = [head(message["status"], [*message.get("headers", ()), (b"connection", b"close")])]
        elif kind == f"{DENIAL}.body" and self._denial is not None:
            self._denial.append(message.get("body", b""))
            if not message.get("more_body"):
                self._end(b"".join(self._denial))
        else:
            raise BadAnswer(f"a WebSocket is not answered with {kind!r}")

    def _accept(self, subprotocol: str | None, headers: list[Pair]) -> None:
        if self.is_gone:
            raise CallerGone("the caller is gone")
        if self._handshake is None:
            raise BadAnswer("the WebSocket is open already")
        head(101, headers)  # raises if a header contains a line break
        deflate = PerMessageDeflate()
        accepted = ws.AcceptConnection(
            subprotocol=subprotocol, extensions=[deflate], extra_headers=[*headers, (b"date", self._date())]
        )
        handshake, self._handshake = self._handshake, None
        self.gather(handshake.send(accepted))
        self._frames = handshake.connection
        self._is_deflated = deflate.enabled()

    def _date(self) -> bytes:
        return self.listener.clock.value

    async def _send(self, message: Message) -> None:
        while self.is_paused and not self.is_gone:
            await self.room()
        if self.is_gone or self._is_closed:
            raise CallerGone("the caller is gone")
        if self._frames is None:
            raise BadAnswer("the WebSocket is not open yet")
        text = message.get("text")
        event: ws.Message[Any] = (
            ws.TextMessage(data=text) if text is not None else ws.BytesMessage(data=message.get("bytes", b""))
        )
        self.gather(self._frames.send(event))

    # -- the end ----------------------------------------------------------------------------------------

    def _say_goodbye(self, code: int, reason: str) -> None:
        """Send a close frame, and wait briefly for the peer's."""
        if self.is_gone or self._is_closed:
            return
        assert self._frames is not None
        self._is_closed = True
        self._code = code
        self.write(self._frames.send(ws.CloseConnection(code=code, reason=reason[:120] or None)))
        self.deadline = self.listener.after(self.listener.limits.linger_s)
        if not self._reads:
            self._reads = True
            self.transport.resume_reading()

    def _deny(self, status: int) -> None:
        if not self.is_gone:
            self._end(self.listener.refusal(status, ""))

    def _fail(self) -> None:
        if self._frames is None:
            self._deny(500)
        else:
            self._say_goodbye(_OUR_FAULT, "")

    def _end(self, last_words: bytes) -> None:
        """Write the last bytes and close."""
        if last_words:
            self.write(last_words)
        self._is_closed = True
        self.close()
        self._leave()

    def _leave(self) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self._wake()
        self._make_room()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read_on(self) -> None:
        reads = self._waiting <= _WAITING or self._is_closed
        if reads is not self._reads and not self.is_gone:
            self._reads = reads
            if reads:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()
