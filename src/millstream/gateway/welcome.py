"""Paths that people and probes try first: the root, `/docs` and the health check."""

from __future__ import annotations

from typing import Final

import msgspec

from millstream.gateway.core import Core
from millstream.gateway.exchange import Exchange
from millstream.gateway.routes import Route
from millstream.gateway.v1.health import is_ready

DOCS: Final = "/v2/docs"
DASHBOARD: Final = "/ui/"
ROOTS: Final = ("/", "/v2", "/v2/")
_HEALTH: Final = ("/healthz", "/health")


def welcome_routes(prefix: str, metrics_path: str, *, has_dashboard: bool) -> list[Route]:
    """Return the routes; addresses in their answers begin with `prefix`."""
    places = {"docs": DOCS, "openapi": "/v2/openapi.json", "health": _HEALTH[0]}
    if has_dashboard:
        places = {"dashboard": DASHBOARD} | places
    if metrics_path:
        places["metrics"] = metrics_path
    body = _line({"service": "millstream gateway"} | {name: prefix + path for name, path in places.items()})

    async def welcome(exchange: Exchange, core: Core) -> None:
        """List the paths; a browser is redirected to the dashboard, or from `/v2` to the documentation."""
        if "text/html" not in exchange.header(b"accept"):
            await exchange.answer(200, body)
        elif has_dashboard and exchange.scope["path"] == f"{prefix}/":
            await send_to(exchange, DASHBOARD)
        else:
            await send_to(exchange, DOCS)

    async def show_docs(exchange: Exchange, core: Core) -> None:
        await send_to(exchange, DOCS)

    async def send_to(exchange: Exchange, path: str) -> None:
        await exchange.answer(302, body, headers=[(b"location", (prefix + path).encode())])

    return [
        *(Route("GET", path, welcome, is_open=True) for path in ROOTS),
        Route("GET", "/docs", show_docs, is_open=True),
        *(Route("GET", path, _health, is_open=True) for path in _HEALTH),
    ]


async def _health(exchange: Exchange, core: Core) -> None:
    """Answer whether calls can succeed, as `ready` of `/v1` does."""
    if await is_ready(core):
        await exchange.answer(200, _line({"status": "ok"}))
    else:
        error = "the gateway stops" if core.stopping.is_set() else "NATS or its JetStream is not reached"
        await exchange.answer(503, _line({"status": "unavailable", "error": error}))


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"
