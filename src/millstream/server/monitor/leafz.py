"""`/leafz`: the links to other servers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.time import format_time
from millstream.server.monitor.formats import round_trip

if TYPE_CHECKING:
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.server.server import Server

_AT_ONCE = 256  # subscriptions of a slice


class LeafzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Field names are those of a request to the system account."""

    subscriptions: bool = False
    account: str = ""


class LeafDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: int
    name: str
    is_spoke: bool
    is_isolated: bool = False
    account: str
    ip: str
    port: int
    rtt: str = ""
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int
    subscriptions_list: list[str] = []
    compression: str = ""


class Leafz(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    now: str
    leafnodes: int
    leafs: list[LeafDetail]


def leafz(server: Server, options: LeafzOptions) -> Pieces[Leafz]:
    """Return the links that are logged in."""
    broker = server.broker
    found: list[LeafDetail] = []
    for link in list(broker.leafs.links.values()) if broker.leafs is not None else ():
        if options.account in ("", link.account.name):
            names: list[str] = []
            if options.subscriptions:
                names = yield from _names(link)
            found.append(_detail(link, names))
        yield 1
    return Leafz(
        server_id=broker.identity.server_id,
        now=format_time(time.time_ns()),
        leafnodes=len(found),
        leafs=found,
    )


def _names(link: LeafConnection) -> Pieces[list[str]]:
    names: list[str] = []
    for part in range(link.subscriptions.parts()):
        for count, subscription in enumerate(link.subscriptions.list_values(part)):
            names.append(subscription.subject.decode(errors="replace"))
            if count % _AT_ONCE == 0:
                yield _AT_ONCE
    return names


def _detail(link: LeafConnection, names: list[str]) -> LeafDetail:
    peer, session = link.peer, link.session
    return LeafDetail(
        id=link.cid,
        name=peer.name,
        is_spoke=peer.spoke,
        is_isolated=peer.isolated,
        account=link.account.name,
        ip=session.ip,
        port=session.port,
        rtt=round_trip(link.keepalive.round_trip_s),
        in_msgs=link.in_messages,
        out_msgs=link.out_messages,
        in_bytes=link.in_bytes,
        out_bytes=link.out_bytes,
        subscriptions=len(link.subscriptions),
        subscriptions_list=names,
        compression=peer.compression,
    )
