"""`/jsz`, and the interface ``JetStreamView`` through which monitoring reads JetStream."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.time import format_time
from millstream.server.monitor.queries import BadQuery

if TYPE_CHECKING:
    from http import HTTPStatus

    from prometheus_client.metrics_core import Metric

    from millstream.server.monitor.exposition import MetricTable
    from millstream.server.monitor.healthz import HealthError, HealthzOptions
    from millstream.server.server import Server


class JszOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The details to include; field names are those of a request to the system account."""

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumer: bool = False
    direct_consumer: bool = False
    config: bool = False
    leader_only: bool = False
    offset: int = 0
    limit: int = 0
    raft: bool = False
    stream_leader_only: bool = False


class JetStreamView(Protocol):
    """JetStream as monitoring sees it; documents are anything that ``json_page`` can write."""

    def varz(self) -> Any:
        """Return the `jetstream` part of `/varz`: config, stats, limits."""

    def jsz(self, options: JszOptions) -> Pieces[Any]:
        """Return all of `/jsz`; raises BadQuery."""

    def account(self, account: str, options: JszOptions) -> Any:
        """Return the part of `/jsz` about an account that has JetStream."""

    def health(self, options: HealthzOptions) -> Pieces[tuple[HTTPStatus, list[HealthError]]]:
        """Return the problems of the requested streams and consumers; 404 if one does not exist."""

    def account_enabled(self, account: str) -> bool:
        """Return whether the account may use JetStream."""

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics for Prometheus that do not concern single streams."""

    def stream_metrics(self) -> MetricTable:
        """Return the metrics of each stream for Prometheus."""


class ApiCounts(msgspec.Struct, frozen=True):
    level: int = 0
    total: int = 0
    errors: int = 0


class JetStreamConfig(msgspec.Struct, frozen=True):
    max_memory: int = 0
    max_storage: int = 0


class DisabledJsz(msgspec.Struct, frozen=True, kw_only=True):
    """The document of a server without JetStream."""

    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    accounts: int = 0
    ha_assets: int = 0
    api: ApiCounts = ApiCounts()
    server_id: str
    now: str
    disabled: bool = True
    config: JetStreamConfig = JetStreamConfig()
    streams: int = 0
    consumers: int = 0
    messages: int = 0
    bytes: int = 0
    total: int = 0


def jetstream_of(server: Server) -> JetStreamView | None:
    """Return the JetStream of this server, or None if it is off."""
    service = getattr(server, "jetstream", None)
    return service.view if service is not None else None


def jsz(server: Server, options: JszOptions | None = None) -> Pieces[Any]:
    """Return the current document; raises BadQuery for options that this server cannot serve."""
    options = options or JszOptions()
    view = jetstream_of(server)
    if view is not None:
        return (yield from view.jsz(options))
    if options.leader_only:
        raise BadQuery("filtered response: not leader")
    return DisabledJsz(server_id=server.broker.identity.server_id, now=format_time(time.time_ns()))
