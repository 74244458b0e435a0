"""HTTP/1.1 with httptools: turns bytes into requests.

An idle connection has no parser.  The first bytes show whether the peer speaks HTTP/2 (`PRI * HTTP/2.0`), and
a request can upgrade the connection to a WebSocket or, where that is enabled, to HTTP/2.  `http1_turns` keeps
requests and answers in order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import httptools

from millstream.http.asgi import CALLER, DENIAL, Pair
from millstream.http.http1_cycle import Http1Cycle
from millstream.http.http1_turns import Http1Turns, TurnState
from millstream.http.line import Line
from millstream.http.requests import BadHttpRequest, Wishes, framing_of, make_scope, read_wishes

if TYPE_CHECKING:
    from millstream.http.listener import HttpListener

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SLICE: Final = 8 * 1024  # bytes parsed at once: bounds the number of requests that wait
_BODY_SLICE: Final = 64 * 1024
_DENIALS: Final[dict[str, Any]] = {DENIAL: {}}


class Http1(Http1Turns):
    """One connection, from its first byte."""

    __slots__ = ("_discarded", "_fed", "_framing", "_headers", "_is_resuming", "_quiet", "_target", "_wishes")

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener)
        self._target = b""
        self._headers: list[Pair] = []
        self._wishes: Wishes | None = None  # of a request that upgrades the connection
        self._framing = b""  # length of the body that follows an upgrade request which we ignore
        self._is_resuming = False  # the current head was parsed before
        self._fed = 0  # bytes of the slice that is being parsed
        self._quiet = 0  # bytes parsed since the head began or since the last piece of the body
        self._discarded = 0  # bytes of a discarded body

    # -- the transport ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        listener = self.listener
        if not self.attach(transport):
            self._state = TurnState.CLOSED
            self._finish(listener.refusal(503, "there are too many connections"))
            return
        self._since = listener.time()
        self._set_deadline()
        if listener.http2 and self.alpn == "h2":
            self._become_http2(b"")

    def data_received(self, data: bytes) -> None:
        if self._state is not TurnState.OPEN:
            return
        if self._is_fresh and self.listener.http2 and (self._unparsed or data[:1] == b"P"):
            data, self._unparsed = self._unparsed + data, b""
            if data[: len(PREFACE)] == PREFACE:
                self._become_http2(data)
                return
            if PREFACE.startswith(data):
                self._unparsed = data
                return
        if self._unparsed:
            self._unparsed += data  # reading is paused, but these bytes were read before
        else:
            self._parse(data)

    # -- reading ----------------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        """Parse bytes; keep the rest for later while earlier requests or a body are waiting."""
        if len(data) <= _SLICE:
            rest = self._feed(data)
            if rest:
                self._parse(rest)
                return
        else:
            at = 0
            while at < len(data) and self._state is TurnState.OPEN:
                if self._is_full():
                    self._unparsed = data[at:]
                    break
                size = _SLICE if self._incoming is None else _BODY_SLICE
                piece = data[at : at + size]
                at += len(piece) - len(self._feed(piece))
        if self._state is TurnState.OPEN:
            self._read_on()
            self._set_deadline()

    def _feed(self, data: bytes) -> bytes:
        """Parse a slice; return the bytes that belong to the next parser."""
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
            self._quiet = 0
        self._fed = len(data)
        self._quiet += len(data)
        rest = b""
        try:
            self._parser.feed_data(data)
            self._check_size()
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if self._wishes is not None:
                self._take_over(self._wishes, rest)
                return b""
            self._resume()
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, BadHttpRequest):
                raise
            self.refuse(error.__context__.status, str(error.__context__))
        except httptools.HttpParserError as error:
            self.refuse(400, str(error) or "this is not HTTP")
        except BadHttpRequest as error:
            self.refuse(error.status, str(error))
        if not self._in_head and self._incoming is None:
            self._parser = None
        return rest if self._state is TurnState.OPEN else b""

    def _resume(self) -> None:
        """Continue after an ignored upgrade: httptools treats its body as another protocol."""
        framing, self._framing = self._framing, b""
        if framing and self._incoming is not None:
            self._parser = httptools.HttpRequestParser(self)
            self._is_resuming = True
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
            self._is_resuming = False

    def _check_size(self) -> None:
        """Limit the size of heads, chunk extensions and trailers."""
        most = self.listener.limits.max_head
        if most and self._quiet > most + _SLICE and self._in_head:
            raise BadHttpRequest(431, "the head of the request is too long")
        if most and self._quiet > most + _BODY_SLICE and self._incoming is not None:
            raise BadHttpRequest(400, "too much of the body is no body")

    def on_message_begin(self) -> None:
        if self._is_resuming:
            return
        self._in_head = True
        self._is_fresh = False
        self._head_began = self.listener.time()
        self._quiet = self._fed
        self._target = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else it is a trailer
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_resuming:
            return
        self._in_head = False
        parser, listener, headers = self._parser, self.listener, self._headers
        most = listener.limits.max_head
        if (
            most
            and self._quiet > most
            and sum(len(name) + len(value) + 4 for name, value in headers) + len(self._target) > most
        ):
            raise BadHttpRequest(431, "the head of the request is too long")
        version = parser.get_http_version()
        wishes = read_wishes(version, headers)
        if wishes.upgrade and parser.should_upgrade() and self._may_take_over(wishes):
            if self.current is not None:
                raise BadHttpRequest(400, "an upgrade waits for the answers before it")
            self._wishes = wishes
            return
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise BadHttpRequest(405, "there is no tunnel here")
            self._framing = framing_of(headers)
        extensions: dict[str, Any] = {}
        scope = make_scope(
            "http",
            version,
            parser.get_method().decode("ascii"),
            self.scheme,
            self._target,
            headers,
            self.client,
            self.server,
            extensions,
        )
        cycle = Http1Cycle(
            self,
            scope,
            keep_alive=version == "1.1" and parser.should_keep_alive(),
            expects_continue=wishes.expects_continue,
        )
        extensions[CALLER] = cycle
        self._quiet = 0
        self._discarded = 0
        self._enter(cycle)

    def on_body(self, body: bytes) -> None:
        self._quiet = 0
        cycle = self._incoming
        if cycle is None:
            return
        if not cycle.is_answered:
            cycle.feed(body)
            return
        self._discarded += len(body)
        if self._discarded > self.listener.limits.max_discarded:
            self._linger()

    def on_message_complete(self) -> None:
        self._in_head = False
        if self._framing:
            return
        cycle, self._incoming = self._incoming, None
        if cycle is not None:
            cycle.end_body()
            if cycle.is_answered:
                self._next()

    # -- other protocols --------------------------------------------------------------------------------

    def _may_take_over(self, wishes: Wishes) -> bool:
        """Return whether we accept this upgrade; a request with any other is answered as if it had none."""
        if wishes.upgrade == b"websocket":
            return self.listener.websockets and self._parser.get_method() == b"GET"
        words = [word.strip() for word in wishes.upgrade.split(b",")]
        return (
            b"h2c" in words
            and self.listener.h2c_upgrade
            and wishes.settings is not None
            and not self.listener.is_secure
            and not any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)
        )

    def _take_over(self, wishes: Wishes, rest: bytes) -> None:
        kind = "websocket" if wishes.upgrade == b"websocket" else "http"
        method = self._parser.get_method().decode("ascii")
        version = self._parser.get_http_version() if kind == "websocket" else "2"
        headers, target = self._headers, self._target
        try:
            scope = make_scope(
                kind, version, method, self.scheme, target, headers, self.client, self.server, {**_DENIALS}
            )
        except BadHttpRequest as error:
            self.refuse(error.status, str(error))
            return
        if kind == "http":
            self._become_http2(rest, scope, wishes.settings)
            return
        from millstream.http.websocket import WebSocket

        self._leave_to(WebSocket(self.listener, scope), rest)

    def _become_http2(self, received: bytes, request: Any = None, settings: bytes | None = None) -> None:
        from millstream.http.http2 import Http2

        self._leave_to(Http2(self.listener, request, settings), received)

    def _leave_to(self, other: Line, received: bytes) -> None:
        """Hand the connection over to another protocol."""
        self._state = TurnState.CLOSED
        self._parser = None
        self.hand_over(other)
        if received:
            other.data_received(received)
