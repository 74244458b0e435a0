"""Clients that log in, some in each round of the loop, however many connect at once.

To process CONNECT takes some 100 µs.  The first input of clients is processed as it comes for a while of each
round; that of the others waits and is processed in slices.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from millstream.base import guard

if TYPE_CHECKING:
    from millstream.base.slices import InSlices, Pieces
    from millstream.broker.broker import Broker
    from millstream.broker.websocket import WebSocketProtocol

_ROUND_S: Final = 0.001


class Newcomers:
    """The clients of a broker that have not logged in."""

    def __init__(self) -> None:
        self.in_slices: InSlices | None = None
        self._waiting: deque[Any] = deque()  # connections with input left
        self._round = -1  # of the loop
        self._took_s = 0.0  # in this round

    def may_log_in(self, loop_round: int) -> bool:
        """Return True if another client may log in in this round of the loop."""
        if loop_round != self._round:
            self._round = loop_round
            self._took_s = 0.0
        return self._took_s < _ROUND_S or self.in_slices is None

    def took(self, seconds: float) -> None:
        """Count the time that a client took in this round."""
        self._took_s += seconds

    def put_off(self, connection: Any) -> None:
        """Have a connection take its turn in a slice."""
        assert self.in_slices is not None  # see ``may_log_in``
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self.in_slices("clients that log in", self._log_in())

    def _log_in(self) -> Pieces[None]:
        while self._waiting:
            guard.alone("a login", self._waiting[0].take_turn)  # or nobody behind it would ever log in
            self._waiting.popleft()
            yield 1


class UpgradePace:
    """Shares the time of clients that log in with WebSocket clients whose requests are read.

    To answer a request takes some 100 µs, too.
    """

    def __init__(self, broker: Broker) -> None:
        self._tick = broker.tick
        self._soon = broker.turns.soon

    def may_begin(self) -> bool:
        """Return True if another request may be read in this round of the loop."""
        tick = self._tick
        if not tick.counts:
            tick.counts = True
            self._soon(tick.count_round)
        found: bool = tick.newcomers.may_log_in(tick.round)
        return found

    def took(self, seconds: float) -> None:
        """Count the time that a request took."""
        self._tick.newcomers.took(seconds)

    def put_off(self, websocket: WebSocketProtocol) -> None:
        """Have a client take its turn in a slice."""
        self._tick.newcomers.put_off(websocket)
