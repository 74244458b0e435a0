"""How many bytes of bodies all requests together may hold in memory.

Only what has arrived counts: a body that is announced and does not come takes nothing from others.
"""

from __future__ import annotations

from millstream.gateway.alarms import Alarm
from millstream.gateway.errors import Overloaded


class BodyBudget:
    """`limit` zero: no bound."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._alarm = Alarm(f"bodies of requests have {limit} bytes together; see gateway.limits.bodies")
        self.used = 0

    def change(self, difference: int) -> None:
        """Take bytes, or give them back; Overloaded if there are not so many left."""
        if difference > 0 and self._limit and self.used + difference > self._limit:
            self._alarm.ring()
            raise Overloaded("too many bodies are being sent at the moment")
        self.used += difference
