"""The description of one connection in `/connz`, open or closed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.broker.history import ClosedConnection
from millstream.broker.options import GLOBAL_ACCOUNT, ConnectionType
from millstream.broker.tls_peer import UnreadableCertificate, peer_names, pinned_fingerprint, suite_name
from millstream.golang.time import format_time
from millstream.server.monitor.formats import nanoseconds, round_trip, text_of, uptime
from millstream.server.monitor.json_page import Listing
from millstream.server.monitor.subscriptions import detail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.broker.connection import Connection
    from millstream.broker.history import SubscriptionRecord
    from millstream.broker.routes import Subscription
    from millstream.broker.session import ClientSession

    Entry = Connection | ClosedConnection
else:
    Entry = object

_TYPES: Final = {ConnectionType.WEBSOCKET: "websocket"}
_REDACTED: Final = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class Moment:
    """The current time on both clocks."""

    wall_ns: int
    monotonic: float  # s


class PeerCertificate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str = ""


class ConnectionInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    cid: int
    kind: str
    type: str
    ip: str
    port: int
    start: str
    last_activity: str
    stop: str = ""
    reason: str = ""
    rtt: str
    uptime: str
    idle: str
    pending_bytes: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    stalls: int = 0
    subscriptions: int
    name: str = ""
    lang: str = ""
    version: str = ""
    tls_version: str = ""
    tls_cipher_suite: str = ""
    tls_peer_certs: list[PeerCertificate] = []
    tls_first: bool = False
    authorized_user: str = ""
    account: str = ""
    subscriptions_list: Listing | list[None] = []
    subscriptions_list_detail: Listing | list[None] = []
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: tuple[str, ...] = ()


def subscription_count(entry: Entry) -> int:
    """Return the number of subscriptions that a connection has, or had at its end."""
    return entry.subscription_count() if isinstance(entry, ClosedConnection) else len(entry.subscriptions)


def held_by(entry: Entry) -> Iterator[Subscription | SubscriptionRecord]:
    """Yield the subscriptions of a connection; they may change meanwhile."""
    live = entry.ending if isinstance(entry, ClosedConnection) else entry.subscriptions
    for part in range(live.parts()):
        yield from live.list_values(part)
    if isinstance(entry, ClosedConnection):
        yield from entry.ended[::-1]


def describe(
    entry: Entry, moment: Moment, *, identity: bool, subscriptions: bool, details: bool
) -> ConnectionInfo:
    """Return the description; `identity` adds the user, `subscriptions` or `details` the subscriptions."""
    session: ClientSession = entry.session
    if isinstance(entry, ClosedConnection):
        closed, end_ns = True, entry.stopped_ns
        account, round_trip_s = entry.account, entry.round_trip_s
        pending, stalls = 0, entry.stalls
    else:
        closed, end_ns = False, moment.wall_ns
        account, round_trip_s = entry.account.name, entry.keepalive.round_trip_s
        pending, stalls = entry.backpressure.pending(), entry.backpressure.stalls
    # Computed from the start of the connection, so that it stays the same while nothing happens.
    last_ns = session.started_ns + nanoseconds(max(entry.last_activity - session.started, 0))
    idle_ns = end_ns - last_ns if closed else nanoseconds(moment.monotonic - entry.last_activity)
    tag = account if isinstance(entry, ClosedConnection) else entry.account.tag
    names_account = account != GLOBAL_ACCOUNT
    held = subscription_count(entry)
    return ConnectionInfo(
        cid=entry.cid,
        kind="Client",
        type=_TYPES.get(session.kind, "nats"),
        ip=session.ip,
        port=session.port,
        start=format_time(session.started_ns),
        last_activity=format_time(last_ns),
        stop=format_time(end_ns) if closed else "",
        reason=str(session.reason or "") if closed else "",
        rtt=round_trip(round_trip_s),
        uptime=uptime(end_ns - session.started_ns),
        idle=uptime(idle_ns),
        pending_bytes=pending,
        in_msgs=entry.in_messages,
        out_msgs=entry.out_messages,
        in_bytes=entry.in_bytes,
        out_bytes=entry.out_bytes,
        stalls=stalls,
        subscriptions=held,
        name=session.connect.name,
        lang=session.connect.lang,
        version=session.connect.version,
        tls_version=session.tls_version,
        tls_cipher_suite=suite_name(session.tls_cipher),
        tls_peer_certs=_peer_certificates(session) if identity and not closed else [],
        tls_first=_tls_first(session),
        authorized_user=authorized_user(session) if identity else "",
        account=account if identity and names_account else "",
        subscriptions_list=(
            Listing(text_of(each.subject) for each in held_by(entry))
            if held and subscriptions and not details
            else []
        ),
        subscriptions_list_detail=(
            Listing(detail(each, entry.cid, account if closed else "") for each in held_by(entry))
            if held and details
            else []
        ),
        **(_terms(session) if identity and not closed else {}),
        name_tag=tag if identity and (names_account or not closed) else "",
    )


def _terms(session: ClientSession) -> dict[str, Any]:
    """Return what a client's token says; a token that anybody could use is not shown."""
    grant = session.identity.grant if session.identity is not None else None
    if grant is None:
        return {}
    return {
        "jwt": _REDACTED if grant.bearer else grant.token,
        "issuer_key": grant.signer,
        "tags": grant.tags,
    }


def authorized_user(session: ClientSession) -> str:
    """Return the user of a client, unverified where the server has no users; a token is never shown."""
    if session.identity is not None and session.identity.user:
        return session.identity.user
    connect = session.connect
    return connect.nkey or connect.user or (_REDACTED if connect.auth_token else "")


def _tls_first(session: ClientSession) -> bool:
    """Return whether the TLS handshake came before INFO, as it always does for a WebSocket."""
    return bool(session.tls_version) and session.kind is ConnectionType.STANDARD and not session.greeted


def _peer_certificates(session: ClientSession) -> list[PeerCertificate]:
    der = session.peer_certificate
    return [_peer_certificate(der)] if der is not None else []


@lru_cache(maxsize=1024)
def _peer_certificate(der: bytes) -> PeerCertificate:
    fingerprint = hashlib.sha256(der).hexdigest()
    try:
        return PeerCertificate(
            subject=peer_names(der).subject, spki_sha256=pinned_fingerprint(der), cert_sha256=fingerprint
        )
    except UnreadableCertificate:
        return PeerCertificate(cert_sha256=fingerprint)
