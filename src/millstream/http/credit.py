"""A budget for HTTP/2 frames that do no useful work: requests that are reset, pings, settings, empty frames.

Each such frame costs credit.  Credit returns with time, and with data sent to the peer, because readers
answer data with window updates.  A peer without credit gets ENHANCE_YOUR_CALM (CVE-2023-44487, CVE-2019-9512
to 9518).  The costs are rough: an honest client never comes near its limit.
"""

from __future__ import annotations

from typing import Final

from h2 import events

RESET: Final = 5.0
EMPTY: Final = 1.0  # a DATA frame without data
FOR_DATA: Final = 3.0  # returned for each DATA frame that we send
COSTS: Final[dict[type[events.Event], float]] = {
    events.StreamReset: RESET,
    events.PingReceived: 1.0,
    events.PingAckReceived: 1.0,
    events.RemoteSettingsChanged: 1.0,
    events.PriorityUpdated: 1.0,
    events.WindowUpdated: 1.0,
    events.UnknownFrameReceived: 1.0,
}


class Credit:
    """The credit of one connection."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, most: float, per_s: float, now: float) -> None:
        self._most = most
        self._per_s = per_s
        self._left = most
        self._at = now

    def spend(self, cost: float, now: float) -> bool:
        """Take `cost`; return False if less than that is left."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s) - cost
        self._at = now
        return self._left >= 0

    def earn(self, amount: float) -> None:
        """Return some credit to the peer."""
        self._left = min(self._most, self._left + amount)
