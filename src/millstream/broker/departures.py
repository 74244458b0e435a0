"""End the subscriptions of clients that leave, without delaying others.

A client with few subscriptions loses them at once.  With many, the routes through its subject spaces are
dropped at once, and new ones leave it out (``Subscriber.gone``): from then on it gets nothing, and requests
to it are answered with "no responders".  Its subscriptions are then removed from the tree in slices; watchers
of a subject are notified when its turn comes.

Thousands of clients that hang up at the same moment are queued, and each is ended in a slice too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.close_reason import CloseReason
    from millstream.broker.connection import Connection
    from millstream.broker.history import SubscriptionRecord

AT_ONCE: Final = 128  # subscriptions that are ended without a slice
_PIECE: Final = 32  # of those that are ended in slices
_ENDS_AT_ONCE: Final = 16  # connections of one turn that end without a slice


class Departures:
    """The clients of a broker that are leaving."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._line: deque[tuple[Connection, CloseReason | None]] = deque()  # None: the peer has hung up
        self._served = False  # somebody works on the line
        self._ended = 0  # connections in this turn
        self._counting = False

    # -- subscriptions ----------------------------------------------------------------------------

    def leave(self, connection: Connection, records: list[SubscriptionRecord] | None) -> None:
        """End all subscriptions of a closed connection; `records`, if any, gets one of each, newest first."""
        if len(connection.subscriptions) <= AT_ONCE:
            self._broker.subscriptions.remove_newest(connection, AT_ONCE, records)
            return
        self._hide(connection)
        self._broker.turns.in_slices("ending subscriptions", self._end_subscriptions(connection, records))

    def move(self, connection: Connection, then: Callable[[], None]) -> bool:
        """End all subscriptions of a connection that stays; return False if `then` is called later."""
        if len(connection.subscriptions) <= AT_ONCE:
            self._broker.subscriptions.remove_newest(connection, AT_ONCE, None)
            return True
        self._broker.turns.in_slices("ending subscriptions", self._end_subscriptions(connection, None, then))
        return False

    def _hide(self, connection: Connection) -> None:
        """Drop every route that may lead to a closed connection."""
        connection.space.drop_all_routes()
        for stream in connection.account.stream_imports:
            stream.exporter.space.drop_all_routes()

    def _end_subscriptions(
        self,
        connection: Connection,
        records: list[SubscriptionRecord] | None,
        then: Callable[[], None] | None = None,
    ) -> Pieces[None]:
        while self._broker.subscriptions.remove_newest(connection, _PIECE, records):
            yield _PIECE
        if then is not None:
            then()

    def drop_records(self, records: list[SubscriptionRecord]) -> None:
        """Free the records of a connection that nobody asks about any more."""
        if len(records) > AT_ONCE:
            self._broker.turns.in_slices("forgetting subscriptions", _shorten(records))

    # -- connections ------------------------------------------------------------------------------

    def lose(self, connection: Connection, reason: CloseReason) -> None:
        """End a connection that lost its transport: now, or in a slice if many do so in this turn."""
        if self._line or self._ended >= _ENDS_AT_ONCE:
            self._line_up(connection, reason)
            return
        self._ended += 1
        if not self._counting:
            self._counting = True
            self._broker.turns.soon(self._count_anew)
        self._broker.forget(connection, reason)

    def hang_up(self, connection: Connection) -> None:
        """End a connection whose peer has hung up, in a slice; its transport is still open."""
        self._line_up(connection, None)

    def _line_up(self, connection: Connection, reason: CloseReason | None) -> None:
        self._line.append((connection, reason))
        if not self._served:
            self._served = True
            self._broker.turns.in_slices("ending connections", self._serve_line())

    def finish(self) -> None:
        """End all queued connections at once."""
        while self._line:
            self._serve_next()

    def _count_anew(self) -> None:
        self._counting = False
        self._ended = 0

    def _serve_line(self) -> Pieces[None]:
        while self._line:
            self._serve_next()
            yield 1
        self._served = False

    def _serve_next(self) -> None:
        connection, reason = self._line.popleft()
        if reason is None:
            guard.alone("ending a connection", self._broker.part, connection)
        else:
            guard.alone("ending a connection", self._broker.forget, connection, reason)


def _shorten(records: list[SubscriptionRecord]) -> Pieces[None]:
    while records:
        del records[-_PIECE:]
        yield _PIECE
