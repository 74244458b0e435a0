"""How many requests a second one caller may make: a bucket of tokens for each."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from millstream.gateway.errors import TooManyRequests

_CALLERS_KEPT: Final = 20_000  # a caller that was forgotten starts with a full bucket


class RateLimit:
    """`check` takes a token, or raises TooManyRequests saying when there will be one."""

    def __init__(self, rate: float, burst: int) -> None:
        self.enabled = rate > 0
        self._rate = rate
        self._burst = float(burst or max(1.0, rate))
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, when counted

    def check(self, key: str, now: float) -> None:
        tokens, counted = self._buckets.get(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if allowed else tokens, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > _CALLERS_KEPT:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooManyRequests((1.0 - tokens) / self._rate)
