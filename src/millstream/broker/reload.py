"""Apply new options to a running broker; clients that are still permitted stay connected.

``millstream.config`` decides what changes; this module applies it.  After a change of users or accounts every
client is checked again: one whose user is gone or in another account is closed without an error, one that
would be refused today is refused now, and one that stays loses the subscriptions it may no longer have: at
once, or soon after if it has many.  A client for which any of that fails is closed, and the rest of the plan
is carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.base.slices import Pieces
from millstream.broker import handshake
from millstream.broker.auth import Candidate, ClientAuthenticator, Identity
from millstream.broker.close_reason import CloseReason
from millstream.broker.options import BrokerOptions
from millstream.golang.quote import quoted
from millstream.protocol import errors

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.broker.router import Subscription

_log = logging.getLogger("millstream.broker")

_CHECKED_AT_ONCE: Final = 128  # subscriptions of one client; more are checked in slices


def apply(broker: Broker, options: BrokerOptions) -> None:
    """Apply `options`, all of which must be changeable while running."""
    authenticator = ClientAuthenticator(options)  # may raise: before anything is touched
    old, broker.options = broker.options, options
    access_changed = (old.authorization, old.accounts, old.mappings, old.websocket) != (
        options.authorization,
        options.accounts,
        options.mappings,
        options.websocket,
    )
    previous, broker.authenticator = broker.authenticator, authenticator
    _for_each(broker, broker.connections.values(), lambda each: _configure(broker, each))
    if access_changed:
        for account in broker.configure_accounts():
            gone = account.connections.values()
            _for_each(broker, gone, lambda each: broker.close(each, CloseReason.CLIENT_CLOSED))
        guard.alone("renewing imports", broker.imports.wire)
        _for_each(broker, broker.connections.values(), lambda each: _check_again(broker, each, previous))
    guard.alone("closing connections by their certificates", _send_unpinned_away, broker)
    _for_each(broker, broker.connections.values(), lambda each: _refresh(broker, each))
    if 0 < options.max_connections < len(broker.connections):
        for connection in list(broker.connections.values())[options.max_connections :]:
            broker.close(connection, CloseReason.MAX_CONNECTIONS_EXCEEDED, errors.MAX_CONNECTIONS)
    broker.tick.flush()


def _for_each(
    broker: Broker, connections: Iterable[Connection], step: Callable[[Connection], object]
) -> None:
    """Call `step` for each connection; close one for which it fails, so that it keeps no old rights."""
    for connection in list(connections):
        try:
            step(connection)
        except Exception as error:
            broker.fail(connection, "reloading a connection", error)


def _configure(broker: Broker, connection: Connection) -> None:
    connection.parser.max_control_line = broker.options.max_control_line
    connection.keepalive.configure(broker.ping_interval_s(connection.session.kind), broker.options.ping_max)


def _send_unpinned_away(broker: Broker) -> None:
    """Close connections whose certificates are no longer pinned."""
    unpinned = [each for each in broker.connections.values() if not broker.is_pinned(each.session)]
    if unpinned:
        _log.info("Disconnect %d clients due to pinned certs reload", len(unpinned))
    for connection in unpinned:
        broker.close(connection, CloseReason.TLS_HANDSHAKE_FAILURE)


def _check_again(broker: Broker, connection: Connection, previous: ClientAuthenticator) -> None:
    if connection.session.identity is None:
        return
    if _has_moved(broker, connection):
        broker.close(connection, CloseReason.CLIENT_CLOSED)
        return
    candidate = handshake.candidate_of(broker.authenticator, connection)
    if candidate is None:
        _settle(broker, connection, None)
    elif not candidate.slow:
        _settle(broker, connection, candidate.verify())
    elif _was_checked(handshake.candidate_of(previous, connection), candidate):
        _settle(broker, connection, candidate.identity)
    else:
        checking = broker.loop.run_in_executor(
            None, lambda: None if connection.closed else candidate.verify()
        )
        broker.turns.when_done(checking, lambda done: _settle_later(broker, connection, done))


def _was_checked(before: Candidate | None, now: Candidate) -> bool:
    """Return True if the same password was checked when the client connected; checking again takes long."""
    return before is not None and before.secret == now.secret


def _has_moved(broker: Broker, connection: Connection) -> bool:
    """Return True if the client's user or nkey is gone, or belongs to another account now."""
    identity: Identity = connection.session.identity
    current: str = connection.account.name
    if nkey := identity.nkey or connection.session.connect.nkey:
        return broker.authenticator.account_of_nkey(nkey) != current
    return identity.is_user and broker.authenticator.account_of_user(identity.user) != current


def _settle_later(broker: Broker, connection: Connection, done: asyncio.Future[Identity | None]) -> None:
    def settle(each: Connection) -> None:
        _settle(broker, each, done.result())
        if not each.closed:
            _refresh(broker, each)

    if not connection.closed and not done.cancelled():
        _for_each(broker, [connection], settle)


def _settle(broker: Broker, connection: Connection, identity: Identity | None) -> None:
    if identity is None:
        broker.close(connection, CloseReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION)
    elif identity.account != connection.account.name:
        broker.close(connection, CloseReason.CLIENT_CLOSED)
    else:
        connection.session.identity = identity


def _refresh(broker: Broker, connection: Connection) -> None:
    """Apply the current limits, permissions and path of messages."""
    handshake.apply_limits(broker, connection)
    handshake.choose_path(broker, connection)
    if connection.permissions is None:
        return
    if len(connection.subscriptions) <= _CHECKED_AT_ONCE:
        _revoke(broker, connection, list(connection.subscriptions.values()))
    else:
        broker.turns.in_slices("checking subscriptions", _revoke_in_slices(broker, connection))


def _revoke_in_slices(broker: Broker, connection: Connection) -> Pieces[None]:
    """Check many subscriptions in slices, until all are done or a later reload repeats it."""
    permissions, held = connection.permissions, connection.subscriptions
    for part in range(held.parts()):
        subscriptions = held.list_values(part)
        for start in range(0, len(subscriptions), _CHECKED_AT_ONCE):
            if connection.closed or connection.permissions is not permissions:
                return
            try:
                _revoke(broker, connection, subscriptions[start : start + _CHECKED_AT_ONCE])
            except Exception as error:
                broker.fail(connection, "reloading a connection", error)
                return
            yield _CHECKED_AT_ONCE


def _revoke(broker: Broker, connection: Connection, subscriptions: list[Subscription]) -> None:
    """End subscriptions that the client may no longer have, and send an error for each."""
    permissions = connection.permissions
    for subscription in subscriptions:
        if subscription.closed or permissions.may_subscribe(subscription.subject, subscription.queue):
            continue
        broker.subscriptions.remove(connection, subscription)
        text = errors.subscription_revoked(subscription.subject, subscription.queue, subscription.sid)
        connection.send(b"-ERR '%b'\r\n" % text)
        _log.info("%s - Removed sub %s - not authorized", connection, quoted(subscription.subject))
    connection.filters_deliveries = permissions.filters_deliveries
