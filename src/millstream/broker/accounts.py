"""Accounts: isolated subject spaces, with their limits and the connections bound to them."""

from typing import TYPE_CHECKING

from millstream.broker import options
from millstream.broker.router import SubjectSpace

if TYPE_CHECKING:
    from millstream.broker.connection import Connection
    from millstream.broker.imports import StreamImport


class Account:
    """One running account.  A reload can replace its configuration."""

    def __init__(self, configured: options.Account, *, is_system: bool, seed: int) -> None:
        self.name = configured.name
        self.configured = configured
        self.is_system = is_system
        self.space = SubjectSpace(configured.name, seed)
        self.connections: dict[int, Connection] = {}
        self.stream_imports: list[StreamImport] = []
        self.total_connections = 0
        self.slow_consumers = 0
        # Totals of connections that have gone; the living ones are counted when somebody asks.
        self.past_in_messages = 0
        self.past_in_bytes = 0
        self.past_out_messages = 0
        self.past_out_bytes = 0

    def is_full(self) -> bool:
        limit = self.configured.limits.max_connections
        return limit >= 0 and len(self.connections) >= limit

    def add(self, connection: "Connection") -> None:
        self.connections[connection.cid] = connection
        self.total_connections += 1
        connection.session.counted = _counts(connection)

    def discard(self, connection: "Connection") -> None:
        if self.connections.pop(connection.cid, None) is not None:
            # What it sent before it came here was counted where it was.
            in_messages, in_bytes, out_messages, out_bytes = connection.session.counted
            self.past_in_messages += connection.in_messages - in_messages
            self.past_in_bytes += connection.in_bytes - in_bytes
            self.past_out_messages += connection.out_messages - out_messages
            self.past_out_bytes += connection.out_bytes - out_bytes


def _counts(connection: "Connection") -> tuple[int, int, int, int]:
    return (connection.in_messages, connection.in_bytes, connection.out_messages, connection.out_bytes)
