"""The state that all routes of a gateway share: its settings, its links to NATS, and its stop."""

from __future__ import annotations

import asyncio
import logging
import os
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from millstream.gateway.auth import Authenticator
from millstream.gateway.bounds import Alarm, BodyBudget, RateLimit
from millstream.gateway.cors import CrossOrigin
from millstream.gateway.links import Links
from millstream.gateway.metrics import Metrics
from millstream.gateway.queries import QueryDesk
from millstream.gateway.settings import Logging, Settings
from millstream.gateway.tables import TableDesk
from millstream.http.access_log import AccessLog
from millstream.otel.options import with_environment

if TYPE_CHECKING:
    from millstream.otel.sender import Sender
    from millstream.otel.spans import SpanQueue


class Core:
    """The shared state of one gateway; the ASGI lifespan or the server calls `start` and `stop`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.links = Links(settings.nats)
        self.authenticator = Authenticator(settings.auth)
        self.rate = RateLimit(settings.limits.rate, settings.limits.burst)
        self.cross_origin = CrossOrigin(settings.cors, settings.request_id_header)
        self.bodies = BodyBudget(settings.limits.bodies)
        self.streams_full = Alarm(
            f"{settings.limits.streams} subscriptions are open; see gateway.limits.streams"
        )
        self.metrics = Metrics()
        self.tables = TableDesk(settings.lake)
        self.queries = QueryDesk(settings.limits, self.tables)
        self.published = self.metrics.published.labels("v1")
        self.published_v2 = self.metrics.published.labels("v2")
        self.delivered = self.metrics.delivered.labels("v1")
        self.access_log = _access_log(settings.logging) if settings.logging.access else None
        self.otel: Sender | None = None  # while the gateway runs
        self.stopping = asyncio.Event()  # once set, streams send their last line and end
        self._running = 0

    async def start(self) -> None:
        self._running += 1
        if self._running == 1:
            self.links.start()
            self._start_otel()

    async def stop(self) -> None:
        self.stopping.set()
        self._running -= 1
        if self._running == 0:
            self.queries.stop()
            self.tables.stop()
            await self.links.close()
            if self.otel is not None:
                await self.otel.stop()
                self.otel = self.metrics.otel = None

    @property
    def spans(self) -> SpanQueue | None:
        """Return the queue for spans of sampled messages; None if none are recorded."""
        return self.otel.spans if self.otel is not None else None

    def _start_otel(self) -> None:
        options = with_environment(self.settings.otel, os.environ) if self.settings.otel is not None else None
        if options is not None:
            from millstream.otel.sender import Sender

            resource = {"service.version": version("millstream"), "service.instance.id": str(uuid4())}
            self.otel = Sender(options, resource, self._written, "millstream-gateway")
            self.otel.start()
            self.metrics.otel = self.otel

    async def _written(self) -> bytes:
        return self.metrics.text()


def _access_log(settings: Logging) -> AccessLog:
    log = logging.getLogger("millstream.gateway.access")
    return AccessLog(log, as_json=settings.json, headers=settings.headers, secret=settings.do_not_log_headers)
