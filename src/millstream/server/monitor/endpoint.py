"""The monitoring endpoint of a server: its address, its certificate, its start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ssl
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.broker.listener import bind
from millstream.broker.options import TlsOptions
from millstream.config.options import MonitorOptions
from millstream.server.monitor.http import HttpServer

if TYPE_CHECKING:
    from millstream.config.reload import ReloadPlan
    from millstream.server.monitor.http import MonitorRequest, MonitorResponse
    from millstream.server.monitor.routes import MonitorRoutes
    from millstream.server.server import Server

_ROUTES: Final = "millstream.server.monitor.routes"  # with all documents; imported for the first request
_WILDCARDS = ("", "0.0.0.0", "::")


class Monitor:
    """The monitoring endpoint over HTTP, or over HTTPS if a port for it is configured."""

    def __init__(self, server: Server, options: MonitorOptions) -> None:
        self.port = 0
        self._server = server
        self._options = options
        self._counts: Counter[str] = Counter()
        self._routes: MonitorRoutes | None = None
        self._http = HttpServer(self._handle)
        self._context: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        return "http" if self._options.https_port is None else "https"

    @property
    def address(self) -> str:
        """The configured host and the port in use."""
        return f"{_bracketed(self._options.host)}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the endpoint on this machine."""
        host = "127.0.0.1" if self._options.host in _WILDCARDS else _bracketed(self._options.host)
        return f"{self.scheme}://{host}:{self.port}{self._options.base_path.rstrip('/')}"

    @property
    def request_counts(self) -> Mapping[str, int]:
        """The number of requests so far, by path."""
        return self._counts

    async def start(self) -> None:
        """Start to listen; raises CannotListen if the address is not available."""
        options = self._options
        port = options.http_port if options.https_port is None else options.https_port
        if port is None:
            raise ValueError("monitoring has no port")
        handshake_timeout_s = None
        if options.https_port is not None:
            if options.tls is None:
                raise ValueError("monitoring over HTTPS needs a certificate")
            from millstream.broker.tls import server_context

            self._context = server_context(_without_client_certificates(options.tls))
            handshake_timeout_s = options.tls.timeout_s
            self._server.reload_listeners.append(self._reloaded)
        change = "-m" if options.https_port is None else "-ms"
        sockets = bind(options.host, port, "monitoring", change)
        self.port = sockets[0].getsockname()[1]
        await self._http.start(sockets, self._context, handshake_timeout_s)

    async def stop(self) -> None:
        await self._http.stop()

    async def _handle(self, request: MonitorRequest) -> MonitorResponse:
        routes = self._routes
        if routes is None:
            routes = await self._load_routes()
        return await routes.handle(request)

    async def _load_routes(self) -> MonitorRoutes:
        """Import the documents in a thread, so that no client of the broker waits for it."""
        if not hasattr(sys.modules.get(_ROUTES), "MonitorRoutes"):
            with contextlib.suppress(RuntimeError):  # there is no thread to be had
                await asyncio.to_thread(importlib.import_module, _ROUTES)
        from millstream.server.monitor.routes import MonitorRoutes

        if self._routes is None:  # no other request was faster
            self._routes = MonitorRoutes(self._server, self._options.base_path, self._counts)
        return self._routes

    def _reloaded(self, plan: ReloadPlan) -> None:
        """Use a renewed certificate from the next handshake on."""
        tls = self._server.options.monitor.tls
        if self._context is not None and tls is not None:
            from millstream.broker.tls import server_context

            server_context(_without_client_certificates(tls))  # raises a clearer error for an invalid file
            self._context.load_cert_chain(tls.cert_file, tls.key_file)


def _without_client_certificates(tls: TlsOptions) -> TlsOptions:
    """Return the TLS options without client certificates, which only clients of the broker need."""
    return msgspec.structs.replace(tls, verify=False, verify_and_map=False)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
