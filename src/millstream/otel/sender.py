"""The thread that sends spans and metrics to a collector.

    record ──▶ SpanQueue ──▶ Sender: OpenTelemetry's spans ──▶ OTLP over HTTP
    /metrics ──────────────▶ Sender: OTLP's metrics ─────────▶

Only this thread waits for the collector, for at most `timeout_s` at a time.  What the collector does not
take is dropped and counted.  The thread does its work in small portions: the interpreter runs one thread at a
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from millstream.base.complaints import Complaints
from millstream.otel.options import OtelOptions
from millstream.otel.spans import SpanQueue

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.resources import Resource

    from millstream.otel.recording import SpanWriter

Render = Callable[[], Coroutine[Any, Any, bytes]]

SCOPE: Final = "millstream"
_SPANS_AT_ONCE: Final = 128
_LOOK_S: Final = 1.0  # between looks whether there are spans
STOP_S = 1.0  # for the last spans to be sent, and then for the thread to end
_PATIENCE_S: Final = 30.0  # for the loop to write its metrics

_log = logging.getLogger("millstream.otel")


class Sender:
    """Sends what one server or gateway records, from `start` to `stop`."""

    def __init__(
        self, options: OtelOptions, resource: dict[str, str], render: Render, name: str = SCOPE
    ) -> None:
        self.spans = SpanQueue(options.queue, options.share) if options.traces else None
        self.failures = 0  # requests that the collector did not take
        self._options = options
        self._attributes = resource
        self._name = name  # of the service, unless it is configured
        self._render = render  # the text of `/metrics`, on the loop
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._complaints = Complaints(_log)
        self._stopping = False
        self._writer: SpanWriter | None = None
        self._exporter: OTLPMetricExporter | None = None
        self._resource: Resource
        self._started_ns = time.time_ns()

    def start(self) -> None:
        """Start the thread, in the loop that renders the metrics."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="millstream-otel", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            _log.error("nothing is sent to OpenTelemetry: no thread for it: %s", error)

    async def stop(self) -> None:
        """Send the spans that are left, unless the collector lets us wait."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping = True
        self._wake.set()
        await asyncio.to_thread(thread.join, STOP_S)
        if thread.is_alive():
            for exporter in (self._writer, self._exporter):
                if exporter is not None:
                    exporter.shutdown()  # ends its pauses between attempts
            await asyncio.to_thread(thread.join, STOP_S)

    def described(self) -> Iterator[Metric]:
        """Yield what `/metrics` says of the sender."""
        spans = self.spans
        for name, text, value in (
            ("spans", "Spans that were recorded for OpenTelemetry.", spans.recorded if spans else 0),
            ("dropped_spans", "Spans that no collector took.", spans.dropped if spans else 0),
            ("failed_requests", "Requests that the collector did not take.", self.failures),
        ):
            yield CounterMetricFamily(f"millstream_otel_{name}", text, value)

    # -- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._prepare()
        except Exception as error:
            _log.error("nothing is sent to OpenTelemetry: %s", error)
            return
        every_s = self._options.report_every_s
        due = time.monotonic() + every_s
        while not self._stopping:
            self._wake.wait(min(_LOOK_S, every_s))
            self._send_spans()
            if self._exporter is not None and time.monotonic() >= due and not self._stopping:
                self._send_metrics(self._exporter)
                due = time.monotonic() + every_s
        self._send_spans()

    def _prepare(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.resources import Resource

        from millstream.otel.recording import SpanWriter

        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # we say it once a minute
        options = self._options
        self._resource = Resource.create(dict(self._attributes))
        name = options.service_name or str(self._resource.attributes.get("service.name", ""))
        if not name or name.startswith("unknown_service"):
            name = self._name
        self._resource = self._resource.merge(Resource({"service.name": name}))
        settings: dict[str, Any] = {"timeout": options.timeout_s}
        if options.headers:
            settings["headers"] = dict(options.headers)
        if options.traces:
            self._writer = SpanWriter(self._resource, self._endpoint("traces"), settings)
        if options.metrics:
            self._exporter = OTLPMetricExporter(endpoint=self._endpoint("metrics"), **settings)

    def _endpoint(self, signal: str) -> str | None:
        base = self._options.endpoint
        return f"{base.rstrip('/')}/v1/{signal}" if base else None

    def _send_spans(self) -> None:
        queue, writer = self.spans, self._writer
        if queue is None or writer is None:
            return
        while spans := queue.take(_SPANS_AT_ONCE):
            if not self._try("spans", partial(writer.send, spans)):
                queue.dropped += len(spans)
                if self._stopping:
                    return

    def _send_metrics(self, exporter: OTLPMetricExporter) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        from millstream.otel.measurements import requests_of

        text = self._text()
        scope = InstrumentationScope(SCOPE)

        def send(request: MetricsData) -> bool:
            return exporter.export(request) is MetricExportResult.SUCCESS

        for request in requests_of(text, self._resource, scope, self._started_ns, time.time_ns()):
            if self._stopping or not self._try("metrics", partial(send, request)):
                return

    def _text(self) -> str:
        """Have the loop write its metrics; empty if it does not in time, or has ended."""
        work = self._render()
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S).decode()
        except Exception as error:
            with contextlib.suppress(RuntimeError):
                work.close()
            _log.debug("metrics were not written: %r", error)
            return ""

    def _try(self, what: str, send: Callable[[], bool]) -> bool:
        """Send something; report, at most once a minute, that the collector did not take it."""
        try:
            if send():
                return True
            reason = "the collector did not take them"
        except Exception as error:
            reason = repr(error)
        self.failures += 1
        self._complaints.tell(what, "%s for OpenTelemetry are lost: %s", what, reason, level=logging.WARNING)
        return False
