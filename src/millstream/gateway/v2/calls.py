"""A call of an operation: the request, read as the operation declares it, and the kinds of answers.

Calls use ASGI directly, without a framework, because streams need the body as it arrives, the pace of the
reader, and the moment at which the caller disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Protocol, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.gateway.core import Core
from millstream.gateway.errors import BadRequest, Disconnected, NotAcceptable, UnsupportedMedia
from millstream.gateway.exchange import Exchange
from millstream.gateway.link import CallerLink
from millstream.gateway.presence import WhileThere
from millstream.gateway.v2.operations import JSON, Operation
from millstream.gateway.v2.payload import to_json

Headers = list[tuple[str, str]]
Result = TypeVar("Result")

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_JSON_KINDS: Final = ("application/json", "text/json")


class Reply(Protocol):
    """The result of a handler, which can be sent."""

    async def respond(self, exchange: Exchange) -> None: ...


class Whole:
    """An answer that is complete before its first byte is sent; JSON ends with a line end, for shells."""

    def __init__(
        self, status: int, body: bytes = b"", media_type: str = JSON, headers: Headers | None = None
    ) -> None:
        self.status = status
        self.body = body + b"\n" if body and media_type == JSON else body
        self.media_type = media_type
        self.headers = headers or []

    async def respond(self, exchange: Exchange) -> None:
        headers = [*self.headers]
        if self.status not in (204, 304):
            headers += [("Content-Length", str(len(self.body)))]
            if self.body or self.status == 200:
                headers += [("Content-Type", self.media_type)]
        await exchange.send(start(self.status, headers))
        await exchange.send({"type": "http.response.body", "body": self.body})


class AnswerHead:
    """The head of an answer in pieces, for a HEAD request: no stream is started."""

    def __init__(self, media_type: str) -> None:
        self._media_type = media_type

    async def respond(self, exchange: Exchange) -> None:
        await exchange.send(start(200, flow_headers(self._media_type)))
        await exchange.send({"type": "http.response.body", "body": b""})


def flow_headers(media_type: str) -> Headers:
    """Return the headers of every answer in pieces."""
    return [("Content-Type", media_type), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")]


class Flow:
    """An answer in pieces, until they end or the caller disconnects.

    `pieces` is closed at once when the caller disconnects, even while it waits; it releases its resources in
    its `finally`.  With `watch=False`, `pieces` reads the body of the request and notices the disconnect
    itself. `sent` is called for each piece when all or possibly a part of it has reached the socket.
    """

    def __init__(
        self,
        media_type: str,
        pieces: AsyncGenerator[bytes, None],
        headers: Headers | None = None,
        *,
        watch: bool = True,
        sent: Callable[[], None] | None = None,
    ) -> None:
        self.media_type = media_type
        self.pieces = pieces
        self.headers = headers or []
        self.watch = watch
        self._sent = sent

    async def respond(self, exchange: Exchange) -> None:
        try:
            if self.watch:
                async with exchange.while_there() as presence:
                    await self._send(exchange, presence)
            else:
                await self._send(exchange, None)
        except (Disconnected, OSError):
            pass
        finally:
            await self.pieces.aclose()

    async def _send(self, exchange: Exchange, presence: WhileThere | None) -> None:
        send = exchange.send
        await send(start(200, [*flow_headers(self.media_type), *self.headers]))
        async for piece in self.pieces:
            if self._sent is not None and not exchange.writes_whole:
                self._sent()
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            if presence is not None and presence.is_gone:
                return  # the wait for room ended because the caller disconnected
            if self._sent is not None:
                self._sent()
            await asyncio.sleep(0)  # neither side may have waited: let other tasks run
        await send({"type": "http.response.body", "body": b""})


async def begun(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Return `pieces` after its first piece, so that closing it runs its `finally`.

    A generator that never started is closed without it, and would leak its resources if the caller
    disconnects before the answer begins.
    """
    await anext(pieces)
    return pieces


def start(status: int, headers: Headers) -> dict[str, Any]:
    """Return the ASGI message that starts an answer."""
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (name.lower().encode("latin-1"), _CONTROL.sub(b" ", value.encode(errors="replace")))
            for name, value in headers
        ],
    }


async def cancelled(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel the tasks that still run, and wait until they have ended."""
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def answer(value: Any, status: int = 200, headers: Headers | None = None) -> Whole:
    """Return an answer with `value` as JSON."""
    return Whole(status, to_json(value), JSON, headers)


def nothing(headers: Headers | None = None) -> Whole:
    return Whole(204, headers=headers)


class Call:
    """A call of `operation`, with the link of the caller's credentials."""

    def __init__(
        self, operation: Operation, exchange: Exchange, core: Core, link: CallerLink, path: Mapping[str, str]
    ) -> None:
        self.operation = operation
        self.exchange = exchange
        self.scope = exchange.scope
        self.receive = exchange.receive
        self.link = link
        self.core = core
        self.settings = core.settings
        self.path = path
        self._ended = False
        self.query: Any = read_query(operation.query, self.scope.get("query_string", b""))

    # -- headers --------------------------------------------------------------------------------------

    @property
    def is_head(self) -> bool:
        """Return whether the request is a HEAD."""
        return self.exchange.is_head

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        return list(self.scope["headers"])

    def header(self, name: str) -> str:
        """Return the value of a header (its name in lower case), empty if it is missing."""
        return self.exchange.header(name.encode()).strip()

    @property
    def media_type(self) -> str:
        """Return the content type of the request, without its parameters."""
        return self.exchange.header(b"content-type").partition(";")[0].strip().lower()

    def accepted(self, *offers: str) -> str:
        """Return the offer that the caller prefers, by default the first one; 406 if it accepts none."""
        wanted = self.header("accept")
        if not wanted:
            return offers[0]
        best = ("", 0.0)
        for part in wanted.split(","):
            pattern, *parameters = (text.strip().lower() for text in part.split(";"))
            weight = 1.0
            for parameter in parameters:
                if parameter.startswith("q="):
                    with contextlib.suppress(ValueError):
                        weight = float(parameter[2:])
            for offer in offers:
                kind = offer.partition("/")[0]
                if pattern in (offer, f"{kind}/*", "*/*") and weight > best[1]:
                    best = (offer, weight)
                    break
        if not best[0]:
            raise NotAcceptable(f"there is {' and '.join(offers)}")
        return best[0]

    def url(self, path: str) -> str:
        """Return `path` with the listener's prefix, as the caller sees it."""
        return f"{self.scope.get('root_path') or ''}{path}"

    # -- the body -------------------------------------------------------------------------------------

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises Disconnected if the caller disconnects before its end."""
        while not self._ended:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                self._ended = True
                raise Disconnected("the caller went away in the middle of the body")
            self._ended = not event.get("more_body", False)
            if chunk := event.get("body", b""):
                yield chunk

    async def body(self) -> bytes:
        """Return the whole body, within the limits of the gateway."""
        self._ended = True
        return await self.exchange.body()

    async def json(self, kind: type[Result]) -> Result:
        """Return the JSON body, decoded to `kind`; 400 if it is invalid, 415 for another content type."""
        body = await self.body()
        body_of = self.operation.body
        if not body and body_of is not None and not body_of.required:
            body = b"{}"
        elif self.media_type and self.media_type not in _JSON_KINDS:
            raise UnsupportedMedia(f"{self.media_type} is not supported here; send {JSON}")
        return decode(body, kind)

    # -- the caller -----------------------------------------------------------------------------------

    async def while_there(self, work: Awaitable[Result]) -> Result:
        """Return the result of `work`; raises Disconnected if the caller leaves.  Read the body first."""
        async with self.exchange.while_there():
            return await work


def decode(text: bytes, kind: type[Result]) -> Result:
    """Return JSON decoded to `kind`; 400 if it is invalid."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE_JSON as error:
        raise BadRequest(f"the body can not be read: {error}") from None


def read_query(kind: type | None, query: bytes) -> Any:
    """Return the parameters as `kind`; 400 for unknown, invalid and repeated ones."""
    if not query:
        return _without_parameters(kind)
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except (UnicodeDecodeError, ValueError):
        raise BadRequest("the query cannot be read") from None
    known = _parameters(kind)
    given: dict[str, Any] = {}
    for name, value in pairs:
        is_list = known.get(name)
        if is_list is None:
            raise BadRequest(f"the parameter {name!r} is not known here")
        if is_list:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise BadRequest(f"the parameter {name!r} is given twice")
        else:
            given[name] = value
    return _query(kind, given)


def _query(kind: type | None, given: dict[str, Any]) -> Any:
    if kind is None:
        return None
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a parameter can not be read: {error}") from None


@functools.cache
def _parameters(kind: type | None) -> dict[str, bool]:
    """Return the names of parameters, and whether each may be repeated; cached, because it is slow."""
    if kind is None:
        return {}
    return {field.encode_name: _is_list(field.type) for field in msgspec.structs.fields(kind)}


@functools.cache
def _without_parameters(kind: type | None) -> Any:
    return _query(kind, {})


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) is list
