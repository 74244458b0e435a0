"""Sums over connections, computed on request, so that messages need no extra counters.

There may be very many connections, so the sums are computed in slices (``base.slices``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.broker.totals import ConnectionTotals, Traffic

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection


_AT_ONCE: Final = 256  # connections of a slice


def server_traffic(broker: Broker) -> Pieces[Traffic]:
    return _traffic(broker.totals, broker.connections.values())


def link_traffic(broker: Broker) -> Pieces[Traffic]:
    """Return the traffic of the links that are there."""
    links = list(broker.leafs.links.values()) if broker.leafs is not None else []
    return _traffic(ConnectionTotals(), links)


def account_traffic(account: Account) -> Pieces[Traffic]:
    return _traffic(account.totals, account.connections.values())


def _traffic(totals: ConnectionTotals, connections: Iterable[Connection]) -> Pieces[Traffic]:
    in_messages, in_bytes, out_messages, out_bytes = totals.past
    for count, connection in enumerate(list(connections), start=1):
        in_messages += connection.in_messages
        in_bytes += connection.in_bytes
        out_messages += connection.out_messages
        out_bytes += connection.out_bytes
        if count % _AT_ONCE == 0:
            yield _AT_ONCE
    return Traffic(in_messages, in_bytes, out_messages, out_bytes)


def subscription_count(broker: Broker) -> int:
    """Return the number of subscriptions of all accounts, including the server's own."""
    return sum(account.space.tree.count for account in broker.accounts.values())


def pending_bytes(broker: Broker) -> Pieces[int]:
    """Return the number of bytes that clients have not read yet."""
    pending = 0
    for count, connection in enumerate(list(broker.connections.values()), start=1):
        pending += connection.backpressure.pending()
        if count % _AT_ONCE == 0:
            yield _AT_ONCE
    return pending
