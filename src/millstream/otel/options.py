"""Options of OpenTelemetry, and what the standard environment variables say."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

MISSING: Final = "OpenTelemetry needs the extra `otel`: pip install 'millstream[otel]'"
_RATIO_SAMPLERS: Final = ("traceidratio", "parentbased_traceidratio")
_INTERVAL_S: Final = 60.0


class OtelOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The collector, and what it gets.

    Empty values are those of the variables `OTEL_…`, and of OpenTelemetry if these are not set, either.
    """

    endpoint: str = ""  # as `http://127.0.0.1:4318`; `/v1/traces` and `/v1/metrics` are added
    headers: dict[str, str] = {}  # of each request, such as an API key
    service_name: str = ""
    traces: bool = True
    metrics: bool = True
    sampling: float | None = None  # the share of the sampled traces that is recorded; None: all
    interval_s: float | None = None  # between two reports of metrics
    timeout_s: float = 10.0  # for the collector to take a request
    queue: int = 2048  # spans that wait for the collector; more are dropped and counted

    def __post_init__(self) -> None:
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"otel: {self.endpoint!r} is no address, such as http://127.0.0.1:4318")
        if self.sampling is not None and not 0 <= self.sampling <= 1:
            raise ValueError("otel: sampling is a share from 0 to 1")
        if self.interval_s is not None and self.interval_s < 1:
            raise ValueError("otel: metrics are sent at most once a second")
        if not 0 < self.timeout_s <= 60:
            raise ValueError("otel: a timeout is up to a minute")
        if not 1 <= self.queue <= 1_000_000:
            raise ValueError("otel: a queue has 1 to 1,000,000 spans")

    @property
    def share(self) -> float:
        return 1.0 if self.sampling is None else self.sampling

    @property
    def report_every_s(self) -> float:
        return _INTERVAL_S if self.interval_s is None else self.interval_s


def is_installed() -> bool:
    """Return True if the packages of the extra are there."""
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def with_environment(options: OtelOptions, environment: Mapping[str, str]) -> OtelOptions | None:
    """Return the options with what the variables say where they say nothing; None if all is switched off.

    The variables of endpoints, headers, certificates, compression and resources are read by OpenTelemetry's
    packages.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        options = replace(options, traces=False)
    if environment.get("OTEL_METRICS_EXPORTER", "").strip().lower() == "none":
        options = replace(options, metrics=False)
    sampler = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if options.sampling is None and sampler:
        share = _number(environment, "OTEL_TRACES_SAMPLER_ARG", 1.0) if sampler in _RATIO_SAMPLERS else 1.0
        options = replace(options, sampling=0.0 if sampler.endswith("always_off") else min(max(share, 0), 1))
    if options.interval_s is None:
        milliseconds = _number(environment, "OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL_S * 1000)
        options = replace(options, interval_s=max(milliseconds / 1000, 1.0))
    return options if options.traces or options.metrics else None


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environment.get(name) or default)
    except ValueError:
        return default
