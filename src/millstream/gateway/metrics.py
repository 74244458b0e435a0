"""What Prometheus may know about a gateway."""

from __future__ import annotations

from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST.encode()
_METHODS: Final = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET")
)  # HTTP/2 lets callers make up others, and each would be a label for good
_OTHER_METHOD: Final = "OTHER"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Of one gateway, in a registry of its own; `registry` takes further ones."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "millstream_gateway_requests", "Requests answered", labels, registry=self.registry
        )
        self._seconds = Histogram(
            "millstream_gateway_request_seconds",
            "Time from a request's head to the end of its answer; not of streams",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.streams = Gauge(
            "millstream_gateway_streams", "Subscriptions that are open", ("api",), registry=self.registry
        )
        self.delivered = Counter(
            "millstream_gateway_messages_delivered",
            "Messages written to subscriptions",
            ("api",),
            registry=self.registry,
        )
        self.published = Counter(
            "millstream_gateway_messages_published",
            "Messages stored for callers",
            ("api",),
            registry=self.registry,
        )
        self.connections = Gauge(
            "millstream_gateway_connections", "HTTP connections that are open", registry=self.registry
        )
        self.refused = Counter(
            "millstream_gateway_connections_refused",
            "HTTP connections beyond the limits",
            registry=self.registry,
        )
        self.links = Gauge("millstream_gateway_nats_links", "Connections to NATS", registry=self.registry)
        self.link_up = Gauge(
            "millstream_gateway_nats_up",
            "Whether the gateway's own connection to NATS is up",
            registry=self.registry,
        )
        self._children: dict[tuple[str, str, int], Any] = {}
        self._timers: dict[str, Any] = {}

    def count(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """One request; `seconds` is None for a stream."""
        if method not in _METHODS:
            method = _OTHER_METHOD
        key = (method, route, status)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(method, route, str(status))
        child.inc()
        if seconds is not None:
            timer = self._timers.get(route)
            if timer is None:
                timer = self._timers[route] = self._seconds.labels(route)
            timer.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
