"""Pings: check that the peer is alive, and measure the round trip.

The time from the greeting to CONNECT is the first estimate of the round trip.  To measure it, the first ping
is sent two seconds after CONNECT whatever the interval; then one per interval, left out while data or pings
arrive.  When `ping_max` pings are unanswered, the connection is closed instead of sending the next.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

from millstream.broker.close_reason import CloseReason
from millstream.protocol import errors

if TYPE_CHECKING:
    import asyncio

    from millstream.broker.connection import Connection

_FIRST_PING_S: Final = 2.0
_JITTER: Final = 0.2  # of the first delay, so that clients which came together do not stay together
_NEVER: Final = -math.inf
_SHORTEST_S: Final = 1e-9  # of a round trip, as 0 means that it is not known
_MEASURE_EVERY_S: Final = 3600.0  # the round trip is measured anew even on a busy connection


class Keepalive:
    """The ping timer of one connection."""

    def __init__(self, connection: Connection, interval_s: float, max_unanswered: int) -> None:
        self.round_trip_s = 0.0
        self._connection = connection
        self._interval_s = interval_s
        self._max_unanswered = max_unanswered
        self._unanswered = 0
        self._sent_at = _NEVER
        self._heard_at = 0.0
        self._seen = 0  # messages and operations that came in until the last look
        self._timer: asyncio.TimerHandle | None = None

    def configure(self, interval_s: float, max_unanswered: int) -> None:
        """Apply new settings from the next ping on."""
        self._interval_s = interval_s
        self._max_unanswered = max_unanswered

    def start(self) -> None:
        self.stop()
        delay = min(self._interval_s, _FIRST_PING_S)
        self._schedule(delay * (1 + random.random() * _JITTER))

    def connected(self, elapsed_s: float) -> None:
        """Record that CONNECT came `elapsed_s` after the greeting, and start the timer."""
        self.round_trip_s = max(elapsed_s, _SHORTEST_S)
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Stop for good and drop the connection, so that reference counting can free both."""
        self.stop()
        self.__dict__.pop("_connection", None)

    def heard(self, now: float) -> None:
        """Record a ping of the peer; messages, SUB and UNSUB are noticed by their count."""
        self._heard_at = now

    def pong(self, now: float) -> None:
        self._unanswered = 0
        if self._sent_at != _NEVER:
            self.round_trip_s = max(now - self._sent_at, _SHORTEST_S)

    def _schedule(self, delay_s: float) -> None:
        self._timer = self._connection.broker.turns.later(delay_s, self._expired)

    def _expired(self) -> None:
        connection = self._connection
        broker = connection.broker
        now = broker.now()
        seen = connection.in_messages + connection.in_operations
        if seen != self._seen:
            self._seen = seen
            self._heard_at = max(self._heard_at, connection.last_activity)
        measured = self.round_trip_s > 0 and now - self._sent_at <= _MEASURE_EVERY_S
        if not measured or now - self._heard_at >= self._interval_s:
            if self._unanswered + 1 > self._max_unanswered:
                broker.totals.stale_connections += 1
                broker.close(connection, CloseReason.STALE_CONNECTION, errors.STALE_CONNECTION)
                return
            self._unanswered += 1
            self._sent_at = now
            connection.send(b"PING\r\n")
        self._schedule(self._interval_s)
