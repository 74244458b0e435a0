"""Sums over connections, computed when somebody asks, so that a message costs no extra counting.

There may be very many connections, so that is done in pieces (see ``base.slices``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection


_AT_ONCE: Final = 256  # connections of a piece


class Traffic(NamedTuple):
    """Messages and their bytes, headers counted; in: from clients, out: to clients."""

    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int


class _Counted(Protocol):
    """A broker or an account: what its connections did that have gone."""

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
    """Of all accounts, those of the server itself included."""
    return sum(account.space.tree.count for account in broker.accounts.values())


def pending_bytes(broker: Broker) -> Pieces[int]:
    """Bytes that clients have not taken yet."""
    pending = 0
    for count, connection in enumerate(list(broker.connections.values()), start=1):
        pending += connection.backpressure.pending()
        if count % _AT_ONCE == 0:
            yield _AT_ONCE
    return pending
