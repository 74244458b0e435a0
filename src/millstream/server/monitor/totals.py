"""Sums over connections, computed on request, so that messages need no extra counters.

There may be very many connections, so the sums are computed in slices (``base.slices``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection


_AT_ONCE: Final = 256  # connections of a slice


class Traffic(NamedTuple):
    """Messages and bytes including headers; `in` is from clients, `out` to clients."""

    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int


class _Counted(Protocol):
    """A broker or an account, which keeps the sums of its closed connections."""

    past_in_messages: int
    past_in_bytes: int
    past_out_messages: int
    past_out_bytes: int


def server_traffic(broker: Broker) -> Pieces[Traffic]:
    return _traffic(broker, broker.connections.values())


def account_traffic(account: Account) -> Pieces[Traffic]:
    return _traffic(account, account.connections.values())


def _traffic(past: _Counted, connections: Iterable[Connection]) -> Pieces[Traffic]:
    in_messages, in_bytes = past.past_in_messages, past.past_in_bytes
    out_messages, out_bytes = past.past_out_messages, past.past_out_bytes
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
