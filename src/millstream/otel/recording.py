"""Make OpenTelemetry's spans of ours, and send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from millstream.otel.spans import FinishedSpan, SpanKind

_KINDS = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.PRODUCER: trace.SpanKind.PRODUCER,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
}


class _GivenIds(IdGenerator):
    """Gives each span the id that it has already: others may have named it as their parent."""

    def __init__(self) -> None:
        self.span_id = 0

    def generate_span_id(self) -> int:
        return self.span_id

    def generate_trace_id(self) -> int:
        raise AssertionError("every span has a parent")


class _Collected(SpanProcessor):
    """Keeps the spans that have ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class SpanWriter:
    """Sends spans of one resource; used by one thread."""

    def __init__(self, resource: Resource, endpoint: str | None, settings: dict[str, Any]) -> None:
        self._exporter = OTLPSpanExporter(endpoint=endpoint, **settings)
        self._ids = _GivenIds()
        self._collected = _Collected()
        # What is recorded was decided before: the sampler of the environment is for whole programs.
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer("millstream")

    def send(self, spans: Sequence[FinishedSpan]) -> bool:
        """Return True if the collector took the spans."""
        for span in spans:
            self._write(span)
        written, self._collected.spans = self._collected.spans, []
        return self._exporter.export(written) is SpanExportResult.SUCCESS

    def _write(self, span: FinishedSpan) -> None:
        self._ids.span_id = int(span.span_id, 16)
        parent = trace.SpanContext(
            int(span.parent.trace_id, 16),
            int(span.parent.span_id, 16),
            is_remote=True,
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
        )
        attributes = {"messaging.system": "nats", **span.attributes}
        if span.error:
            attributes["error.type"] = span.error
        written = self._tracer.start_span(
            span.name,
            trace.set_span_in_context(trace.NonRecordingSpan(parent)),
            _KINDS[span.kind],
            attributes,
            start_time=span.start_ns,
        )
        if span.error:
            written.set_status(trace.StatusCode.ERROR, span.error)
        written.end(span.end_ns)

    def shutdown(self) -> None:
        """End the pauses between attempts to send; in any thread."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
