"""A collector of OpenTelemetry on loopback: it takes OTLP over HTTP and keeps what it got."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeVar

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.kits.patience import PATIENCE_S

Found = TypeVar("Found")


class CollectedSpan:
    """One span as it came over the wire."""

    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name: str = span.name
        self.kind: int = span.kind
        self.trace_id: str = span.trace_id.hex()
        self.span_id: str = span.span_id.hex()
        self.parent_id: str = span.parent_span_id.hex()
        self.start_ns: int = span.start_time_unix_nano
        self.end_ns: int = span.end_time_unix_nano
        self.attributes = plain(span.attributes)
        self.failed = span.status.code == 2
        self.service: str = resource["service.name"]

    def __repr__(self) -> str:
        return f"<{self.name} {self.attributes.get('millstream.outcome', '')}>"


def plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Collector:
    """Takes spans and metrics; `answers` with this status, or holds every request until it is closed."""

    def __init__(self, *, status: int = 200, holds: bool = False) -> None:
        self.spans: list[CollectedSpan] = []
        self.metrics: dict[str, Any] = {}  # by name: the last one
        self.resource: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.requests = 0
        self.status = status
        self._holds = holds
        self._released = threading.Event()
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, dict(self.headers), body)
                if collector.is_held():
                    return
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        with self._changed:
            self.requests += 1
            self.headers = headers
            if self.status == 200 and not self._holds:
                self._keep(path, body)
            self._changed.notify_all()

    def _keep(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = plain(each.resource.attributes)
                for scope in each.scope_spans:
                    self.spans += [CollectedSpan(span, resource) for span in scope.spans]
        elif path == "/v1/metrics":
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.resource = plain(group.resource.attributes)
                for measured in group.scope_metrics:
                    self.metrics.update({metric.name: metric for metric in measured.metrics})

    def is_held(self) -> bool:
        return self._holds and self._released.wait(PATIENCE_S)

    def wait(self, look: Callable[[Collector], Found]) -> Found:
        """Wait until `look` returns something true, and return that; call it in a thread."""
        with self._changed:
            found = self._changed.wait_for(lambda: look(self), PATIENCE_S)
            assert found, (self.spans, sorted(self.metrics), self.requests)
            return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
