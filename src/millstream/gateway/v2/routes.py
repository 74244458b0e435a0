"""The ASGI application of `/v2`: finds the operation of a path and a method, and calls it.

Paths are split into segments before they are decoded: an encoded slash is part of a name.  A subject takes
the whole rest of a path, so `a/b` needs no encoding.

The gateway's front answers errors of operations, except JetStream's refusals, for which `/v2` has statuses of
its own (`problems`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from millstream.gateway.core import Core
from millstream.gateway.error_map import PROBLEM_TYPE, problem
from millstream.gateway.errors import (
    FAILURES,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    ReadOnly,
)
from millstream.gateway.exchange import Exchange
from millstream.gateway.routes import find
from millstream.gateway.settings import Group
from millstream.gateway.v2.calls import Call
from millstream.gateway.v2.operations import Operation, Tag
from millstream.gateway.v2.problems import outcome_of
from millstream.gateway.v2.sections import SECTIONS
from millstream.gateway.v2.snapshot import SharedLists
from millstream.http.asgi import Application, Receive, Scope, Send
from millstream.http.router import Router
from millstream.link.errors import LinkApiError

_REST: Final = frozenset({"subject", "key", "object"})  # parameters that take the rest of the path
_SOCKET: Final = "WEBSOCKET"
_DENIAL: Final = "websocket.http.response"  # the ASGI extension for an HTTP answer to a WebSocket request


def asgi_app(core: Core, groups: frozenset[Group]) -> Application:
    """Return the application for `groups`; it must be called by the gateway's front."""
    return Routes(core, groups)


def operations_of(groups: frozenset[Group]) -> list[Operation]:
    """Return the operations of `groups`; both include the description."""
    return [
        operation
        for section in SECTIONS
        for operation in section.operations
        if operation.tag is Tag.ABOUT or operation.group in groups
    ]


class Routes:
    """Finds operations and calls them."""

    def __init__(self, core: Core, groups: frozenset[Group]) -> None:
        self._core = core
        self._router: Router[Operation] = Router(rest=_REST, encoded_slashes=True)
        self._open = 0
        for operation in operations_of(groups):
            method = _SOCKET if operation.socket else operation.method
            self._router.add(method, operation.path, operation)

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        """Return the operation and its path parameters; raises NotFound, MethodNotAllowed or BadRequest."""
        try:
            operation, names, values = find(self._router, method, path)
        except MethodNotAllowed as error:
            if method == _SOCKET or _SOCKET in error.allowed:
                raise NotFound("there is nothing at this path, or only a WebSocket; see /v2/docs") from None
            raise
        return operation, dict(zip(names, values, strict=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["state"]["exchange"]
        raw = scope.get("raw_path") or scope["path"].encode()
        method = _SOCKET if scope["type"] == "websocket" else scope["method"]
        operation, named = self.find(method, raw.decode("latin-1").partition("?")[0])
        scope["state"]["route"] = operation.path
        scope["state"]["is_stream"] = operation.stream
        try:
            if operation.stream:
                with self._admitted():
                    await self._serve(operation, exchange, named)
            else:
                await self._serve(operation, exchange, named)
        except FAILURES as error:
            socket = scope["type"] == "websocket"
            if exchange.status or (not socket and not isinstance(error, LinkApiError)):
                raise
            await self._refuse(exchange, error, socket)

    async def _serve(self, operation: Operation, exchange: Exchange, named: dict[str, str]) -> None:
        if operation.changes and self._core.settings.read_only:
            raise ReadOnly
        link = await self._core.links.link_for(exchange.caller.credentials, exchange.address)
        with link.held():
            reply = await operation.handler(Call(operation, exchange, self._core, link, named))
            if operation.changes and operation.group is Group.MANAGEMENT:
                SharedLists.forget(link)
            await reply.respond(exchange)

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[None]:
        """Count open streams; raises Overloaded beyond the limit."""
        most = self._core.settings.limits.streams
        if most and self._open >= most:
            self._core.streams_full.ring()
            raise Overloaded("there are too many subscriptions")
        gauge = self._core.metrics.streams.labels("v2")
        self._open += 1
        gauge.inc()
        try:
            yield
        finally:
            self._open -= 1
            gauge.dec()

    async def _refuse(self, exchange: Exchange, error: Exception, socket: bool) -> None:
        outcome = outcome_of(error)
        body = problem(exchange.request_id, outcome, exchange.scope["path"])
        if not socket:
            await exchange.answer(outcome.status, body, PROBLEM_TYPE, outcome.headers)
            return
        if _DENIAL not in (exchange.scope.get("extensions") or {}):
            raise error  # the front closes it, with 403
        exchange.status = outcome.status
        headers = [(b"content-type", PROBLEM_TYPE), (b"content-length", b"%d" % len(body))]
        start = {"type": f"{_DENIAL}.start", "status": outcome.status, "headers": headers}
        await exchange.send(start)
        await exchange.send({"type": f"{_DENIAL}.body", "body": body})
