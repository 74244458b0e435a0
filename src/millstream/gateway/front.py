"""The front that every request passes: id, CORS, origin, rate, credentials, routing, errors, metrics, log.

    http, or another ASGI server ──► Front ──► /v1 handlers
                                       └─────► /v2 application

A framework would cost more time for each request than the rest of the gateway together (see the decision
about the server), so the front is one function, which also finds the routes that must be fast.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Final

from millstream.gateway.core import Core
from millstream.gateway.error_map import JSON_TYPE, PROBLEM_TYPE, envelope, outcome_of, problem
from millstream.gateway.errors import Disconnected, NotFound
from millstream.gateway.exchange import POLICY, Exchange
from millstream.gateway.metrics import CONTENT_TYPE
from millstream.gateway.origins import OriginGate
from millstream.gateway.routes import NOTHING_HERE, Route, find, read_only
from millstream.gateway.settings import Group
from millstream.gateway.ui.routes import dashboard_routes
from millstream.gateway.v1.routes import routes_for
from millstream.gateway.welcome import ROOTS, welcome_routes
from millstream.http.asgi import Application, Receive, Scope, Send
from millstream.http.router import Router

_LOG: Final = logging.getLogger("millstream.gateway")
_NOWHERE: Final = "(none)"
# Answers contain messages of other users: no browser may run, render or share them.
_FOR_BROWSERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (POLICY, b"default-src 'none'; frame-ancestors 'none'; sandbox"),
)


class Front:
    """The ASGI application of one listener."""

    def __init__(
        self,
        core: Core,
        groups: frozenset[Group],
        path_prefix: str,
        v2: Application | None,
        *,
        listens_on: str = "",
    ) -> None:
        self.core = core
        self._v2 = v2
        self._prefix = path_prefix.rstrip("/")
        settings = core.settings
        self._max_body = settings.limits.max_body
        self._body_timeout_s = settings.limits.body_timeout_s
        self._id_name = settings.request_id_header.lower().encode()
        self._id_told = settings.request_id_header.encode()
        self._gate = OriginGate(settings.cors.origins, settings.hosts, listens_on)
        self._router: Router[Route] = Router()
        routes = routes_for(
            groups, relaxed_names=settings.relaxed_names, inbox_prefix=settings.nats.link.inbox_prefix
        )
        has_dashboard = Group.MANAGEMENT in groups
        routes += welcome_routes(self._prefix, settings.metrics_path, has_dashboard=has_dashboard)
        if has_dashboard:
            routes += dashboard_routes(self._prefix)
        if settings.metrics_path:
            routes.append(Route("GET", settings.metrics_path, _tell_metrics))
        if settings.read_only:
            routes = [read_only(route) for route in routes]
        for route in routes:
            self._router.add(route.method, route.template, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        started = time.perf_counter()
        exchange = Exchange(
            scope,
            receive,
            send,
            max_body=self._max_body,
            body_timeout_s=self._body_timeout_s,
            budget=self.core.bodies,
        )
        route = _NOWHERE
        is_stream = False
        path = self._path_of(scope)
        is_v2 = path is not None and path.startswith("/v2/") and path not in ROOTS
        try:
            self._mark(exchange)
            cross = self.core.cross_origin
            if cross.enabled:
                exchange.extra_headers += cross.headers_for(exchange.header(b"origin"))
                if scope["type"] == "http" and cross.is_preflight(exchange):
                    await cross.answer_preflight(exchange)
                    return
            self._gate.check(exchange, path)
            if path is None:
                raise NotFound(NOTHING_HERE)
            if is_v2 and self._v2 is not None:
                self._admit(exchange)
                await self._serve_v2(exchange, path)
            elif scope["type"] == "websocket":
                raise NotFound("there is no WebSocket at this path")
            else:
                found, _, exchange.parameters = find(self._router, scope.get("method", "GET"), path)
                route = found.template
                is_stream = found.is_stream
                if not found.is_open:
                    self._admit(exchange)
                await found.handler(exchange, self.core)
        except Disconnected:
            # nginx's code for a caller that disconnected; only logged
            exchange.status = exchange.status or 499
        except Exception as error:
            await self._answer_error(exchange, error, is_v2)
        finally:
            exchange.hold(0)
            if is_v2:
                state = exchange.scope.get("state", {})
                route, is_stream = state.get("route", "/v2"), state.get("is_stream", False)
            self._tell(exchange, route, time.perf_counter() - started, is_stream)

    # -- before -------------------------------------------------------------------------------------

    def _path_of(self, scope: Scope) -> str | None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        prefix = self._prefix
        if not prefix:
            return path
        return path[len(prefix) :] if path.startswith(prefix + "/") else None

    def _mark(self, exchange: Exchange) -> None:
        """Set the request's id: the caller's own, or a new one."""
        name = self._id_name
        for key, value in exchange.scope["headers"]:
            if key == name and value:
                exchange.request_id = value.decode("latin-1")
                exchange.extra_headers = [(self._id_told, value), *_FOR_BROWSERS]
                return
        exchange.request_id = fresh = _fresh_id()
        exchange.extra_headers = [(self._id_told, fresh.encode()), *_FOR_BROWSERS]

    def _admit(self, exchange: Exchange) -> None:
        """Identify the caller and check its rate."""
        core = self.core
        exchange.caller = caller = core.authenticator.caller_of(exchange.header(b"authorization"))
        if core.rate.enabled:
            who = caller.name
            if caller.credentials is not None:
                # Credentials that NATS has not accepted yet may be a guess, and count for the caller's
                # address.
                who = caller.credentials.digest if core.links.knows(caller.credentials) else ""
            core.rate.check(who or exchange.address, time.monotonic())

    async def _serve_v2(self, exchange: Exchange, path: str) -> None:
        assert self._v2 is not None
        scope = exchange.scope
        if self._prefix:
            inner = scope["path"][len(self._prefix) :]
            scope = {**scope, "path": inner, "raw_path": path.encode("latin-1"), "root_path": self._prefix}
            exchange.scope = scope
        state = scope.setdefault("state", {})
        state["exchange"] = exchange
        await self._v2(scope, exchange.receive, exchange.send)

    # -- after --------------------------------------------------------------------------------------

    async def _answer_error(self, exchange: Exchange, error: Exception, is_v2: bool) -> None:
        outcome = outcome_of(error, self.core.authenticator.challenge)
        if outcome.status >= 500 and outcome.title == "Internal Server Error":
            _LOG.error("request %s failed", exchange.request_id, exc_info=error)
        if exchange.status:
            raise error  # the answer has begun: the server cuts it off
        if exchange.scope["type"] == "websocket":
            await exchange.send({"type": "websocket.close", "code": 1008, "reason": outcome.title})
            exchange.status = outcome.status
            return
        if is_v2:
            instance = exchange.scope["path"]
            body, kind = problem(exchange.request_id, outcome, instance), PROBLEM_TYPE
        else:
            body = envelope(exchange.request_id, outcome.status, outcome.title, outcome.detail)
            kind = JSON_TYPE
        await exchange.answer(outcome.status, body, kind, outcome.headers)

    def _tell(self, exchange: Exchange, route: str, seconds: float, is_stream: bool) -> None:
        core = self.core
        scope = exchange.scope
        timed = None if is_stream else seconds
        core.metrics.count(scope.get("method", "WEBSOCKET"), route, exchange.status, timed)
        if core.access_log is not None:
            core.access_log.write(
                scope,
                exchange.status,
                exchange.sent_bytes,
                seconds,
                request_id=exchange.request_id,
                caller=exchange.caller.name,
                route=route,
            )

    async def _live(self, receive: Receive, send: Send) -> None:
        """Serve ASGI's lifespan, for servers that are not ours."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.core.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await asyncio.shield(self.core.stop())
                await send({"type": "lifespan.shutdown.complete"})
                return


def _fresh_id() -> str:
    """Return a random UUID; three times as fast as `uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


async def _tell_metrics(exchange: Exchange, core: Core) -> None:
    core.metrics.links.set(len(core.links))
    core.metrics.link_up.set(1 if core.links.own.is_up else 0)
    await exchange.answer(200, core.metrics.text(), CONTENT_TYPE)
