"""The broker: accounts, connections and their shared state.

Owns no socket and starts nothing: ``listener`` adds connections, ``server`` stops it.  Programs in the same
process use ``publish`` and ``subscribe``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from millstream.base import guard
from millstream.base.descriptors import uses_kept
from millstream.base.ids import nonce
from millstream.broker import account_changes, handshake, options
from millstream.broker.accounts import Account
from millstream.broker.auth import BrokerAuthenticator, ClientAuthenticator, Decided, Login
from millstream.broker.backpressure import Backpressure
from millstream.broker.body_reader import read_bodies
from millstream.broker.close_reason import CloseReason
from millstream.broker.commands import Commands
from millstream.broker.connection import Connection, Tick
from millstream.broker.departures import Departures
from millstream.broker.history import ClosedConnection
from millstream.broker.imports import Imports
from millstream.broker.info import ServerIdentity
from millstream.broker.internal import CallbackSubscriber, InternalMessage, ServiceSubscriber
from millstream.broker.keepalive import Keepalive
from millstream.broker.message_trace import MessageTraces
from millstream.broker.observer import Observer
from millstream.broker.options import BrokerOptions, ConnectionType
from millstream.broker.password_checks import PasswordChecks
from millstream.broker.permissions import PermissionSet
from millstream.broker.routes import Subscriber, Subscription
from millstream.broker.session import ClientSession, ConnectOptions
from millstream.broker.subscriptions import Subscriptions
from millstream.broker.tls_peer import pins_allow
from millstream.broker.totals import ConnectionTotals
from millstream.broker.turns import Turns
from millstream.broker.watchdog import Watchdog
from millstream.protocol import errors
from millstream.protocol.outlet import LONG
from millstream.protocol.parser import Parser, make_frame
from millstream.subjects.match import is_one_word

if TYPE_CHECKING:
    from millstream.base.server_keys import ServerKeys
    from millstream.broker.callout import CalloutRules, Callouts
    from millstream.broker.leaf.leafs import Leafs
    from millstream.broker.oidc.key_ring import KeyRing
    from millstream.broker.operator.registry import Registry
    from millstream.broker.reload import Renewal

_log = logging.getLogger("millstream.broker")

_FIRST_CID: Final = 5  # the numbers below it are the reference's internal clients
_DEFAULT_CLOSED: Final = 10_000  # remembered when the options say 0, as in the reference
_LINGER_S: Final = 2.0  # for the last words to a client that is being closed


class Broker:
    """A NATS server without its sockets."""

    def __init__(
        self,
        broker_options: BrokerOptions,
        *,
        server_id: str,
        xkey: str = "",
        keys: ServerKeys | None = None,
        loop: asyncio.AbstractEventLoop,
        observer: Observer | None = None,
        watchdog: Watchdog | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` measures durations: unlike the loop's, it advances while the loop is busy.

        `keys` are those of `server_id` and `xkey`, if the options say that the server `signs`.
        """
        self.options = broker_options
        self.identity = ServerIdentity(broker_options, server_id, xkey)
        self.loop = loop
        self.now = loop.time
        self.tick = Tick(watchdog or Watchdog(), clock)
        self.turns = Turns(loop, self.tick)
        self.departures = Departures(self)
        self.subscriptions = Subscriptions(self)
        self.commands = Commands(self)
        self.observer = observer or Observer()
        self._keys = keys
        self._callouts: Callouts | None = None
        self._ring: KeyRing | None = None  # of an OpenID Connect issuer
        self.registry = self._open_registry()
        self.authenticator = self.make_authenticator(broker_options)
        self.renewal: Renewal | None = None  # of the last reload, while it checks clients
        self.password_checks = PasswordChecks(loop)
        self.connections: dict[int, Connection] = {}
        self.closed: deque[ClosedConnection] = deque(
            maxlen=broker_options.max_closed_clients or _DEFAULT_CLOSED
        )
        self.accounts: dict[str, Account] = {}
        self.built_in_mappings: dict[str, tuple[options.SubjectMapping, ...]] = {}  # by account
        for account in account_changes.accounts_of(broker_options).values():
            account_changes.put(self, account)
        self.imports = Imports(self)
        self.traces = MessageTraces(self)
        self.totals = ConnectionTotals()
        self._lingering: dict[int, Any] = {}  # transports of closed connections, still writing
        self._all_gone = asyncio.Event()
        self._shut_down = False
        self.lame_duck = False
        self._last_cid = _FIRST_CID - 1
        self.leafs = self._make_leafs()
        self._flush_planned = False

    def reload_links(self, leaf: options.LeafOptions) -> None:
        """Follow changed options of leaf links, which may be the first."""
        if self.leafs is None:
            self.leafs = self._make_leafs()
            if self.leafs is not None:
                self.leafs.start()
        else:
            self.leafs.reload(leaf)

    def _make_leafs(self) -> Leafs | None:
        if self.options.leaf is None:
            return None
        from millstream.broker.leaf.leafs import Leafs

        return Leafs(self, self.options.leaf)

    # -- accounts ---------------------------------------------------------------------------------

    def _open_registry(self) -> Registry | None:
        trust = self.options.trust
        if trust is None or trust.resolver is None:
            return None
        from millstream.broker.operator.registry import Registry
        from millstream.broker.operator.tokens import open_tokens

        return Registry(self, trust, open_tokens(trust.resolver))

    def make_authenticator(self, broker_options: BrokerOptions) -> BrokerAuthenticator:
        """Return what checks the credentials of clients; may be called in any thread."""
        if broker_options.trust is None:
            if broker_options.authorization.oidc is not None:
                return self._open_door(broker_options, broker_options.authorization.oidc)
            if broker_options.authorization.callout is None:
                return ClientAuthenticator(broker_options)
            from millstream.broker.callout import CalloutAuthenticator

            return CalloutAuthenticator(broker_options, self._ask)
        from millstream.broker.operator.authenticator import OperatorAuthenticator

        accounts = self.registry.accounts if self.registry is not None else {}
        return OperatorAuthenticator(broker_options.trust, accounts, self._ask)

    def _open_door(self, broker_options: BrokerOptions, issuer: options.OidcOptions) -> BrokerAuthenticator:
        """Return what checks the tokens of an issuer; its keys are kept while its options stay the same."""
        from millstream.broker.oidc.authenticator import OidcAuthenticator
        from millstream.broker.oidc.key_ring import KeyRing

        if self._ring is None or self._ring.options != issuer or issuer.jwks_file:
            self._ring = KeyRing(self, issuer)
        return OidcAuthenticator(broker_options, self._ring, self.turns)

    def _ask(self, rules: CalloutRules, login: Login, done: Decided) -> None:
        """Ask the service of an auth callout about a login."""
        if self._callouts is None:
            from millstream.base.server_keys import ServerKeys
            from millstream.broker.callout import Callouts

            self._callouts = Callouts(self, self._keys or ServerKeys())
        self._callouts.ask(rules, login, done)

    def put_account(self, account: options.AccountOptions) -> Account:
        """Apply the options of one account, which may be new; its clients are not checked."""
        running = account_changes.put(self, account)
        self.imports.wire_account(running)
        return running

    def drop_account(self, name: str) -> Account | None:
        """Forget an account that nobody may use any more; the caller closes its clients."""
        running = self.accounts.pop(name, None)
        if running is not None:
            self.imports.forget(running)
        return running

    def renew_some(
        self, connections: list[Connection], check: Callable[[Connection], None], *, rewires: bool
    ) -> None:
        """Check these clients in slices, each at the latest before it sends or gets anything."""
        from millstream.broker.reload import Renewal

        if self.renewal is not None:
            self.renewal.add(connections, check, rewires=rewires)
            return
        self.renewal = Renewal(self)
        self.renewal.add(connections, check, rewires=rewires)
        self.turns.in_slices("checking clients", self.renewal.run())

    def when_renewed(self, callback: Callable[[], None]) -> None:
        """Call back when no client is left to be checked, perhaps at once."""
        if self.renewal is None:
            callback()
        else:
            self.renewal.when_done(callback)

    @property
    def global_account(self) -> Account:
        return self.accounts[options.GLOBAL_ACCOUNT]

    @property
    def system_account(self) -> Account | None:
        return self.accounts.get(self.options.system_account)

    # -- connections ------------------------------------------------------------------------------

    def new_connection(
        self,
        kind: ConnectionType = ConnectionType.STANDARD,
        cookies: ConnectOptions | None = None,
        forwarded_ip: str = "",
    ) -> Connection:
        """Return a connection that waits for its transport."""
        if kind is ConnectionType.LEAFNODE and self.leafs is not None:
            return self.leafs.accept()
        parser = Parser(self.options.max_control_line, self.options.max_payload)
        connection = Connection(self, self.tick, parser, self.next_cid(), self.global_account)
        connection.session = ClientSession(
            ip=forwarded_ip,
            port=0,
            kind=kind,
            started_ns=time.time_ns(),
            started=self.now(),
            cookies=cookies,
            nonce=nonce().encode() if self.authenticator.needs_nonce else b"",
        )
        connection.last_activity = self.now()
        connection.backpressure = Backpressure(connection)
        connection.keepalive = Keepalive(connection, self.ping_interval_s(kind), self.options.ping_max)
        handshake.apply_limits(self, connection)
        handshake.choose_path(self, connection)
        connection.parser.connect_first = self.authenticator.required_for(kind)
        return connection

    def next_cid(self) -> int:
        """Return the number of a new connection."""
        self._last_cid += 1
        return self._last_cid

    def ping_interval_s(self, kind: ConnectionType) -> float:
        websocket = self.options.websocket
        if kind is ConnectionType.WEBSOCKET and websocket is not None and websocket.ping_interval_s:
            return websocket.ping_interval_s
        return self.options.ping_interval_s

    def greeting(self, connection: Connection, peer: tuple[Any, ...] | None) -> bytes:
        """Return the first INFO, for a peer whose address is now known."""
        if connection.is_link():
            return self.leafs.greeting(connection, None)  # type: ignore[union-attr,arg-type]
        session = connection.session
        if peer:
            session.ip = session.ip or peer[0].removeprefix("::ffff:")
            session.port = peer[1]
        return handshake.first_info(self, connection)

    def _has_too_many(self, transport: asyncio.Transport) -> bool:
        most = self.options.max_connections
        return most < 0 or 0 < most <= len(self.connections) or uses_kept(transport)

    def stops(self) -> bool:
        """Return True if new connections are refused, because the server stops."""
        return self.lame_duck or self._shut_down

    def connection_made(self, connection: Connection) -> None:
        """Start a connection whose transport is ready (and encrypted, if required)."""
        if connection.is_link():
            self.leafs.connection_made(connection)  # type: ignore[union-attr,arg-type]
            return
        session = connection.session
        transport = connection.transport
        # Not 0: uvloop's TLS transport compares with `>=` and would call an empty buffer full.
        transport.set_write_buffer_limits(high=1, low=0)
        self.totals.connections += 1
        greeting = self.greeting(connection, transport.get_extra_info("peername"))
        self._note_tls(session, transport)
        connection.half_closes = session.kind is ConnectionType.STANDARD and not session.tls_version
        if not self.is_pinned(session):
            _log.error("%s - TLS handshake error: certificate not pinned", connection)
            self.close(connection, CloseReason.TLS_HANDSHAKE_FAILURE)
            return
        if not session.greeted:
            connection.send(greeting)
        if self._has_too_many(transport):
            self.close(connection, CloseReason.MAX_CONNECTIONS_EXCEEDED, errors.MAX_CONNECTIONS)
            return
        if self.stops():
            self.close(connection, CloseReason.SERVER_SHUTDOWN)
            return
        self.connections[connection.cid] = connection
        if self.authenticator.required_for(session.kind):
            session.auth_timer = self.turns.later(
                handshake.auth_timeout_s(self, session.kind), handshake.auth_timed_out, self, connection
            )
        else:
            connection.account.add(connection)
        connection.keepalive.start()
        _log.debug("%s - Client connection created", connection)

    def read_bodies(self, connection: Connection) -> None:
        """Read the large body that has begun straight into the parser; see ``body_reader``."""
        if not connection.closed:
            read_bodies(connection)

    def never_connected(self, connection: Connection, reason: CloseReason) -> None:
        """Forget an accepted socket that never became a connection."""
        connection.closed = True
        self.forget(connection, reason)

    def _note_tls(self, session: ClientSession, transport: Any) -> None:
        """Record the TLS version, cipher and certificate."""
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is None:
            return
        session.tls_version = (ssl_object.version() or "").removeprefix("TLSv")
        cipher = ssl_object.cipher()
        session.tls_cipher = cipher[0] if cipher else ""
        session.peer_certificate = ssl_object.getpeercert(binary_form=True)

    def is_pinned(self, session: ClientSession) -> bool:
        """Return True if the listener has no pinned certificates, or the client's is one of them."""
        if not session.tls_version:
            return True
        websocket = self.options.websocket
        tls = websocket.tls if websocket and session.kind is ConnectionType.WEBSOCKET else self.options.tls
        return tls is None or pins_allow(tls.pinned_certs, session.peer_certificate)

    def connection_lost(self, connection: Connection, error: Exception | None) -> None:
        self._lingering.pop(connection.cid, None)
        if not self._lingering:
            self._all_gone.set()
        if connection.closed:
            return
        connection.closed = True
        reason = CloseReason.CLIENT_CLOSED if error is None else CloseReason.READ_ERROR
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            reason = CloseReason.CLIENT_CLOSED
        self.departures.lose(connection, reason)

    def part(self, connection: Connection) -> None:
        """End a connection whose peer has hung up; pending output is sent."""
        transport = connection.transport
        transport.close()
        if transport.get_write_buffer_size():
            self._linger(connection)
        self.forget(connection, CloseReason.CLIENT_CLOSED)

    def close(
        self,
        connection: Connection,
        reason: CloseReason,
        error: bytes | None = None,
        *,
        flush: bool = True,
    ) -> None:
        """End a connection, with an error if given; without flush, drop its backlog."""
        if connection.closed:
            return
        if error is not None:
            connection.send(b"-ERR '%b'\r\n" % error)
        if flush:
            connection.stop()
            if connection.session.reason is not None:
                return  # writing its last words made it a slow consumer, and ended it
            close_transport = getattr(connection.transport, "close_with", None)
            if close_transport is not None:  # a web socket can say why
                close_transport(reason.value)
            else:
                connection.transport.close()
            self._linger(connection)
        else:
            connection.closed = True
            connection.transport.abort()
        self.forget(connection, reason)

    def _linger(self, connection: Connection) -> None:
        """Abort a transport after a while, if its peer does not read the rest of its output."""
        transport = connection.transport
        self._lingering[connection.cid] = transport
        self._all_gone.clear()
        self.turns.later(_LINGER_S, transport.abort)

    def forget(self, connection: Connection, reason: CloseReason) -> None:
        """Remove a closed connection from everything that refers to it."""
        if connection.is_link():
            self.leafs.forget(connection, reason)  # type: ignore[union-attr,arg-type]
            return
        session = connection.session
        session.reason = reason
        session.stop_auth_timer()
        closed = ClosedConnection.of(connection, time.time_ns())
        if len(self.closed) == self.closed.maxlen:
            self.departures.drop_records(self.closed.popleft().ended)
        self.closed.append(closed)
        guard.alone("ending subscriptions", self.departures.leave, connection, closed.ended)
        connection.account.discard(connection)
        if self.connections.pop(connection.cid, None) is not None:
            self.totals.add_past(connection)
        _log.debug("%s - Client connection closed: %s", connection, reason.value)
        guard.alone("telling of a disconnect", self.observer.client_disconnected, connection, reason)
        connection.keepalive.end()
        connection.backpressure.end()

    def renew(self, connection: Connection) -> None:
        """Check a client that is outdated (see ``reload``), before it sends or gets anything else."""
        if self.renewal is not None:
            self.renewal.renew(connection)

    def fail(self, connection: Connection, place: str, error: Exception) -> None:
        """Report a defect with a client and close it: its state is unknown."""
        guard.report(place, error)
        if not guard.alone("closing a connection", self.close, connection, CloseReason.INTERNAL_ERROR):
            connection.closed = True
            guard.alone("closing a connection", connection.transport.abort)
            guard.alone("closing a connection", self.forget, connection, CloseReason.INTERNAL_ERROR)

    async def close_all(self, reason: CloseReason, grace_s: float) -> None:
        """Close every connection for good; within limits, send what was queued for them."""
        self._shut_down = True  # a socket accepted just now becomes a connection after this
        self.password_checks.close()
        if self.registry is not None:
            self.registry.close()
        if self._ring is not None:
            self._ring.close()
        connections = list(self.connections.values())
        if self.leafs is not None:
            await self.leafs.stop()
            connections += self.leafs.all()
        for connection in connections:
            guard.alone("closing a connection", self.close, connection, reason)
        if self._lingering:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), grace_s)
        for transport in list(self._lingering.values()):
            guard.alone("closing a connection", transport.abort)
        await asyncio.sleep(0)  # transports tell of their end in the next round
        self._clear()

    def _clear(self) -> None:
        """Break the cycles that the garbage collector does not see; see ``base.untracked``."""
        self.departures.finish()
        self.turns.drop_slices()
        for account in self.accounts.values():
            account.space.clear()
        for closed in self.closed:
            closed.ending.clear()

    # -- programs in this process -----------------------------------------------------------------

    def subscribe(
        self,
        account: Account,
        subject: bytes,
        callback: Callable[[InternalMessage], None],
        queue: bytes | None = None,
    ) -> Subscription:
        """Call `callback` for every message on `subject` in `account`."""
        subscription = Subscription(CallbackSubscriber(callback), subject, queue, b"")
        account.space.subscribe(subscription)
        return subscription

    def serve(
        self,
        account: Account,
        subject: bytes,
        callback: Callable[[InternalMessage], None],
        queue: bytes | None = None,
    ) -> Subscription:
        """Call `callback` for every request on `subject`; ``ServiceSubscriber`` defines what a request is."""
        subscription = Subscription(ServiceSubscriber(callback), subject, queue, b"")
        account.space.subscribe(subscription)
        return subscription

    def unsubscribe(self, account: Account, subscription: Subscription) -> None:
        subscription.closed = True
        account.space.unsubscribe(subscription)

    def publish(
        self,
        account: Account,
        subject: bytes,
        payload: bytes,
        *,
        reply: bytes = b"",
        headers: bytes | None = None,
        source: Subscriber | None = None,
    ) -> int:
        """Deliver a message of our own now; receivers write when the current work is done.

        With ``OURSELVES`` as its `source` it is a request, which the server's own services get.  The check of
        subjects (see ``router``) applies to `reply` too, which is part of the same line.
        """
        if reply and not is_one_word(reply):
            account.space.refuse(reply)
            return 0
        if len(payload) >= LONG and source is None:
            return self.publish_parts(account, subject, [payload], reply=reply, headers=headers)
        return self._publish_copy(account, subject, payload, reply, headers, source)

    def publish_parts(
        self,
        account: Account,
        subject: bytes,
        parts: list[bytes],
        *,
        reply: bytes = b"",
        headers: bytes | None = None,
    ) -> int:
        """Deliver a message of our own like ``publish``; a long one without a copy where that is possible."""
        size = sum(map(len, parts))
        if size >= LONG:
            space = account.space
            taken = space.deliver_parts(space.route(subject), reply, headers or b"", parts, size)
            if taken >= 0:
                return taken
        return self._publish_copy(account, subject, b"".join(parts), reply, headers, None)

    def _publish_copy(
        self,
        account: Account,
        subject: bytes,
        payload: bytes,
        reply: bytes,
        headers: bytes | None,
        source: Subscriber | None,
    ) -> int:
        space, frame = account.space, make_frame(reply, headers, payload)
        if source is None and subject not in space.routes and is_one_word(subject):
            taken = space.deliver_reply(subject, frame)  # most are replies, whose subjects are used once
        else:
            taken = space.deliver(space.route(subject), frame, source)
        if taken:
            self.flush_soon()
        return taken

    def may_request(self, account: Account, permissions: options.Permissions | None, subject: bytes) -> bool:
        """Return True if a client of this account reaches `subject` by publishing to it.

        As for a client's message, the account's mappings apply first, and permissions to their result.
        """
        mapping = account.space.mapping
        if mapping is not None and mapping(subject) != subject:
            return False
        return permissions is None or PermissionSet(permissions).may_publish(subject, self.now())

    def has_interest(self, account: Account, subject: bytes) -> bool:
        return account.space.route(subject).receivers() > 0

    def flush_soon(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self.turns.soon(self._flushed)

    def _flushed(self) -> None:
        self._flush_planned = False  # the turn itself writes

    def broadcast(self, make_line: Callable[[Connection], bytes], to: Iterable[Connection]) -> None:
        """Send a protocol line to each of several clients."""
        for connection in to:
            guard.alone("sending to many", lambda each=connection: each.send(make_line(each)))
        self.tick.flush()
