"""Publish the server's own events to the system account: clients that connect or disconnect, and heartbeats.

    $SYS.ACCOUNT.<name>.CONNECT, .DISCONNECT    a client
    $SYS.ACCOUNT.<name>.SERVER.CONNS            how many clients an account has (and the older
    $SYS.SERVER.ACCOUNT.<name>.CONNS            subject of the same)
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR            a client was refused
    $SYS.SERVER.<id>.STATSZ                     statistics, often at first, then every ten seconds
    $SYS.SERVER.<id>.LAMEDUCK, .SHUTDOWN        the server stops

An event without subscribers costs a look-up of a cached route.  Without a system account there are no events
and no answers.  Answers to requests are in ``requests``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base.ids import nuid
from millstream.base.slices import Pieces, finish
from millstream.broker.close_reason import CloseReason
from millstream.broker.observer import Observer
from millstream.broker.options import GLOBAL_ACCOUNT
from millstream.broker.totals import Traffic
from millstream.server.monitor.totals import account_traffic
from millstream.server.system.outbox import Outbox
from millstream.server.system.requests import SystemRequests

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.connection import Connection
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.message_trace import MessageTrace
    from millstream.broker.turns import Planned
    from millstream.config.reload import ReloadPlan
    from millstream.server.server import Server
    from millstream.server.system.messages import ServerDocument

_FIRST_STATSZ_S: Final = 0.25
_STATSZ_INTERVALS_S: Final = (1.0, 2.0, 4.0, 8.0, 10.0)  # the last one repeats
_ACCOUNT_INTERVAL_S: Final = 30.0  # between counts of an account without changes
_FEW_CLIENTS: Final = 256  # with at most so many, traffic is summed up for every event
_SUM_INTERVAL_S: Final = 1.0  # between sums over more clients


class SystemEvents(Observer):
    """Publishes events and answers requests of the system account, from ``start`` to ``stop``."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._broker = server.broker
        self._outbox = Outbox(server.broker)
        self._requests = SystemRequests(server, self._outbox)
        self._running = False
        self._statsz_sent = 0
        self._statsz_timer: Planned | None = None
        self._counts: dict[str, AccountCount] = {}

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to answer requests, publish events and send heartbeats."""
        if self._broker.system_account is None:
            return
        self._running = True
        finish(self._requests.listen())
        self._server.reload_listeners.append(self._reloaded)
        self._statsz_timer = self._broker.turns.later(_FIRST_STATSZ_S, self._beat)

    def stop(self) -> None:
        """Announce the shutdown, and stop publishing."""
        if not self._running:
            return
        self._announce_server("SHUTDOWN")
        self._running = False
        self._server.reload_listeners.remove(self._reloaded)
        self._requests.stop_listening()
        if self._statsz_timer is not None:
            self._statsz_timer.cancel()
        for count in self._counts.values():
            count.stop()
        self._counts.clear()

    def lame_duck(self) -> None:
        """Announce lame duck mode."""
        if self._running:
            self._announce_server("LAMEDUCK")

    def _announce_server(self, what: str) -> None:
        account = self._broker.system_account
        if account is not None:
            self._outbox.announce(account, self._server_subject(what), lambda info: info)

    def _reloaded(self, plan: ReloadPlan) -> Pieces[None]:
        """Follow changes of the accounts."""
        yield from self._requests.listen()
        for name in self._counts.keys() - self._broker.accounts.keys():
            self._counts.pop(name).stop()

    def follow_account(self, name: str) -> None:
        """Answer the requests of an account that is new."""
        account = self._broker.accounts.get(name)
        if self._running and account is not None:
            self._requests.listen_in(account)

    # -- what the broker tells --------------------------------------------------------------------

    def client_connected(self, connection: Connection) -> None:
        account = self._broker.system_account
        if not self._running or account is None:
            return
        self._count_changed(connection.account)
        self._outbox.announce(
            account,
            b"$SYS.ACCOUNT.%b.CONNECT" % connection.account.name.encode(),
            lambda info: _connect_event(info, connection),
        )

    def client_moved(self, connection: Connection, previous: Account) -> None:
        if self._running:
            self._count_changed(previous)

    def client_disconnected(self, connection: Connection, reason: CloseReason) -> None:
        account = self._broker.system_account
        if not self._running or account is None:
            return
        self._count_changed(connection.account)
        self._outbox.announce(
            account,
            b"$SYS.ACCOUNT.%b.DISCONNECT" % connection.account.name.encode(),
            lambda info: _disconnect_event(info, connection, reason),
        )

    def link_ready(self, link: LeafConnection) -> None:
        self.client_connected(link)
        self._server.jetstream.link_ready(link.account.name)

    def link_ended(self, link: LeafConnection, reason: CloseReason) -> None:
        self.client_disconnected(link, reason)

    def authentication_failed(self, connection: Connection) -> None:
        account = self._broker.system_account
        if not self._running or account is None:
            return
        self._outbox.announce(
            account,
            self._server_subject("CLIENT.AUTH.ERR"),
            lambda info: _disconnect_event(info, connection, CloseReason.AUTHENTICATION_FAILURE),
        )

    def message_traced(self, account: Account, dest: bytes, trace: MessageTrace) -> None:
        from millstream.server.system.messages import trace_message

        document = trace_message(self._outbox.server_info(), trace)
        self._outbox.answer(account, dest, document, trace.encoding)

    # -- heartbeats -------------------------------------------------------------------------------

    def _beat(self) -> None:
        delay = _STATSZ_INTERVALS_S[min(self._statsz_sent, len(_STATSZ_INTERVALS_S) - 1)]
        self._statsz_sent += 1
        self._statsz_timer = self._broker.turns.later(delay, self._beat)
        account = self._broker.system_account
        if account is not None:
            subject = self._server_subject("STATSZ")
            if self._outbox.is_heard(account, subject):
                from millstream.server.system.statsz import statsz

                self._outbox.announce_in_slices("heartbeat", account, subject, statsz(self._server))

    def _count_changed(self, account: Account) -> None:
        if account.name == GLOBAL_ACCOUNT:  # where clients are before they are authenticated
            return
        count = self._counts.get(account.name)
        if count is None:
            count = self._counts[account.name] = AccountCount(self._outbox, self._server, account)
        count.changed()

    def _server_subject(self, what: str) -> bytes:
        return f"$SYS.SERVER.{self._broker.identity.server_id}.{what}".encode()


class AccountCount:
    """Publishes how many clients an account has: at every change, and at intervals while it has some."""

    def __init__(self, outbox: Outbox, server: Server, account: Account) -> None:
        self._outbox = outbox
        self._broker = server.broker
        self._account = account
        name = account.name.encode()
        self._subjects = (b"$SYS.SERVER.ACCOUNT.%b.CONNS" % name, b"$SYS.ACCOUNT.%b.SERVER.CONNS" % name)
        self._due = 0.0
        self._timer: Planned | None = None
        self._sum = Traffic(0, 0, 0, 0)
        self._old_at = 0.0  # when the sum over many clients expires

    def changed(self) -> None:
        """Publish the count now, and again after an interval without changes."""
        self._due = self._broker.now() + _ACCOUNT_INTERVAL_S
        if self._timer is None and self._account.connections:
            self._timer = self._broker.turns.at(self._due, self._beat)
        system = self._broker.system_account
        if system is not None:
            event_id = nuid()  # the same event on two subjects
            for subject in self._subjects:
                self._outbox.announce(
                    system,
                    subject,
                    lambda info: _account_connections(info, self._account, self._traffic(), event_id),
                )
        # The timer stays and checks `_due` itself: setting it for each client would cost more.

    def _traffic(self) -> Traffic:
        """Return the traffic of the account's clients; with many, as of about a second ago."""
        if len(self._account.connections) <= _FEW_CLIENTS:
            self._summed_up(finish(account_traffic(self._account)), None)
        elif self._broker.now() >= self._old_at:
            self._old_at = self._broker.now() + _SUM_INTERVAL_S
            self._outbox.in_slices("account traffic", account_traffic(self._account), self._summed_up)
        return self._sum

    def _summed_up(self, traffic: Traffic | None, _: Exception | None) -> None:
        if traffic is not None:
            self._sum = traffic

    def _beat(self) -> None:
        self._timer = None
        if self._broker.now() < self._due:
            self._timer = self._broker.turns.at(self._due, self._beat)
        elif self._account.connections:
            self.changed()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# The module of the documents is imported for the first event with a subscriber, not at the start.


def _connect_event(info: ServerDocument, connection: Connection) -> object:
    from millstream.server.system.messages import connect_event

    return connect_event(info, connection)


def _disconnect_event(info: ServerDocument, connection: Connection, reason: CloseReason) -> object:
    from millstream.server.system.messages import disconnect_event

    return disconnect_event(info, connection, reason.value)


def _account_connections(info: ServerDocument, account: Account, traffic: Traffic, event_id: str) -> object:
    from millstream.server.system.messages import account_connections

    return account_connections(info, account, traffic, event_id)
