"""A request and its answer, directly on ASGI without a framework."""

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
    """One request and its answer; `send` adds the headers of every answer and notes the status."""

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
        self.parameters = _NO_PARAMETERS  # of the path, in order
        self.extra_headers: list[tuple[bytes, bytes]] = []
        self.status = 0  # 0 before the answer begins
        self.sent_bytes = 0

    # -- the request --------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def is_head(self) -> bool:
        """Return whether the request is a HEAD: the answer to a GET without its body."""
        return self.scope.get("method") == "HEAD"

    def header(self, name: bytes) -> str:
        """Return the first header of that name (in lower case), or an empty string."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return ""

    async def body(self, limit: int = 0) -> bytes:
        """Return the whole body; raises BodyTooLarge beyond `limit` (or the setting) before it is read."""
        limit = limit or self._max_body
        announced = self.header(b"content-length").lstrip("0")
        if limit and announced.isdecimal() and (len(announced) > 18 or int(announced) > limit):
            raise BodyTooLarge(f"the body has more than {limit} bytes")
        message = None
        if self.scope["http_version"] != "2":  # other ASGI servers have no time-out for bodies of HTTP/2
            message = await self.receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                body: bytes = message.get("body", b"")
                if limit and len(body) > limit:
                    raise BodyTooLarge(f"the body has more than {limit} bytes")
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
                raise BodyTooLarge(f"the body has more than {limit} bytes")
            self.hold(size)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await self.receive()

    def hold(self, size: int) -> None:
        """Count `size` bytes of the body as held in memory; raises Overloaded beyond the limit of all."""
        self._budget.change(size - self._held)
        self._held = size

    @property
    def address(self) -> str:
        """Return the caller's address, empty if it is not known."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def writes_whole(self) -> bool:
        """Return whether a cancelled write has written nothing.

        Our own server waits for room before it writes, and other servers do with HTTP/1.1.  With HTTP/2 they
        may have written a part.
        """
        return self._caller is not None or str(self.scope["http_version"]) != "2"

    @property
    def _caller(self) -> WaitingCaller | None:
        caller: WaitingCaller | None = (self.scope.get("extensions") or {}).get(CALLER)
        return caller

    def while_there(self) -> WhileThere:
        """Return a context that raises Disconnected when the caller disconnects; read the body first."""
        return WhileThere(self._caller, self.receive)

    # -- the answer ---------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """Send an ASGI message, for routes that answer on their own."""
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
        """Add the headers of every answer; our own pages bring their content security policy themselves."""
        told = [*headers]
        has_policy = any(name == POLICY for name, _ in told)
        return told + [pair for pair in self.extra_headers if not has_policy or pair[0] != POLICY]

    async def answer(
        self, status: int, body: bytes, content_type: bytes = b"application/json", headers: Headers = ()
    ) -> None:
        """Send a complete answer."""
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
        """Send the head of an answer at once; the body follows in parts."""
        self.status = status
        head = [(b"content-type", content_type), *headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        # Servers send the head with the first part of the body; an empty part releases it.
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def write(self, data: bytes) -> None:
        """Send a part of the body; returns when the caller has room for more."""
        self.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        """Send the last part of the body."""
        self.sent_bytes += len(data)
        await self._send({"type": "http.response.body", "body": data})
