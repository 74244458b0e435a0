"""One call of an operation: what came in, read as it was declared, and the forms of what goes out.

It stands on ASGI, not on a framework, because streams need what is underneath: the body as it arrives, the
reader's pace, and the moment at which the caller is gone.
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
    """What a handler returns: something that can be sent."""

    async def respond(self, exchange: Exchange) -> None: ...


class Whole:
    """An answer that is complete before its first byte leaves; JSON ends its line, for shells."""

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
    """The head of an answer in pieces, for who asked with HEAD: nothing is begun that would have to end."""

    def __init__(self, media_type: str) -> None:
        self._media_type = media_type

    async def respond(self, exchange: Exchange) -> None:
        await exchange.send(start(200, flow_headers(self._media_type)))
        await exchange.send({"type": "http.response.body", "body": b""})


def flow_headers(media_type: str) -> Headers:
    """The headers of every answer in pieces."""
    return [("Content-Type", media_type), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")]


class Flow:
    """An answer in pieces, for as long as there are pieces and somebody who takes them.

    `pieces` is closed when the caller goes away, at once and also while it waits: what it holds it gives back
    in its `finally`.  With `watch=False` it reads the body of the request itself, and so notices on its own.
    `sent` is called for each piece when it has reached the socket, or when a part of it may have.
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
                return  # it waited for room, and was let go because the caller left
            if self._sent is not None:
                self._sent()
            await asyncio.sleep(0)  # neither side may have waited: the others have their turn
        await send({"type": "http.response.body", "body": b""})


async def begun(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """`pieces` behind its first one: a generator that never began is closed without its `finally`, and what
    it was to give back would be kept by a caller who leaves before the answer begins."""
    await anext(pieces)
    return pieces


def start(status: int, headers: Headers) -> dict[str, Any]:
    """The ASGI message that begins an answer."""
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (name.lower().encode("latin-1"), _CONTROL.sub(b" ", value.encode(errors="replace")))
            for name, value in headers
        ],
    }


async def cancelled(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel what still runs, and wait until it has ended."""
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def answer(value: Any, status: int = 200, headers: Headers | None = None) -> Whole:
    """`value` as JSON."""
    return Whole(status, to_json(value), JSON, headers)


def nothing(headers: Headers | None = None) -> Whole:
    return Whole(204, headers=headers)


class Call:
    """A call of `operation`, with the link to NATS that its credentials have."""

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
        """Whether only the head of the answer to a GET is wanted."""
        return self.exchange.is_head

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        return list(self.scope["headers"])

    def header(self, name: str) -> str:
        """The value of a header (in lower case, as ASGI has them), empty if it is not there."""
        return self.exchange.header(name.encode()).strip()

    @property
    def media_type(self) -> str:
        """The content type of the request, without its parameters."""
        return self.exchange.header(b"content-type").partition(";")[0].strip().lower()

    def accepted(self, *offers: str) -> str:
        """The offer that the caller likes best, the first one if he does not care; 406 if he takes none."""
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
        """`path` as the caller sees it, behind the prefix of the listener."""
        return f"{self.scope.get('root_path') or ''}{path}"

    # -- the body -------------------------------------------------------------------------------------

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; Disconnected if the rest of it will not."""
        while not self._ended:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                self._ended = True
                raise Disconnected("the caller went away in the middle of the body")
            self._ended = not event.get("more_body", False)
            if chunk := event.get("body", b""):
                yield chunk

    async def body(self) -> bytes:
        """The whole body, within the limits of the gateway."""
        self._ended = True
        return await self.exchange.body()

    async def json(self, kind: type[Result]) -> Result:
        """The body as JSON of `kind`; 400 if it is something else, 415 if it says so itself."""
        body = await self.body()
        body_of = self.operation.body
        if not body and body_of is not None and not body_of.required:
            body = b"{}"
        elif self.media_type and self.media_type not in _JSON_KINDS:
            raise UnsupportedMedia(f"{self.media_type} is not taken here, only {JSON}")
        return decode(body, kind)

    # -- the caller -----------------------------------------------------------------------------------

    async def while_there(self, work: Awaitable[Result]) -> Result:
        """Do `work`, which ends with Disconnected as soon as the caller is gone.  The body must be read."""
        async with self.exchange.while_there():
            return await work


def decode(text: bytes, kind: type[Result]) -> Result:
    """JSON of `kind`, or 400."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE_JSON as error:
        raise BadRequest(f"the body can not be read: {error}") from None


def read_query(kind: type | None, query: bytes) -> Any:
    """The parameters as `kind` has them; 400 for unknown ones, for others than it takes, and for
    repetition."""
    if not query:
        return _without_parameters(kind)
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except (UnicodeDecodeError, ValueError):
        raise BadRequest("the query can not be read") from None
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
    """The names of parameters, and whether each may come more than once: dear to find out, so only once."""
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
