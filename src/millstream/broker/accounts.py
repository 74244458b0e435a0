"""Accounts: isolated subject spaces, with their limits and the connections bound to them."""

from typing import TYPE_CHECKING

from millstream.broker import options
from millstream.broker.router import SubjectSpace
from millstream.broker.totals import ConnectionTotals, Traffic

if TYPE_CHECKING:
    from millstream.broker.connection import Connection
    from millstream.broker.imports import StreamImport
    from millstream.broker.leaf.connection import LeafConnection


class Account:
    """One running account.  A reload can replace its configuration."""

    def __init__(self, configured: options.AccountOptions, *, is_system: bool, seed: int) -> None:
        self.name = configured.name
        self.configured = configured
        self.is_system = is_system
        self.space = SubjectSpace(configured.name, seed)
        self.connections: dict[int, Connection] = {}
        self.links: dict[int, LeafConnection] = {}  # to other servers
        self.mapped_subjects: tuple[bytes, ...] = ()  # that are delivered on others
        self.stream_imports: list[StreamImport] = []
        self.totals = ConnectionTotals()

    @property
    def tag(self) -> str:
        """Return the name that monitoring shows beside the account's own."""
        return self.configured.tag or self.name

    def is_full(self) -> bool:
        limit = self.configured.limits.max_connections
        return limit >= 0 and len(self.connections) >= limit

    def has_all_links(self) -> bool:
        """Return True if the limits allow no further leaf link."""
        limit = self.configured.limits.max_leafnodes
        return limit >= 0 and len(self.links) >= limit

    def add(self, connection: "Connection") -> None:
        self.connections[connection.cid] = connection
        self.totals.connections += 1
        connection.session.counted = Traffic.of(connection)

    def discard(self, connection: "Connection") -> None:
        if self.connections.pop(connection.cid, None) is not None:
            # What it sent before it came here was counted where it was.
            self.totals.add_past(connection, connection.session.counted)
