"""Make OTLP's metrics of the text that `/metrics` answers, so that both say the same.

Counters become monotonic sums, gauges stay gauges, histograms keep their buckets.  Names are Prometheus'
without `_total`, which a collector adds again where it writes for Prometheus.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_fd_to_metric_families

MOST_POINTS: Final = 20_000  # of one report: streams beyond them are left out
_POINTS_AT_ONCE: Final = 500  # of one request, so that the interpreter is not kept for long

_Point = NumberDataPoint | HistogramDataPoint


def requests_of(
    text: str, resource: Resource, scope: InstrumentationScope, started_ns: int, now_ns: int
) -> Iterator[MetricsData]:
    """Yield what to send for one scrape, some points at a time."""
    points = islice(_points(text, started_ns, now_ns), MOST_POINTS)
    while some := list(islice(points, _POINTS_AT_ONCE)):
        yield _request(some, resource, scope)


def _points(text: str, started_ns: int, now_ns: int) -> Iterator[tuple[Family, _Point]]:
    for family in text_fd_to_metric_families(io.StringIO(text)):
        if family.type == "histogram":
            for point in _histograms(family, started_ns, now_ns):
                yield family, point
            continue
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                yield family, NumberDataPoint(sample.labels, started_ns, now_ns, sample.value)


def _histograms(family: Family, started_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    """Yield a point for each set of labels; Prometheus' buckets have everything up to their bounds."""
    buckets: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    sums: dict[frozenset[tuple[str, str]], float] = {}
    for sample in family.samples:
        labels = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    for labels, found in buckets.items():
        found.sort()
        totals = [round(total) for _, total in found]
        counts = [after - before for before, after in zip([0, *totals], totals, strict=False)]
        yield HistogramDataPoint(
            dict(labels),
            started_ns,
            now_ns,
            totals[-1],
            sums.get(labels, 0.0),
            counts,
            [bound for bound, _ in found if not math.isinf(bound)],
            None,  # type: ignore[arg-type]  # Prometheus does not know the least and the most
            None,  # type: ignore[arg-type]
        )


def _request(
    found: Iterable[tuple[Family, _Point]], resource: Resource, scope: InstrumentationScope
) -> MetricsData:
    families: dict[str, tuple[Family, list[Any]]] = {}
    for family, point in found:
        families.setdefault(family.name, (family, []))[1].append(point)
    metrics = [_metric(family, points) for family, points in families.values()]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _metric(family: Family, points: list[Any]) -> Metric:
    unit = "s" if family.name.endswith("_seconds") else "By" if family.name.endswith("_bytes") else ""
    cumulative = AggregationTemporality.CUMULATIVE
    data: Sum | Gauge | Histogram
    if family.type == "histogram":
        data = Histogram(points, cumulative)
    elif family.type == "counter":
        data = Sum(points, cumulative, is_monotonic=True)
    else:
        data = Gauge(points)
    return Metric(family.name, family.documentation, unit, data)
