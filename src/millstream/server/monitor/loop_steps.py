"""The watchdog's record of the event loop's steps, for `/varz` and Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.broker.watchdog import BOUNDS_S
from millstream.golang.time import format_time
from millstream.server.monitor.formats import nanoseconds

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from millstream.broker.watchdog import Watchdog

_SHOWN: Final = 10  # names of steps, the longest first


class SlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one name that took more than 5 ms."""

    step: str
    longest: int  # ns
    at: str  # when the longest ended
    count: int


class EventLoop(msgspec.Struct, frozen=True, kw_only=True):
    """The number of steps since the start, and of those above a bound."""

    steps: int
    busy: int  # ns, all steps together
    above_5ms: int
    above_20ms: int
    above_50ms: int
    slowest: list[SlowStep]


def event_loop(watchdog: Watchdog) -> EventLoop:
    above = watchdog.counts
    slowest = sorted(watchdog.long_steps.items(), key=lambda named: named[1].longest_s, reverse=True)
    return EventLoop(
        steps=watchdog.steps,
        busy=nanoseconds(watchdog.busy_s),
        above_5ms=above[0],
        above_20ms=above[1],
        above_50ms=above[2],
        slowest=[
            SlowStep(
                step=name,
                longest=nanoseconds(step.longest_s),
                at=format_time(step.ended_ns),
                count=step.count,
            )
            for name, step in slowest[:_SHOWN]
        ],
    )


def metrics(watchdog: Watchdog) -> Iterator[Metric]:
    # Imported here, so that a server which nobody scrapes starts without this library.
    from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily

    steps = watchdog.steps
    buckets = [(f"{bound:g}", steps - above) for bound, above in zip(BOUNDS_S, watchdog.counts, strict=True)]
    yield HistogramMetricFamily(
        "millstream_loop_step_seconds",
        "How long a step of the event loop took: everybody waits while it runs.",
        buckets=[*buckets, ("+Inf", steps)],
        sum_value=watchdog.busy_s,
    )
    longest = GaugeMetricFamily(
        "millstream_loop_longest_step_seconds",
        "The longest step of each name among those above 5 ms.",
        labels=["step"],
    )
    for name, step in sorted(watchdog.long_steps.items()):
        longest.add_metric([name], step.longest_s)
    yield longest
