"""The traffic of the last hour: a rate every five seconds, for charts that begin before they are opened.

Sampling begins when somebody with these credentials looks at the overview, and ends with the link: the
gateway's own link lives as long as the gateway, a caller's until it was idle for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import msgspec

from millstream.gateway.link import CallerLink
from millstream.gateway.v2 import system
from millstream.gateway.v2.attention import now_text
from millstream.gateway.v2.vitals import Rates, Sample, Vitals, rates_between

EVERY_S: Final = 5.0
_KEPT: Final = 720  # an hour
_NAME: Final = "traffic"


class TrafficAnswer(msgspec.Struct, frozen=True):
    """The points of the last hour in columns, oldest first; times without a point were not sampled."""

    every: float
    time: list[str]
    in_msgs: list[float]
    in_bytes: list[float]
    out_msgs: list[float]
    out_bytes: list[float]


class TrafficHistory:
    """The points of one link."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link
        self._points: deque[tuple[str, Rates]] = deque(maxlen=_KEPT)
        self._last: Sample | None = None
        self._sampler: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, link: CallerLink) -> TrafficHistory:
        """Return the history of a link, which is sampled from now on."""
        found = link.companions.get(_NAME)
        if not isinstance(found, TrafficHistory):
            found = link.companions[_NAME] = cls(link)
        if found._sampler is None or found._sampler.done():
            found._sampler = asyncio.get_running_loop().create_task(found._sample())
        return found

    def close(self) -> None:
        """Called when the link is closed."""
        if self._sampler is not None:
            self._sampler.cancel()

    @property
    def answer(self) -> TrafficAnswer:
        """Return the points."""
        rates = [rates for _, rates in self._points]
        return TrafficAnswer(
            EVERY_S,
            [time for time, _ in self._points],
            [each.in_msgs for each in rates],
            [each.in_bytes for each in rates],
            [each.out_msgs for each in rates],
            [each.out_bytes for each in rates],
        )

    async def _sample(self) -> None:
        """Add a point every few seconds; ends if these credentials may not ask for counters."""
        while True:
            if self._link.is_up:
                try:
                    self.add(await Vitals.of(self._link).sample())
                except (TimeoutError, system.NotPermitted):
                    if self._link.is_up:
                        return
            await asyncio.sleep(EVERY_S)

    def add(self, sample: Sample) -> None:
        """Add the rates since the sample before, unless counters were reset or too much time has passed."""
        before, self._last = self._last, sample
        rates = rates_between(before, sample) if before is not None else None
        if rates is not None:
            self._points.append((now_text(), rates))
