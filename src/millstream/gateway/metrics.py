"""The Prometheus metrics of a gateway.

Requests are counted in plain numbers, which are cheap; Prometheus' objects are made from them at a scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from millstream.http.listener import Counts

if TYPE_CHECKING:
    from millstream.otel.sender import Sender

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST.encode()
_PREFIX: Final = "millstream_gateway_"
_METHODS: Final = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET")
)  # HTTP/2 callers can invent methods, and each would stay as a label
_OTHER_METHOD: Final = "OTHER"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUNDS: Final = (*(str(bound) for bound in _BUCKETS), "+Inf")


class Tally:
    """A counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        self.value += amount

    def dec(self, amount: int = 1) -> None:
        self.value -= amount

    def set(self, value: int) -> None:
        self.value = value


class Tallies:
    """Tallies by the value of one label."""

    def __init__(self) -> None:
        self.by_label: dict[str, Tally] = {}

    def labels(self, label: str) -> Tally:
        return self.by_label.setdefault(label, Tally())


class _Timer:
    """A histogram of the durations of one route."""

    __slots__ = ("buckets", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * len(_BOUNDS)
        self.sum = 0.0


class Metrics(Collector):
    """The metrics of one gateway, in a registry of its own; others can be added to `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.http = Counts()  # of all its listeners
        self.streams = Tallies()
        self.delivered = Tallies()
        self.published = Tallies()
        self.links = Tally()
        self.link_up = Tally()
        self.otel: Sender | None = None
        self._requests: dict[tuple[str, str, int], int] = {}
        self._timers: dict[str, _Timer] = {}
        self.registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count one request; `seconds` is None for a stream."""
        if method not in _METHODS:
            method = _OTHER_METHOD
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        if seconds is not None:
            timer = self._timers.get(route)
            if timer is None:
                timer = self._timers[route] = _Timer()
            timer.buckets[bisect_left(_BUCKETS, seconds)] += 1
            timer.sum += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield Prometheus' objects for the numbers."""
        http = self.http
        requests = _counter("requests", "Requests answered", ["method", "route", "status"])
        for (method, route, status), number in self._requests.items():
            requests.add_metric([method, route, str(status)], number)
        yield requests
        yield self._histogram()
        for name, text, tallies in (
            ("messages_delivered", "Messages written to subscriptions", self.delivered),
            ("messages_published", "Messages stored for callers", self.published),
        ):
            counter = _counter(name, text, ["api"])
            for label, tally in tallies.by_label.items():
                counter.add_metric([label], tally.value)
            yield counter
        streams = GaugeMetricFamily(f"{_PREFIX}streams", "Subscriptions that are open", labels=["api"])
        for label, tally in self.streams.by_label.items():
            streams.add_metric([label], tally.value)
        yield streams
        for name, text, value in (
            ("connections", "HTTP connections that are open", http.connections),
            ("nats_links", "Connections to NATS", self.links.value),
            ("nats_up", "Whether the gateway's own connection to NATS is up", self.link_up.value),
        ):
            yield GaugeMetricFamily(_PREFIX + name, text, value)
        for name, text, value in (
            ("connections_refused", "HTTP connections beyond the limits", http.refused),
            ("http2_requests", "Requests that came over HTTP/2", http.requests_http2),
            ("websockets", "WebSockets that were opened", http.websockets),
            (
                "request_timeouts",
                "Requests and answers that took too long",
                http.timeouts,
            ),
            (
                "http2_abuses",
                "HTTP/2 connections closed for frames that bring nothing",
                http.abuse,
            ),
        ):
            yield CounterMetricFamily(_PREFIX + name, text, value)
        if self.otel is not None:
            yield from self.otel.described()

    def _histogram(self) -> Metric:
        seconds = HistogramMetricFamily(
            f"{_PREFIX}request_seconds",
            "Time from a request's head to the end of its answer; not of streams",
            labels=["route"],
        )
        for route, timer in self._timers.items():
            total = 0
            buckets: list[Any] = []
            for bound, number in zip(_BOUNDS, timer.buckets, strict=True):
                total += number
                buckets.append((bound, total))
            seconds.add_metric([route], buckets, timer.sum)
        return seconds

    def text(self) -> bytes:
        return generate_latest(self.registry)


def _counter(name: str, text: str, labels: list[str]) -> CounterMetricFamily:
    return CounterMetricFamily(_PREFIX + name, text, labels=labels)
