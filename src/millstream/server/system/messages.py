"""The JSON messages of the system account: the server, its clients, and events.

Fields and their order are nats-server's.  A field without a default is always written, one with a default
only if it differs.  ``events`` and ``requests`` send the messages; the statistics of the server are in
``statsz``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from millstream.base.ids import nuid
from millstream.broker.options import ConnectionType
from millstream.golang.time import format_time
from millstream.server.monitor.accountz import Amount, AmountByKind, account_stat
from millstream.server.monitor.formats import nanoseconds

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.connection import Connection
    from millstream.broker.message_trace import MessageTrace
    from millstream.broker.totals import Traffic

CONNECT_TYPE: Final = "io.nats.server.advisory.v1.client_connect"
DISCONNECT_TYPE: Final = "io.nats.server.advisory.v1.client_disconnect"
ACCOUNT_CONNECTIONS_TYPE: Final = "io.nats.server.advisory.v1.account_connections"

_CLIENT_TYPES: Final = {ConnectionType.WEBSOCKET: "websocket", ConnectionType.LEAFNODE: ""}


class _Document(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class ServerDocument(_Document, frozen=True, kw_only=True):
    """The server that sends a message; `seq` increases with every message."""

    name: str
    host: str
    id: str
    domain: str = ""
    ver: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    feature_flags: dict[str, bool]
    jetstream: bool
    flags: int
    seq: int
    time: str


class ServerId(_Document, frozen=True, kw_only=True):
    name: str
    host: str
    id: str


class ClientDocument(_Document, frozen=True, kw_only=True):
    start: str
    host: str
    id: int
    acc: str
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0  # nanoseconds
    stop: str = ""
    issuer_key: str = ""
    name_tag: str
    kind: str
    client_type: str = ""


class ConnectEvent(_Document, frozen=True, kw_only=True):
    type: str
    id: str
    timestamp: str
    server: ServerDocument
    client: ClientDocument


class DisconnectEvent(_Document, frozen=True, kw_only=True):
    """The end of a connection; `sent` and `received` are from the client's point of view."""

    type: str
    id: str
    timestamp: str
    server: ServerDocument
    client: ClientDocument
    sent: Amount
    received: Amount
    reason: str


class AccountConnections(_Document, frozen=True, kw_only=True):
    type: str
    id: str
    timestamp: str
    server: ServerDocument
    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: AmountByKind
    received: AmountByKind
    slow_consumers: int


class ErrorDocument(_Document, frozen=True, kw_only=True):
    code: int
    description: str


class ResponseDocument(_Document, frozen=True, kw_only=True):
    """The response to a request.  `data` is null if a document could not be built."""

    server: ServerDocument
    data: Any = UNSET
    error: ErrorDocument | UnsetType = UNSET


def client_info(connection: Connection, stopped_ns: int | None = None) -> ClientDocument:
    """Return a client as events show it; the round trip is included only after its end."""
    session = connection.session
    connect = session.connect
    return ClientDocument(
        start=format_time(session.started_ns),
        host=session.ip,
        id=connection.cid,
        acc=connection.account.name,
        user=user_of(connection),
        name=connect.name,
        lang=connect.lang,
        ver=connect.version,
        rtt=0 if stopped_ns is None else nanoseconds(connection.keepalive.round_trip_s),
        stop="" if stopped_ns is None else format_time(stopped_ns),
        issuer_key=_issuer_of(connection),
        name_tag=connection.account.tag,
        kind="Leafnode" if connection.is_link() else "Client",
        client_type=_CLIENT_TYPES.get(session.kind, "nats"),
    )


def _issuer_of(connection: Connection) -> str:
    identity = connection.session.identity
    if identity is None or not (identity.nkey or identity.grant):
        return ""
    return str(identity.grant.signer if identity.grant is not None else connection.account.name)


def user_of(connection: Connection) -> str:
    """Return the client's user or, before it is admitted, the user that it claims."""
    session = connection.session
    if session.identity is not None:
        return str(session.identity.user)
    connect = session.connect
    return str(connect.nkey or connect.user or ("[REDACTED]" if connect.auth_token else ""))


def connect_event(server: ServerDocument, connection: Connection) -> ConnectEvent:
    return ConnectEvent(
        type=CONNECT_TYPE,
        id=nuid(),
        timestamp=format_time(time.time_ns()),
        server=server,
        client=client_info(connection),
    )


def disconnect_event(server: ServerDocument, connection: Connection, reason: str) -> DisconnectEvent:
    now = time.time_ns()
    return DisconnectEvent(
        type=DISCONNECT_TYPE,
        id=nuid(),
        timestamp=format_time(now),
        server=server,
        client=client_info(connection, stopped_ns=now),
        sent=Amount(msgs=connection.in_messages, bytes=connection.in_bytes),
        received=Amount(msgs=connection.out_messages, bytes=connection.out_bytes),
        reason=reason,
    )


def account_connections(
    server: ServerDocument, account: Account, traffic: Traffic, event_id: str
) -> AccountConnections:
    return AccountConnections(
        type=ACCOUNT_CONNECTIONS_TYPE,
        id=event_id,
        timestamp=format_time(time.time_ns()),
        server=server,
        **msgspec.structs.asdict(account_stat(account, traffic)),
    )


def trace_message(server: ServerDocument, trace: MessageTrace) -> dict[str, Any]:
    """Return the trace of a message."""
    return {
        "server": server,
        "request": {"header": dict(sorted(trace.headers.items())), "msgsize": trace.size},
        **({"hops": trace.hops} if trace.hops else {}),
        "events": [{**event, "ts": format_time(event["ts"])} for event in trace.events],
    }
