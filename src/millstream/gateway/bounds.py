"""Bounds of the gateway: the requests a second of one caller, and the total bytes of all bodies.

A bound that is reached is logged at most once a minute (``Alarm``).  The bound on checks of credentials is in
``admission``.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from millstream.base.complaints import Complaints
from millstream.gateway.errors import Overloaded, TooManyRequests

_LOG: Final = logging.getLogger("millstream.gateway")
_CALLERS_KEPT: Final = 20_000  # a forgotten caller starts with a full bucket


class Alarm:
    """The alarm of one bound; `text` names the bound and its setting."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._complaints = Complaints(_LOG)

    def ring(self) -> None:
        """Log that the bound was reached."""
        self._complaints.warn("%s", self._text)


class RateLimit:
    """A token bucket for each caller.

    `check` takes a token, or raises TooManyRequests with the time until the next one.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self.enabled = rate > 0
        self._rate = rate
        self._burst = float(burst or max(1.0, rate))
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, time of the count

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


class BodyBudget:
    """A bound on the bytes of bodies that all requests together hold in memory; a `limit` of 0 is no bound.

    Only bytes that have arrived count: a body that is announced and not sent takes nothing from others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._alarm = Alarm(f"bodies of requests have {limit} bytes together; see gateway.limits.bodies")
        self.used = 0

    def change(self, difference: int) -> None:
        """Take bytes, or give them back; raises Overloaded if too few are left."""
        if difference > 0 and self._limit and self.used + difference > self._limit:
            self._alarm.ring()
            raise Overloaded("too many bodies are being sent at the moment")
        self.used += difference
