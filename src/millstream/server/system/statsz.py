"""The server's statistics for the system account, on request and with every heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.time import format_time
from millstream.server.monitor.accountz import Amount
from millstream.server.monitor.formats import number
from millstream.server.monitor.jsz import jetstream_of
from millstream.server.monitor.process import cores, processor_load, resident_bytes
from millstream.server.monitor.totals import server_traffic, subscription_count
from millstream.server.monitor.varz import ByKind
from millstream.server.system.messages import ServerDocument

if TYPE_CHECKING:
    from millstream.server.server import Server


class Statistics(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The statistics; fields and their order are nats-server's."""

    start: str
    mem: int
    cores: int
    cpu: float | int  # percent of one processor
    connections: int
    total_connections: int
    active_accounts: int
    subscriptions: int
    sent: Amount
    sent_to_clients: Amount
    received: Amount
    received_from_clients: Amount
    slow_consumers: int
    slow_consumer_stats: ByKind | None = None
    stale_connections: int = 0
    stale_connection_stats: ByKind | None = None
    stalled_clients: int = 0
    active_servers: int
    jetstream: Any = None
    gomaxprocs: int


class StatszMessage(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerDocument
    statsz: Statistics


def statsz(server: Server) -> Pieces[Callable[[ServerDocument], StatszMessage]]:
    """Build a heartbeat; only the server's identity is added later."""
    found = yield from statistics(server)
    return lambda info: StatszMessage(server=info, statsz=found)


def statistics(server: Server) -> Pieces[Statistics]:
    """Return the current statistics; passes over all connections."""
    broker = server.broker
    traffic = yield from server_traffic(broker)
    view = jetstream_of(server)
    sent = Amount(msgs=traffic.out_messages, bytes=traffic.out_bytes)
    received = Amount(msgs=traffic.in_messages, bytes=traffic.in_bytes)
    return Statistics(
        start=format_time(server.started_ns),
        mem=resident_bytes(),
        cores=cores(),
        cpu=number(processor_load.percent()),
        connections=len(broker.connections),
        total_connections=broker.totals.connections,
        active_accounts=sum(1 for account in broker.accounts.values() if account.connections),
        subscriptions=subscription_count(broker),
        sent=sent,
        sent_to_clients=sent,
        received=received,
        received_from_clients=received,
        slow_consumers=broker.totals.slow_consumers,
        slow_consumer_stats=ByKind(clients=broker.totals.slow_consumers)
        if broker.totals.slow_consumers
        else None,
        stale_connections=broker.totals.stale_connections,
        stale_connection_stats=ByKind(clients=broker.totals.stale_connections)
        if broker.totals.stale_connections
        else None,
        stalled_clients=broker.totals.stalled_clients,
        active_servers=1,
        jetstream=view.varz() if view is not None else None,
        gomaxprocs=1,  # one thread handles messages
    )
