"""`/metrics` for Prometheus.

Values are read from the broker during a scrape, so metrics cost a message nothing.  Names begin with
``millstream_``, except those of the process, which have their usual names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from millstream import BUILD, __version__
from millstream.base.slices import Pieces
from millstream.broker.info import SERVER_VERSION
from millstream.broker.totals import Traffic
from millstream.server.monitor import loop_steps, totals
from millstream.server.monitor.exposition import MetricTable, table_text, text_of
from millstream.server.monitor.jsz import jetstream_of

if TYPE_CHECKING:
    from millstream.server.server import Server

_NS: Final = 1e9


class ServerMetrics:
    """The metrics of one server, read during the scrape."""

    CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

    def __init__(self, server: Server, requests: Mapping[str, int]) -> None:
        self._server = server
        self._requests = requests
        self._process = ProcessCollector(registry=None)

    def of_process(self) -> list[Metric]:
        """Return what the system knows of the process; takes long with many descriptors, in any thread."""
        return list(self._process.collect())

    def render(self, process: list[Metric]) -> Pieces[list[bytes]]:
        """Yield all metrics as parts of a text, in slices (``base.slices``)."""
        broker = self._server.broker
        traffic = yield from totals.server_traffic(broker)
        pending = yield from totals.pending_bytes(broker)
        families = [*self._about_the_server(), *self._traffic(traffic, pending), *self._otel()]
        parts = [text_of(family) for family in families]
        parts += yield from table_text(self._accounts())
        view = jetstream_of(self._server)
        if view is not None:
            parts += [text_of(family) for family in view.metrics()]
            parts += yield from table_text(view.stream_metrics())
        parts += [text_of(family) for family in process]
        return parts

    def _about_the_server(self) -> Iterator[Metric]:
        server, broker = self._server, self._server.broker
        yield InfoMetricFamily(
            "millstream_build",
            "Version of Millstream, of the nats-server it stands for, and whether it is compiled.",
            {"version": __version__, "nats_version": SERVER_VERSION, "build": BUILD},
        )
        yield InfoMetricFamily(
            "millstream_server",
            "Name and id of the server.",
            {"server_id": broker.identity.server_id, "server_name": broker.identity.server_name},
        )
        started_s = server.started_ns / _NS
        yield _gauge("start_time_seconds", "When the server started, in seconds since 1970.", started_s)
        yield _gauge("uptime_seconds", "How long the server has been running.", time.time() - started_s)
        configured_s = server.configured_ns / _NS
        yield _gauge(
            "config_load_time_seconds",
            "When the configuration was loaded, in seconds since 1970.",
            configured_s,
        )
        yield _gauge("ready", "1 if new clients are taken.", float(server.ready))
        yield _gauge("lame_duck", "1 if clients are being sent away before a stop.", float(broker.lame_duck))
        yield _gauge("max_connections", "Limit of client connections.", broker.options.max_connections)
        yield _gauge("max_payload_bytes", "Limit of the size of a message.", broker.options.max_payload)
        yield _gauge("max_pending_bytes", "Limit of the backlog of one client.", broker.options.max_pending)
        http = CounterMetricFamily(
            "millstream_http_requests", "Requests for monitoring documents.", labels=["path"]
        )
        for path, count in sorted(self._requests.items()):
            http.add_metric([path], count)
        yield http
        yield from loop_steps.metrics(broker.turns.watchdog)

    def _traffic(self, traffic: Traffic, pending: int) -> Iterator[Metric]:
        broker = self._server.broker
        yield _gauge("connections", "Clients that are connected.", len(broker.connections))
        yield _counter("accepted_connections", "Clients that ever connected.", broker.totals.connections)
        yield _gauge(
            "subscriptions",
            "Subscriptions, those of the server itself included.",
            totals.subscription_count(broker),
        )
        yield _gauge(
            "pending_bytes",
            "Bytes that clients have not taken yet, of all together.",
            pending,
        )
        yield _counter("received_messages", "Messages that clients published.", traffic.in_messages)
        yield _counter("received_bytes", "Bytes of the messages that clients published.", traffic.in_bytes)
        yield _counter("sent_messages", "Messages that were delivered to clients.", traffic.out_messages)
        yield _counter("sent_bytes", "Bytes of the messages that were delivered.", traffic.out_bytes)
        yield _counter(
            "slow_consumers",
            "Clients found not to keep up with their messages.",
            broker.totals.slow_consumers,
        )
        yield _counter(
            "stale_connections",
            "Clients cut off because they did not answer pings.",
            broker.totals.stale_connections,
        )
        yield _counter(
            "stalled_producers",
            "Pauses imposed on clients that publish too fast.",
            broker.totals.stalled_clients,
        )

    def _otel(self) -> Iterator[Metric]:
        sender = self._server.otel
        if sender is not None:
            yield from sender.described()

    def _accounts(self) -> MetricTable:
        labels = ["account"]
        gauges = [
            GaugeMetricFamily(f"millstream_account_{name}", text, labels=labels)
            for name, text in (
                ("connections", "Clients of the account."),
                ("subscriptions", "Subscriptions in the account."),
            )
        ]
        counters = [
            CounterMetricFamily(f"millstream_account_{name}", text, labels=labels)
            for name, text in (
                ("received_messages", "Messages that clients of the account published."),
                ("received_bytes", "Bytes of the messages that clients of the account published."),
                ("sent_messages", "Messages that were delivered to clients of the account."),
                ("sent_bytes", "Bytes of the messages that were delivered to clients of the account."),
                ("slow_consumers", "Clients of the account found not to keep up with their messages."),
            )
        ]
        return MetricTable([*gauges, *counters], labels, self._account_rows())

    def _account_rows(self) -> Iterator[tuple[list[str], list[float]] | None]:
        for account in list(self._server.broker.accounts.values()):
            summing = totals.account_traffic(account)
            while True:
                try:
                    next(summing)
                    yield None
                except StopIteration as end:
                    traffic: Traffic = end.value
                    break
            sizes = [len(account.connections), account.space.tree.count]
            yield [account.name], [*sizes, *traffic, account.totals.slow_consumers]


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"millstream_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"millstream_{name}", text, value=value)
