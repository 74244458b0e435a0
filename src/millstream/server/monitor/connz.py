"""`/connz`: connections, open or closed, sorted and filtered, in pages.

Finding the page is cheap for each connection.  Describing a connection is not, so only those on the page are
described (``connection_info``).  Both are done in slices (``base.slices``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.base.sorted_page import AT_ONCE, SortedPage
from millstream.broker.history import ClosedConnection
from millstream.golang.time import format_time
from millstream.server.monitor.connection_info import (
    Entry,
    Moment,
    authorized_user,
    describe,
    held_by,
    subscription_count,
)
from millstream.server.monitor.json_page import Listing
from millstream.server.monitor.queries import BadQuery
from millstream.subjects.match import collide

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.server.server import Server

DEFAULT_LIMIT: Final = 1024
_EVERYTHING: Final = ">"
_AT_ONCE: Final = 64  # connections or subscriptions examined in one slice


class ConnectionState(IntEnum):
    OPEN = 0
    CLOSED = 1
    ALL = 2


class ConnzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The connections to list and their details; field names are those of a request to the system account."""

    sort: str = ""
    username: bool = msgspec.field(name="auth", default=False)  # include the user
    subscriptions: bool = False
    subscriptions_detail: bool = False
    offset: int = 0
    limit: int = 0  # 0: the default
    cid: int = 0
    mqtt_client: str = ""
    state: ConnectionState = ConnectionState.OPEN
    user: str = ""
    account: str = msgspec.field(name="acc", default="")
    filter_subject: str = ""  # list open connections with an overlapping subscription; needs an account


class Connz(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    now: str
    num_connections: int
    total: int
    offset: int
    limit: int
    connections: Listing | list[None] | None


def _pending(entry: Entry, moment: Moment) -> int:
    return 0 if isinstance(entry, ClosedConnection) else entry.backpressure.pending()


def _round_trip(entry: Entry, moment: Moment) -> float:
    if isinstance(entry, ClosedConnection):
        return entry.round_trip_s
    round_trip_s: float = entry.keepalive.round_trip_s
    return round_trip_s


def _lifetime(entry: Entry, moment: Moment) -> int:
    end_ns = entry.stopped_ns if isinstance(entry, ClosedConnection) else moment.wall_ns
    started_ns: int = entry.session.started_ns
    return end_ns - started_ns


def _stopped(entry: Entry, moment: Moment) -> int:
    return entry.stopped_ns if isinstance(entry, ClosedConnection) else 0


Key = Callable[[Any, Moment], Any]

# The key of each order, and whether the largest comes first.
_ORDERS: Final[dict[str, tuple[Key, bool]]] = {
    "": (lambda entry, _: entry.cid, False),
    "cid": (lambda entry, _: entry.cid, False),
    "start": (lambda entry, _: entry.cid, False),
    "subs": (lambda entry, _: subscription_count(entry), True),
    "pending": (_pending, True),
    "msgs_to": (lambda entry, _: entry.out_messages, True),
    "msgs_from": (lambda entry, _: entry.in_messages, True),
    "bytes_to": (lambda entry, _: entry.out_bytes, True),
    "bytes_from": (lambda entry, _: entry.in_bytes, True),
    "last": (lambda entry, _: entry.last_activity, True),
    "idle": (lambda entry, _: entry.last_activity, False),
    "uptime": (_lifetime, False),
    "stop": (_stopped, True),
    "reason": (lambda entry, _: str(entry.session.reason or ""), False),
    "rtt": (_round_trip, True),
}
_ONLY_CLOSED: Final = ("stop", "reason")


def connz(server: Server, options: ConnzOptions | None = None) -> Pieces[Connz]:
    """Return the current document; raises BadQuery for invalid options."""
    options = options or ConnzOptions()
    _check(options)
    broker = server.broker
    moment = Moment(wall_ns=time.time_ns(), monotonic=broker.now())
    offset = max(options.offset, 0)
    limit = options.limit if options.limit > 0 else DEFAULT_LIMIT
    if options.cid:
        limit = 1
    if options.account and options.account not in broker.accounts:
        # nats-server returns here, before it has filled in anything.
        return Connz(
            server_id="",
            now=format_time(moment.wall_ns),
            num_connections=0,
            total=0,
            offset=offset,
            limit=limit,
            connections=None,
        )
    opened, closed = _candidates(broker, options)
    total = len(opened) + len(closed)
    if options.cid:
        page = _one(broker, closed, options)[offset : offset + limit]
    else:
        page = yield from _page([*opened, *closed], options, moment, offset, limit)
    return Connz(
        server_id=broker.identity.server_id,
        now=format_time(moment.wall_ns),
        num_connections=len(page),
        total=total,
        offset=offset,
        limit=limit,
        connections=Listing(_described(page, moment, options)) if page else [],
    )


def _described(page: list[Entry], moment: Moment, options: ConnzOptions) -> Iterator[Any]:
    for entry in page:
        yield describe(
            entry,
            moment,
            identity=options.username,
            subscriptions=options.subscriptions,
            details=options.subscriptions_detail,
        )


def _page(
    candidates: list[Entry], options: ConnzOptions, moment: Moment, offset: int, limit: int
) -> Pieces[list[Entry]]:
    """Return the connections that pass the filters, sorted, from `offset` on."""
    if options.mqtt_client:
        return []  # there are no MQTT clients
    key, descending = _ORDERS[options.sort]
    sign = -1 if descending else 1  # keys in descending order are numbers
    found: SortedPage[tuple[Any, int]] = SortedPage(offset, limit)
    batch: list[tuple[Any, int]] = []
    for number, entry in enumerate(candidates):
        if options.filter_subject not in ("", _EVERYTHING):
            passes = yield from _listens_on(entry, options.filter_subject.encode())
        else:
            passes = True
        if passes and options.user in ("", authorized_user(entry.session)):
            value = key(entry, moment)
            batch.append((sign * value if descending else value, number))
        if len(batch) >= AT_ONCE:
            found.add(batch)
            batch = []
        if number % _AT_ONCE == 0:
            yield _AT_ONCE
    found.add(batch)
    page: list[Entry] = []
    for chunk in found.chunks():
        page += [candidates[number] for _, number in chunk]
        yield len(chunk)
    return page


def _check(options: ConnzOptions) -> None:
    if options.sort not in _ORDERS:
        raise BadQuery(f"invalid sorting option: {options.sort}")
    if options.sort in _ONLY_CLOSED and options.state is not ConnectionState.CLOSED:
        raise BadQuery(f"sort by {options.sort} only valid on closed connections")
    if options.filter_subject not in ("", _EVERYTHING) and not options.account:
        raise BadQuery("filter by subject only valid with account filtering")


def _candidates(broker: Broker, options: ConnzOptions) -> tuple[list[Connection], list[ClosedConnection]]:
    """Return the connections in the requested states and account, which `total` counts."""
    opened: list[Connection] = []
    closed: list[ClosedConnection] = []
    if options.state is not ConnectionState.CLOSED:
        owner = broker.accounts[options.account] if options.account else broker
        opened = list(owner.connections.values())
    if options.state is not ConnectionState.OPEN:
        closed = [each for each in broker.closed if not options.account or each.account == options.account]
    return opened, closed


def _one(broker: Broker, closed: list[ClosedConnection], options: ConnzOptions) -> list[Entry]:
    """Return the connection with the requested id in the requested account; an account sees only its own."""
    if options.state is not ConnectionState.CLOSED:
        connection = broker.connections.get(options.cid)
        if connection is not None and options.account in ("", connection.account.name):
            return [connection]
    return next(([each] for each in closed if each.cid == options.cid), [])


def _listens_on(entry: Entry, subject: bytes) -> Pieces[bool]:
    """Return whether an open connection has a subscription that overlaps `subject`."""
    if isinstance(entry, ClosedConnection):
        return True
    for count, each in enumerate(held_by(entry), start=1):
        if collide(each.subject, subject):
            return True
        if count % _AT_ONCE == 0:
            yield _AT_ONCE
    return False
