"""The handshake of a client: INFO, CONNECT, credentials, limits.

    accepted ──INFO──▶ waiting ──CONNECT──▶ checking ──▶ connected
                          │ (auth timeout)      │ (refused)
                          ▼                     ▼
                        closed                closed

Without authentication a client may skip CONNECT; it is then verbose and pedantic, in the global account.  A
second CONNECT starts again: subscriptions are removed and credentials are checked.  A bcrypt password is
checked in a worker thread while the connection is suspended, see ``password_checks``.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.broker.auth import BrokerAuthenticator, Candidate, ClientCredentials, Identity, Login
from millstream.broker.client_json import BadJson
from millstream.broker.close_reason import CloseReason
from millstream.broker.info import Info, encode
from millstream.broker.options import ConnectionType
from millstream.broker.password_checks import PasswordCheck, has_hung_up
from millstream.broker.permissions import PermissionSet
from millstream.broker.protocol_trace import Tracer
from millstream.broker.session import ConnectOptions
from millstream.broker.tls_peer import UnreadableCertificate, peer_chain, peer_names, suite_name
from millstream.golang.quote import quoted
from millstream.protocol import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection

_log = logging.getLogger("millstream.broker")

_DEFAULT_AUTH_TIMEOUT_S: Final = 2.0
_LONGEST_TIMER_S: Final = 86_400.0  # of a timer for something that comes later


def first_info(broker: Broker, connection: Connection) -> bytes:
    """Return the first INFO.  With a usable `no_auth_user` it does not require credentials."""
    kind = connection.session.kind
    # The header of a proxy has not arrived yet, so the address may be that of the proxy.
    hidden = broker.options.proxy_protocol and kind is ConnectionType.STANDARD
    return encode(
        _info(
            broker,
            connection,
            auth_required=broker.authenticator.announced_for(kind),
            client_ip="" if hidden else connection.session.ip,
        )
    )


def connect_info(broker: Broker, connection: Connection) -> bytes:
    """Return the INFO after the first pong, with the client's account."""
    return encode(
        _info(
            broker,
            connection,
            connect_info=True,
            remote_account=connection.account.name,
            acc_is_sys=connection.account.is_system,
        )
    )


def update_info(broker: Broker, connection: Connection, *, lame_duck: bool = False) -> bytes:
    """Return an INFO for connected clients that support updates."""
    return encode(_info(broker, connection, ldm=lame_duck))


def _info(broker: Broker, connection: Connection, **special: object) -> Info:
    session = connection.session
    fields: dict[str, object] = {
        "auth_required": broker.authenticator.required_for(session.kind),
        "client_id": connection.cid,
        "client_ip": session.ip,
        "nonce": session.nonce.decode() if not session.connect_received else "",
        "max_payload": connection.parser.max_payload,
        "headers": broker.options.headers,
        "ldm": broker.lame_duck,
        **broker.identity.listener_fields(broker.options, session.kind),
        **special,
    }
    return broker.identity.info(**fields)


def auth_timeout_s(broker: Broker, kind: ConnectionType) -> float:
    """Return how long a client may take until CONNECT."""
    options = broker.options
    if kind is ConnectionType.WEBSOCKET and options.websocket is not None:
        if options.websocket.auth_timeout_s is not None:
            return options.websocket.auth_timeout_s
        tls = options.websocket.tls
    else:
        tls = options.tls
    if options.authorization.timeout_s is not None:
        return options.authorization.timeout_s
    return tls.timeout_s + 1 if tls is not None else _DEFAULT_AUTH_TIMEOUT_S


def auth_timed_out(broker: Broker, connection: Connection) -> None:
    connection.session.auth_timer = None
    _log.debug("%s - Authentication Timeout", connection)
    broker.close(connection, CloseReason.AUTHENTICATION_TIMEOUT, errors.AUTHENTICATION_TIMEOUT)


def without_connect(broker: Broker, connection: Connection) -> None:
    """Handle another first operation where credentials are needed: allowed for a `no_auth_user` only."""
    if not broker.authenticator.connect_may_be_skipped(connection.session.kind):
        _refuse(broker, connection)
        return
    connection.session.stop_auth_timer()
    connection.session.connect_received = True
    connection.session.connect_skipped = True
    _authenticate(broker, connection)


def connect(broker: Broker, connection: Connection) -> None:
    session = connection.session
    session.stop_auth_timer()
    try:
        session.connect = session.connect.updated(connection.parser.argument())
    except (BadJson, msgspec.ValidationError) as error:
        _log.debug("%s - bad CONNECT: %s", connection, error)
        broker.close(connection, CloseReason.PROTOCOL_VIOLATION)
        return
    if session.connect_received and not broker.departures.move(
        connection, lambda: _resume(broker, connection, lambda: _introduced(broker, connection))
    ):
        _suspend(connection)  # until the last subscription has ended
        return
    _introduced(broker, connection)


def _introduced(broker: Broker, connection: Connection) -> None:
    session = connection.session
    session.connect_received = True
    session.connect_skipped = False
    connection.keepalive.connected(broker.now() - session.started)
    _authenticate(broker, connection)


def _authenticate(broker: Broker, connection: Connection, *, looked_up: bool = False) -> None:
    candidate = candidate_of(broker.authenticator, connection)
    if candidate is None:
        _refuse_in_time(broker, connection)
    elif candidate.needs_account:
        if looked_up or broker.registry is None:
            _refuse(broker, connection)
        else:
            _suspend(connection)
            again = partial(_authenticate, broker, connection, looked_up=True)
            resume = partial(broker.turns.soon, _resume, broker, connection, again)
            broker.registry.look_up(candidate.needs_account, resume)
    elif candidate.ask is not None:
        _suspend(connection)
        candidate.ask(_login(broker, connection), partial(_checked, broker, connection))
    elif candidate.slow:
        _suspend(connection)
        check = PasswordCheck(
            candidate.verify,
            is_gone=lambda: connection.closed or has_hung_up(connection.transport),
            done=lambda identity: _checked(broker, connection, identity),
            gone=lambda: broker.close(connection, CloseReason.CLIENT_CLOSED),
        )
        broker.password_checks.submit((connection.session.ip, candidate.identity.user), check)
    else:
        identity = candidate.verify()
        if identity is None:
            _refuse_in_time(broker, connection)
        else:
            _admit(broker, connection, identity)


def _refuse_in_time(broker: Broker, connection: Connection) -> None:
    """Refuse a user as late as one with a wrong bcrypt password, so that time does not reveal users."""
    delay_s = refusal_delay_s(broker, broker.authenticator, connection.session.connect.user)
    if not delay_s:
        _refuse(broker, connection)
        return
    _suspend(connection)
    broker.turns.later(delay_s, _checked, broker, connection, None)


def refusal_delay_s(broker: Broker, authenticator: BrokerAuthenticator, user: str) -> float:
    """Return how long the refusal of a login waits; 0: it does not."""
    usual_s = broker.password_checks.usual_s
    return usual_s if usual_s > 0 and authenticator.has_slow_users and user else 0.0


def _suspend(connection: Connection) -> None:
    """Stop reading input until the check is done."""
    connection.suspended = True
    connection.transport.pause_reading()


def candidate_of(authenticator: BrokerAuthenticator, connection: Connection) -> Candidate | None:
    """Return whom to check the client's credentials against; None if there is nobody."""
    try:
        return authenticator.candidate(_credentials(connection))
    except UnreadableCertificate as error:
        _log.warning("%s - %s", connection, error)
        return None


def _credentials(connection: Connection) -> ClientCredentials:
    session = connection.session
    given = session.connect
    cookies = session.cookies or ConnectOptions()
    return ClientCredentials(
        user=given.user or cookies.user,
        password=given.password or cookies.password,
        token=given.auth_token or cookies.auth_token,
        nkey=given.nkey,
        jwt=given.jwt or cookies.jwt,
        signature=given.sig,
        host=session.ip,
        connection_type=session.kind,
        nonce=session.nonce,
        peer=peer_names(session.peer_certificate) if session.peer_certificate is not None else None,
    )


def _login(broker: Broker, connection: Connection) -> Login:
    session = connection.session
    connect = session.connect
    certificates, verified = peer_chain(connection.transport, session.peer_certificate)
    return Login(
        credentials=_credentials(connection),
        id=connection.cid,
        name=connect.name,
        lang=connect.lang,
        version=connect.version,
        protocol=connect.protocol,
        tls_version=session.tls_version,
        tls_cipher=suite_name(session.tls_cipher),
        certificates=certificates,
        certificate_verified=verified,
        timeout_s=auth_timeout_s(broker, session.kind),
    )


def _checked(broker: Broker, connection: Connection, identity: Identity | None) -> None:
    _resume(broker, connection, lambda: _decide(broker, connection, identity))


def _resume(broker: Broker, connection: Connection, step: Callable[[], None]) -> None:
    """Continue the login with `step`, and read input again."""
    if connection.closed:
        return
    connection.suspended = False
    connection.transport.resume_reading()
    try:
        step()
    except Exception as error:
        broker.fail(connection, "a login", error)
    connection.process()


def _decide(broker: Broker, connection: Connection, identity: Identity | None) -> None:
    if identity is None:
        _refuse(broker, connection)
    else:
        _admit(broker, connection, identity)


def _refuse(broker: Broker, connection: Connection) -> None:
    connection.session.stop_auth_timer()
    session = connection.session
    label = _user_label(session.connect, session.cookies)
    _log.error("%s:%d - cid:%d - authentication error%s", session.ip, session.port, connection.cid, label)
    broker.observer.authentication_failed(connection)
    broker.close(connection, CloseReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION)


def _user_label(connect: ConnectOptions, cookies: ConnectOptions | None) -> str:
    if connect.nkey:
        return f" - Nkey {quoted(connect.nkey)}"
    if user := connect.user or (cookies.user if cookies is not None else ""):
        return f" - User {quoted(user)}"
    if connect.auth_token or (cookies is not None and cookies.auth_token):
        return ' - Token "[REDACTED]"'
    return ""


def _admit(broker: Broker, connection: Connection, identity: Identity) -> None:
    """Bind an authenticated client to its account, then check its other options."""
    session = connection.session
    connect = session.connect
    account = broker.accounts.get(identity.account)
    if connect.account or connect.new_account or account is None:
        _refuse(broker, connection)
        return
    if connection.cid not in account.connections:
        if account.is_full():
            broker.close(
                connection,
                CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED,
                errors.MAX_ACCOUNT_CONNECTIONS,
            )
            return
        broker.imports.catch_up(account)
        previous = connection.account
        previous.discard(connection)
        account.add(connection)
        connection.enter(account)
        if session.identity is not None:
            broker.observer.client_moved(connection, previous)
    session.identity = identity
    session.authenticated = broker.authenticator.required_for(session.kind)
    connection.parser.connect_first = False
    apply_limits(broker, connection)
    connection.headers = broker.options.headers and connect.headers
    connection.parser.headers_allowed = connection.headers
    if not 0 <= connect.protocol <= 1:
        broker.close(connection, CloseReason.BAD_CLIENT_PROTOCOL_VERSION, errors.BAD_CLIENT_PROTOCOL)
        return
    if connect.no_responders and not connection.headers:
        broker.close(
            connection, CloseReason.NO_RESPONDERS_REQUIRES_HEADERS, errors.NO_RESPONDERS_NEEDS_HEADERS
        )
        return
    connection.echo = connect.echo
    connection.no_responders = connect.no_responders
    choose_path(broker, connection)
    plan_end(broker, connection)
    broker.observer.client_connected(connection)
    if connect.verbose and not session.connect_skipped:
        connection.send(b"+OK\r\n")


def plan_end(broker: Broker, connection: Connection) -> None:
    """Close a client or a leaf link when the token of its user expires, or its hours end."""
    grant = connection.session.identity.grant
    if grant is not None and grant.ends is not None:
        left_s = min(max(grant.ends - time.time(), 0.0), _LONGEST_TIMER_S)
        connection.session.auth_timer = broker.turns.later(left_s, _ended, broker, connection)


def _ended(broker: Broker, connection: Connection) -> None:
    connection.session.auth_timer = None
    grant = connection.session.identity.grant
    if grant is not None and grant.ends is not None and grant.ends > time.time():
        plan_end(broker, connection)
    else:
        broker.close(connection, CloseReason.AUTHENTICATION_EXPIRED, errors.USER_EXPIRED)


def apply_limits(broker: Broker, connection: Connection) -> None:
    """Apply permissions and limits of user and account; also after a reload."""
    session = connection.session
    permissions = session.identity.permissions if session.identity is not None else None
    connection.permissions = PermissionSet(permissions) if permissions is not None else None
    connection.filters_deliveries = False  # until a subscription says otherwise
    connection.tracks_replies = permissions is not None and permissions.allow_responses is not None
    apply_amounts(broker, connection)
    if session.kind is ConnectionType.WEBSOCKET and connection.transport is not None:
        connection.transport.max_payload = connection.parser.max_payload


def apply_amounts(broker: Broker, connection: Connection) -> None:
    """Apply the limits of server, account and user to a client or a link."""
    session, limits = connection.session, connection.account.configured.limits
    session.max_subscriptions = _smaller(broker.options.max_subscriptions or -1, limits.max_subscriptions)
    connection.parser.max_payload = _smaller(broker.options.max_payload, limits.max_payload)
    if session.identity is not None and (grant := session.identity.grant) is not None:
        session.max_subscriptions = _smaller(session.max_subscriptions, grant.max_subscriptions)
        connection.parser.max_payload = _smaller(connection.parser.max_payload, grant.max_payload)


def choose_path(broker: Broker, connection: Connection) -> None:
    """Choose the fast path for clients that are not traced, restricted or verbose."""
    options = broker.options
    traced = options.trace and (options.trace_verbose or not connection.account.is_system)
    connection.tracer = Tracer(connection, options) if traced else None
    connect = connection.session.connect
    connection.pedantic = connect.pedantic
    connection.careful = connect.verbose or connection.permissions is not None or traced


def _smaller(left: int, right: int) -> int:
    """Return the smaller of two limits; negative means unlimited."""
    if left < 0 or right < 0:
        return max(left, right)
    return min(left, right)
