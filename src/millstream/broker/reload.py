"""Apply new options to a running broker; clients that are still permitted stay connected.

``millstream.config`` decides what changes; this module applies it.  After a change of users or accounts every
client is checked again: one whose user is gone or in another account is closed without an error, one that
would be refused today is refused now, and one that stays loses the subscriptions it may no longer have: at
once, or soon after if it has many.  A client for which any of that fails is closed, and the rest of the plan
is carried out.

The new options are in force from one moment on, for everybody.  Checking thousands of clients takes longer,
so they are marked as outdated at that moment, and a ``Renewal`` checks them in slices.  An outdated client is
checked at once when it sends something or something is delivered to it, so nobody acts by old rules.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.base.slices import Pieces, finish
from millstream.broker import account_changes, handshake
from millstream.broker.auth import BrokerAuthenticator, Candidate, Identity
from millstream.broker.close_reason import CloseReason
from millstream.broker.options import BrokerOptions
from millstream.golang.quote import quoted
from millstream.protocol import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.broker.account_changes import AccountChanges
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.broker.routes import Subscription

_log = logging.getLogger("millstream.broker")

_Pending = tuple["Connection", "Callable[[Connection], None]", bool]  # client, check, whether it rewires

_CHECKED_AT_ONCE: Final = 32  # subscriptions of one client; more are checked in slices
_PIECE: Final = 16  # of these


def apply(broker: Broker, options: BrokerOptions) -> None:
    """Apply `options`, all of which must be changeable while running, and check all clients at once."""
    finish(apply_in_slices(broker, options, broker.make_authenticator(options)))
    broker.tick.flush()


def apply_in_slices(
    broker: Broker, options: BrokerOptions, authenticator: BrokerAuthenticator
) -> Pieces[None]:
    """Apply `options`, whose `authenticator` may be made in another thread, and check clients in slices."""
    changes, base = None, None
    while changes is None or base is not broker.options:
        base = broker.options
        changes = yield from account_changes.prepare(broker, options)
    if broker.renewal is not None:
        finish(broker.renewal.run())  # or a client would never be checked against the options in between
    renewal, gone = _exchange(broker, options, authenticator, changes)
    broker.renewal = renewal
    yield len(broker.connections)
    yield from broker.imports.catch_up_in_slices()
    for account in gone:
        broker.imports.unwire(account)
        yield 1
    yield from renewal.run()


def _exchange(
    broker: Broker, options: BrokerOptions, authenticator: BrokerAuthenticator, changes: AccountChanges
) -> tuple[Renewal, list[Account]]:
    """Put the options in force; returns the check of all clients, which are outdated, and gone accounts."""
    old, broker.options = broker.options, options
    previous, broker.authenticator = broker.authenticator, authenticator
    gone = changes.apply(broker)
    access_changed = bool(changes.accounts or gone) or (
        (old.authorization, old.mappings, old.websocket)
        != (options.authorization, options.mappings, options.websocket)
    )
    check = _Check(broker, previous, access_changed)
    renewal = Renewal(broker, check.finish)
    renewal.add(list(broker.connections.values()), check.renew, rewires=bool(changes.wirings))
    return renewal, gone


class Renewal:
    """Clients that were connected when the rules for them changed."""

    def __init__(self, broker: Broker, ended: Callable[[], Pieces[None]] | None = None) -> None:
        """`ended` is work to do when all clients were checked."""
        self._broker = broker
        self._ended = ended
        self._pending: dict[int, _Pending] = {}  # by the number of the connection
        self._waiting: list[Callable[[], None]] = []

    def add(
        self, connections: list[Connection], check: Callable[[Connection], None], *, rewires: bool
    ) -> None:
        """Let `check` decide whether these clients stay; `rewires`: their account has other imports."""
        for connection in connections:
            if connection.outdated:  # by the rules in between first
                self.renew(connection)
            if not connection.closed:
                connection.outdated = connection.filters_deliveries = True
                self._pending[connection.cid] = (connection, check, rewires)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back when all clients are checked."""
        self._waiting.append(callback)

    def run(self) -> Pieces[None]:
        """Check all clients that are still outdated."""
        while self._pending:
            connection = next(iter(self._pending.values()))[0]
            if connection.closed:
                del self._pending[connection.cid]
            else:
                self.renew(connection)
            yield 1
        if self._ended is not None:
            yield from self._ended()
        if self._broker.renewal is self:
            self._broker.renewal = None
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            guard.alone("following a renewal", callback)

    def renew(self, connection: Connection) -> None:
        """Check a client; close one for which that fails, so that it keeps no old rights."""
        connection.outdated = False
        pending = self._pending.pop(connection.cid, None)
        if pending is None:
            return
        _, check, rewires = pending
        try:
            self._broker.imports.catch_up(connection.account)
            check(connection)
            if not connection.closed:
                _refresh(self._broker, connection, rewires)
        except Exception as error:
            self._broker.fail(connection, "reloading a connection", error)


class _Check:
    """Checks clients by a new configuration."""

    def __init__(self, broker: Broker, previous: BrokerAuthenticator, access_changed: bool) -> None:
        self._broker = broker
        self._previous = previous
        self._access_changed = access_changed
        self._unpinned = 0

    def renew(self, connection: Connection) -> None:
        broker = self._broker
        _configure(broker, connection)
        if self._access_changed:
            if broker.accounts.get(connection.account.name) is not connection.account:
                broker.close(connection, CloseReason.CLIENT_CLOSED)
            else:
                _check_again(broker, connection, self._previous)
        if not connection.closed and not broker.is_pinned(connection.session):
            self._unpinned += 1
            broker.close(connection, CloseReason.TLS_HANDSHAKE_FAILURE)

    def finish(self) -> Pieces[None]:
        """Close the most recent clients if there are too many now."""
        broker = self._broker
        if self._unpinned:
            _log.info("Disconnect %d clients due to pinned certs reload", self._unpinned)
        most = broker.options.max_connections
        if 0 < most < len(broker.connections):
            for connection in list(broker.connections.values())[most:]:
                broker.close(connection, CloseReason.MAX_CONNECTIONS_EXCEEDED, errors.MAX_CONNECTIONS)
                yield 1


def _configure(broker: Broker, connection: Connection) -> None:
    connection.parser.max_control_line = broker.options.max_control_line
    connection.keepalive.configure(broker.ping_interval_s(connection.session.kind), broker.options.ping_max)


def _check_again(broker: Broker, connection: Connection, previous: BrokerAuthenticator) -> None:
    identity: Identity | None = connection.session.identity
    if identity is None:
        return
    if identity.grant is not None:
        # In operator mode the registry follows its token.
        if broker.registry is None:
            _settle(broker, connection, broker.authenticator.still_known(identity))
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
    if connection.closed or done.cancelled():
        return
    try:
        _settle(broker, connection, done.result())
        if not connection.closed:
            _refresh(broker, connection)
    except Exception as error:
        broker.fail(connection, "reloading a connection", error)


def _settle(broker: Broker, connection: Connection, identity: Identity | None) -> None:
    if identity is None:
        refuse(broker, connection)
    elif identity.account != connection.account.name:
        broker.close(connection, CloseReason.CLIENT_CLOSED)
    else:
        connection.session.identity = identity


def refuse(broker: Broker, connection: Connection) -> None:
    """Close a client whose credentials would be refused today."""
    broker.close(connection, CloseReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION)


def _refresh(broker: Broker, connection: Connection, rewires: bool = False) -> None:
    """Apply the current limits, permissions and path of messages; with `rewires`, the current imports."""
    handshake.apply_limits(broker, connection)
    handshake.choose_path(broker, connection)
    if connection.permissions is None and not rewires:
        return
    if len(connection.subscriptions) <= _CHECKED_AT_ONCE:
        _check_subscriptions(broker, connection, list(connection.subscriptions.values()), rewires)
    else:
        broker.turns.in_slices("checking subscriptions", _check_in_slices(broker, connection, rewires))


def _check_in_slices(broker: Broker, connection: Connection, rewires: bool) -> Pieces[None]:
    """Check many subscriptions in slices, until all are done; a later reload repeats it, but for imports."""
    permissions, held = connection.permissions, connection.subscriptions
    for part in range(held.parts()):
        subscriptions = held.list_values(part)
        for start in range(0, len(subscriptions), _PIECE):
            if connection.closed or not (rewires or connection.permissions is permissions):
                return
            try:
                some = subscriptions[start : start + _PIECE]
                _check_subscriptions(broker, connection, some, rewires)
            except Exception as error:
                broker.fail(connection, "reloading a connection", error)
                return
            yield _PIECE


def _check_subscriptions(
    broker: Broker, connection: Connection, subscriptions: list[Subscription], rewires: bool
) -> None:
    if connection.permissions is not None:
        _revoke(broker, connection, subscriptions)
    if rewires:
        broker.imports.renew_shadows(connection.account, subscriptions)


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
