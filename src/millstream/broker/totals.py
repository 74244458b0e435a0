"""Totals of a server or an account that no living connection can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from millstream.broker.connection import Connection


class Traffic(NamedTuple):
    """Messages and their bytes, headers counted; in: from clients, out: to clients."""

    in_messages: int = 0
    in_bytes: int = 0
    out_messages: int = 0
    out_bytes: int = 0

    @classmethod
    def of(cls, connection: Connection) -> Traffic:
        """Return the traffic of a connection so far."""
        return cls(connection.in_messages, connection.in_bytes, connection.out_messages, connection.out_bytes)


_NOTHING: Final = Traffic()


class ConnectionTotals:
    """Counts of connections, and the traffic of those that have gone."""

    def __init__(self) -> None:
        self.connections = 0  # that ever connected
        self.slow_consumers = 0
        self.stale_connections = 0
        self.stalled_clients = 0
        self.past = _NOTHING

    def add_past(self, connection: Connection, before: Traffic = _NOTHING) -> None:
        """Add the traffic of a connection that leaves, without that from `before` it came here."""
        now = Traffic.of(connection)
        self.past = Traffic(*(a + b - c for a, b, c in zip(self.past, now, before, strict=True)))
