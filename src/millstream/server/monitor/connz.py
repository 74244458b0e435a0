"""`/connz`: the connections, open or closed, sorted, filtered and page by page.

Finding the page is cheap for each connection; describing a connection is not, so only those on the
page are described (``connection_info``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.broker.history import ClosedConnection
from millstream.server.monitor.connection_info import ConnectionInfo, Entry, Moment, authorized_user, describe
from millstream.server.monitor.formats import timestamp
from millstream.server.monitor.queries import BadRequest
from millstream.subjects.match import collide

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.server.server import Server

DEFAULT_LIMIT: Final = 1024
_EVERYTHING: Final = ">"


class ConnectionState(IntEnum):
    OPEN = 0
    CLOSED = 1
    ALL = 2


class ConnzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which connections to list and what of them; names as in a request to the system account."""

    sort: str = ""
    username: bool = msgspec.field(name="auth", default=False)  # tell who they are
    subscriptions: bool = False
    subscriptions_detail: bool = False
    offset: int = 0
    limit: int = 0  # 0: the default
    cid: int = 0
    mqtt_client: str = ""
    state: ConnectionState = ConnectionState.OPEN
    user: str = ""
    account: str = msgspec.field(name="acc", default="")
    filter_subject: str = ""  # open connections with a subscription that overlaps; needs an account


class Connz(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    now: str
    num_connections: int
    total: int
    offset: int
    limit: int
    connections: list[ConnectionInfo] | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The document without its list, and what belongs into it."""

    document: Connz
    entries: list[Entry]
    moment: Moment
    options: ConnzOptions

    def describe(self, entry: Entry) -> ConnectionInfo:
        return describe(
            entry,
            self.moment,
            identity=self.options.username,
            subscriptions=self.options.subscriptions,
            details=self.options.subscriptions_detail,
        )


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
    "subs": (lambda entry, _: len(entry.subscriptions), True),
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


def select(server: Server, options: ConnzOptions) -> Selection:
    """Find the page asked for, without describing what is on it yet."""
    _check(options)
    broker = server.broker
    moment = Moment(wall_ns=time.time_ns(), monotonic=broker.now())
    offset = max(options.offset, 0)
    limit = options.limit if options.limit > 0 else DEFAULT_LIMIT
    if options.cid:
        limit = 1
    if options.account and options.account not in broker.accounts:
        # The reference gives up here, before it has filled in anything.
        nothing = Connz(
            server_id="",
            now=timestamp(moment.wall_ns),
            num_connections=0,
            total=0,
            offset=offset,
            limit=limit,
            connections=None,
        )
        return Selection(nothing, [], moment, options)
    opened, closed = _candidates(broker, options)
    total = len(opened) + len(closed)
    found = _one(broker, closed, options) if options.cid else _filtered(opened, closed, options)
    key, descending = _ORDERS[options.sort]
    found.sort(key=lambda entry: key(entry, moment), reverse=descending)
    page = found[offset : offset + limit]
    document = Connz(
        server_id=broker.server_id,
        now=timestamp(moment.wall_ns),
        num_connections=len(page),
        total=total,
        offset=offset,
        limit=limit,
        connections=[],
    )
    return Selection(document, page, moment, options)


def _check(options: ConnzOptions) -> None:
    if options.sort not in _ORDERS:
        raise BadRequest(f"invalid sorting option: {options.sort}")
    if options.sort in _ONLY_CLOSED and options.state is not ConnectionState.CLOSED:
        raise BadRequest(f"sort by {options.sort} only valid on closed connections")
    if options.filter_subject not in ("", _EVERYTHING) and not options.account:
        raise BadRequest("filter by subject only valid with account filtering")


def _candidates(broker: Broker, options: ConnzOptions) -> tuple[list[Connection], list[ClosedConnection]]:
    """Everything in the states and the account asked for; this is what `total` counts."""
    opened: list[Connection] = []
    closed: list[ClosedConnection] = []
    if options.state is not ConnectionState.CLOSED:
        owner = broker.accounts[options.account] if options.account else broker
        opened = list(owner.connections.values())
    if options.state is not ConnectionState.OPEN:
        closed = [each for each in broker.closed if not options.account or each.account == options.account]
    return opened, closed


def _one(broker: Broker, closed: list[ClosedConnection], options: ConnzOptions) -> list[Entry]:
    """By its id, in the account asked for: an account may ask about its own clients and nobody else's."""
    if options.state is not ConnectionState.CLOSED:
        connection = broker.connections.get(options.cid)
        if connection is not None and options.account in ("", connection.account.name):
            return [connection]
    return next(([each] for each in closed if each.cid == options.cid), [])


def _filtered(opened: list[Connection], closed: list[ClosedConnection], options: ConnzOptions) -> list[Entry]:
    if options.mqtt_client:
        return []  # nobody here speaks MQTT
    if options.filter_subject not in ("", _EVERYTHING):
        wanted = options.filter_subject.encode()
        opened = [each for each in opened if _listens_on(each, wanted)]
    found: Iterable[Entry] = (*opened, *closed)
    if options.user:
        found = (each for each in found if authorized_user(each.session) == options.user)
    return list(found)


def _listens_on(connection: Connection, subject: bytes) -> bool:
    return any(collide(each.subject, subject) for each in connection.subscriptions.values())


def connz(server: Server, options: ConnzOptions | None = None) -> Connz:
    """The document, of this moment; BadRequest for options that cannot be."""
    selection = select(server, options or ConnzOptions())
    if not selection.entries:
        return selection.document
    return msgspec.structs.replace(
        selection.document, connections=[selection.describe(entry) for entry in selection.entries]
    )
