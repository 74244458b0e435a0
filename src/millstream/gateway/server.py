"""A running gateway: its listeners, its links and its stop.

A stop first makes `ready` fail and accepts nothing new, then ends streams with their last line, then cuts off
the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
from typing import Final
from uuid import uuid4

from millstream.base.errors import MillstreamError
from millstream.base.reasons import CannotListen
from millstream.base.tls_files import TlsFileError, load_authorities, load_certificate
from millstream.base.tls_server import ServerContext
from millstream.gateway.app import build_app
from millstream.gateway.core import Core
from millstream.gateway.error_map import envelope
from millstream.gateway.logs import set_up_logs
from millstream.gateway.origins import is_loopback
from millstream.gateway.settings import Limits, Settings, Tls
from millstream.http.answers import PHRASES, whole
from millstream.http.limits import HttpLimits as HttpLimits
from millstream.http.listener import HttpListener

_LOG: Final = logging.getLogger("millstream.gateway")
_FIRST_ATTEMPT_S: Final = 2.0  # to connect to NATS, before the addresses are printed
_HEADERS: Final = ((b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff"))


class GatewayNotStarted(MillstreamError):
    """Raised if a gateway with these settings cannot start."""


class GatewayServer:
    """A gateway; use it with ``async with``, or call `run`, which serves until a signal."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.core = Core(settings)
        self._context = None if settings.tls is None else _server_context(settings.tls)
        self._listeners = [
            HttpListener(
                build_app(
                    settings,
                    groups=listener.groups,
                    path_prefix=listener.path_prefix,
                    core=self.core,
                    listens_on=listener.host,
                ),
                _limits(settings.limits),
                refusal=refusal,
                h2c_upgrade=settings.h2c_upgrade,
                counts=self.core.metrics.http,
                log=_LOG,
            )
            for listener in settings.listeners
        ]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return the addresses of the listeners, in the order of the settings."""
        return [listener.address for listener in self._listeners]

    async def start(self) -> None:
        for listener, chosen in zip(self._listeners, self._settings.listeners, strict=True):
            try:
                await listener.start((chosen.host, chosen.port), self._context)
            except (OSError, OverflowError) as error:
                for each in self._listeners:
                    each.stop_accepting()
                if isinstance(error, OverflowError):
                    raise GatewayNotStarted(f"there is no port {chosen.port}; ports are 1 to 65535") from None
                change = "--port, or listen_port in the file"
                raise CannotListen(error, "HTTP callers", chosen.host, chosen.port, change) from None
        self._warn()
        await self.core.start()

    def _warn(self) -> None:
        """Log the risks of a gateway that other machines can reach."""
        settings = self._settings
        for host, port in self.addresses:
            if is_loopback(host):
                continue
            if not settings.auth.required and (settings.tls is None or settings.tls.authorities is None):
                _LOG.warning(
                    "whoever reaches %s:%d may publish, read and delete as the gateway's own user: set "
                    "gateway.auth.required, or listen on 127.0.0.1",
                    host,
                    port,
                )
            if settings.tls is None:
                _LOG.warning(
                    "messages and credentials are sent in the clear to and from %s:%d: set gateway.tls, or "
                    "listen on 127.0.0.1 behind a proxy that has a certificate",
                    host,
                    port,
                )

    async def stop(self) -> None:
        """Stop the gateway; open requests have `stop_timeout_s` to end.  Further calls do nothing."""
        self.core.stopping.set()
        for listener in self._listeners:
            listener.stop_accepting()
        timeout_s = self._settings.limits.stop_timeout_s
        await asyncio.gather(*(listener.stop(timeout_s) for listener in self._listeners))
        await self.core.stop()

    async def __aenter__(self) -> GatewayServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked.set)
        await self.start()
        try:
            # whoever reads these lines may send a request at once
            await self.core.links.own.first_attempt(_FIRST_ATTEMPT_S)
            gc.collect()
            gc.freeze()  # modules and routes stay: collections, which hold up callers, need not visit them
            for host, port in self.addresses:
                scheme = "http" if self._settings.tls is None else "https"
                print(f"millstream gateway listens on {scheme}://{host}:{port}", flush=True)
            await asked.wait()
            _LOG.info("the gateway stops")
        finally:
            await self.stop()
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(ValueError):
                    loop.remove_signal_handler(number)


def refusal(status: int, detail: str) -> bytes:
    """Return an answer in an envelope for a connection without a readable request."""
    title = "Overloaded" if status == 503 else PHRASES[status]
    body = envelope(str(uuid4()), status, title, detail)
    return whole(status, _HEADERS, body)


def _limits(limits: Limits) -> HttpLimits:
    return HttpLimits(
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        max_head=limits.max_head,
        head_timeout_s=limits.head_timeout_s,
        body_timeout_s=limits.body_timeout_s,
        idle_timeout_s=limits.idle_timeout_s,
        write_timeout_s=limits.write_timeout_s,
    )


def _server_context(tls: Tls) -> ssl.SSLContext:
    if tls.certificate is None:
        raise GatewayNotStarted("gateway.tls needs a certificate")
    context = ServerContext()
    try:
        load_certificate(context, str(tls.certificate), str(tls.key or ""))
        if tls.authorities is not None:
            load_authorities(context, str(tls.authorities))
            context.require_certificates()
    except TlsFileError as error:
        raise GatewayNotStarted(f"gateway.tls: {error}") from None
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def serve(settings: Settings) -> None:
    """Set up the log of the process and run a gateway until a signal ends it."""
    set_up_logs(settings.logging)
    await GatewayServer(settings).run()
