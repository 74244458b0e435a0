"""One request and its answer, on top of ASGI, for routes that do without a framework."""

from __future__ import annotations

import asyncio
from typing import Final

from millstream.gateway import auth
from millstream.gateway.bounds import BodyBudget
from millstream.gateway.errors import BodyTimeout, BodyTooLarge, Disconnected
from millstream.gateway.presence import WhileThere
from millstream.http.asgi import CALLER, Headers, Message, Receive, Scope, Send, WaitingCaller

POLICY: Final = b"content-security-policy"
_NO_PARAMETERS: Final[tuple[str, ...]] = ()


class Exchange:
    """`send` adds what every answer has (request id, CORS) and remembers what was told."""

    __slots__ = (
        "_body_timeout_s",
        "_budget",
        "_held",
        "_max_body",
        "_send",
        "caller",
        "extra_headers",
        "parameters",
        "receive",
        "request_id",
        "scope",
        "sent_bytes",
        "status",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        max_body: int,
        body_timeout_s: float,
        budget: BodyBudget,
    ) -> None:
        self._budget = budget
        self._held = 0
        self.scope = scope
        self.receive = receive
        self._send = send
        self._max_body = max_body
        self._body_timeout_s = body_timeout_s
        self.request_id = ""
        self.caller: auth.Caller = auth.ANYBODY
        self.parameters = _NO_PARAMETERS  # of the path, in its order
        self.extra_headers: list[tuple[bytes, bytes]] = []
        self.status = 0  # 0: nothing was answered yet
        self.sent_bytes = 0

    # -- the request --------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def is_head(self) -> bool:
        """Whether only the head of the answer to a GET is wanted."""
        return self.scope.get("method") == "HEAD"

    def header(self, name: bytes) -> str:
        """The first header of that name (in lower case), or nothing."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return ""

    async def body(self, limit: int = 0) -> bytes:
        """All of it; BodyTooLarge beyond `limit` (or the setting), before it is in memory."""
        limit = limit or self._max_body
        announced = self.header(b"content-length").lstrip("0")
        if limit and announced.isdecimal() and (len(announced) > 18 or int(announced) > limit):
            raise BodyTooLarge(f"at most {limit} bytes are taken")
        message = None
        if self.scope["http_version"] != "2":  # for which other servers have no clock
            message = await self.receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                body: bytes = message.get("body", b"")
                if limit and len(body) > limit:
                    raise BodyTooLarge(f"at most {limit} bytes are taken")
                self.hold(len(body))
                return body
        try:
            async with asyncio.timeout(self._body_timeout_s or None):
                return await self._rest_of_body(message or await self.receive(), limit)
        except TimeoutError:
            raise BodyTimeout("the body did not arrive in time") from None

    async def _rest_of_body(self, message: Message, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            size += len(part)
            if limit and size > limit:
                raise BodyTooLarge(f"at most {limit} bytes are taken")
            self.hold(size)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await self.receive()

    def hold(self, size: int) -> None:
        """Hold so many bytes of the body in memory from now on; Overloaded if all requests hold too many."""
        self._budget.change(size - self._held)
        self._held = size

    @property
    def address(self) -> str:
        """The caller's, empty if it is not known."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def writes_whole(self) -> bool:
        """Whether a write that is given up has written nothing: our own server waits for room before it
        writes, and so do others with HTTP/1.1.  With HTTP/2 theirs may have written a part."""
        return self._caller is not None or str(self.scope["http_version"]) != "2"

    @property
    def _caller(self) -> WaitingCaller | None:
        caller: WaitingCaller | None = (self.scope.get("extensions") or {}).get(CALLER)
        return caller

    def while_there(self) -> WhileThere:
        """``async with`` it, once the body was read: Disconnected as soon as the caller is gone."""
        return WhileThere(self._caller, self.receive)

    # -- the answer ---------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """ASGI's `send`, for whatever answers in its own way."""
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._with_extra(message.get("headers", ()))
        elif kind == "http.response.body":
            if self.is_head:
                message["body"] = b""
            self.sent_bytes += len(message.get("body", b""))
        elif kind == "websocket.accept":
            self.status = 101
            message["headers"] = [*message.get("headers", ()), *self.extra_headers]
        elif kind == "websocket.close" and not self.status:
            self.status = 403
        await self._send(message)

    def _with_extra(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Add what every answer has; a page of our own says itself what it may do."""
        told = [*headers]
        has_policy = any(name == POLICY for name, _ in told)
        return told + [pair for pair in self.extra_headers if not has_policy or pair[0] != POLICY]

    async def answer(
        self, status: int, body: bytes, content_type: bytes = b"application/json", headers: Headers = ()
    ) -> None:
        """The whole answer at once."""
        self.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", content_type),
                    (b"content-length", b"%d" % len(body)),
                    *headers,
                    *self.extra_headers,
                ],
            }
        )
        if self.is_head:
            body = b""
        self.sent_bytes += len(body)
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, content_type: bytes, headers: Headers = ()) -> None:
        """The head of an answer whose body comes by and by; it leaves at once."""
        self.status = status
        head = [(b"content-type", content_type), *headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        # Servers hold the head back until there is a body; an empty part lets it go.
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def write(self, data: bytes) -> None:
        """A part of the body; back when the caller has room for more."""
        self.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        """The last part of the body."""
        self.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data})
