"""What an HTTP/2 peer may send that brings nothing: requests that it resets, pings, settings, empty frames.

Each costs the peer something, and credit comes back with time, and with the data that it is sent: readers
answer that with window updates.  A peer without credit is told to calm down (CVE-2023-44487, CVE-2019-9512
to 9518).  The costs are rough: an honest client never comes near the end of its credit.
"""

from __future__ import annotations

from typing import Final

from h2 import events

RESET: Final = 5.0
EMPTY: Final = 1.0  # a DATA frame without data
FOR_DATA: Final = 3.0  # given back for each frame of data that was sent
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
        """Take `cost`; False if there is not enough left."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s) - cost
        self._at = now
        return self._left >= 0

    def earn(self, amount: float) -> None:
        """Give some back."""
        self._left = min(self._most, self._left + amount)
