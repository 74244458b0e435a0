"""Collect durations by name, and print their medians, 99th percentiles and maxima."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

LAG_EVERY_S = 0.02


class Latencies:
    """Durations of one part of a run."""

    def __init__(self) -> None:
        self._took_s: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time a block, unless it raises."""
        began = time.monotonic()
        yield
        self._took_s[name].append(time.monotonic() - began)

    async def time_the_loop(self) -> None:
        """Record how late this process' loop is, for whatever it does: it delays all of its clients."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(LAG_EVERY_S)
            self._took_s["own loop"].append(time.monotonic() - began - LAG_EVERY_S)

    def take(self) -> str:
        """Return what was recorded, in ms, and forget it."""
        parts = []
        for name, took in sorted(self._took_s.items()):
            took.sort()
            p50, p99 = (took[int(len(took) * share)] * 1000 for share in (0.5, 0.99))
            parts.append(f"{name} {p50:.1f}/{p99:.1f}/{took[-1] * 1000:.1f} ({len(took)})")
        self._took_s.clear()
        return ", ".join(parts)
