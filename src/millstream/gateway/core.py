"""The state that all routes of a gateway share: its settings, its links to NATS, and its stop."""

from __future__ import annotations

import asyncio
import logging

from millstream.gateway.auth import Authenticator
from millstream.gateway.bounds import Alarm, BodyBudget, RateLimit
from millstream.gateway.cors import CrossOrigin
from millstream.gateway.links import Links
from millstream.gateway.metrics import Metrics
from millstream.gateway.queries import QueryDesk
from millstream.gateway.settings import Logging, Settings
from millstream.gateway.tables import TableDesk
from millstream.http.access_log import AccessLog


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
        self.stopping = asyncio.Event()  # once set, streams send their last line and end
        self._running = 0

    async def start(self) -> None:
        self._running += 1
        if self._running == 1:
            self.links.start()

    async def stop(self) -> None:
        self.stopping.set()
        self._running -= 1
        if self._running == 0:
            self.queries.stop()
            self.tables.stop()
            await self.links.close()


def _access_log(settings: Logging) -> AccessLog:
    log = logging.getLogger("millstream.gateway.access")
    return AccessLog(log, as_json=settings.json, headers=settings.headers, secret=settings.do_not_log_headers)
