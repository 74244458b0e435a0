"""Subscribe to the requests that the server answers itself: documents, commands and user information.

In the system account operators and tools use them; every other account can ask about itself.

    $SYS.REQ.SERVER.PING              statistics of every server (there is one)
    $SYS.REQ.SERVER.PING.<document>   a document of every server
    $SYS.REQ.SERVER.<id>.<document>   … of this one;  RELOAD, KICK and LDM are commands
    $SYS.REQ.ACCOUNT.<name>.<doc>     a document about an account
    $SYS.REQ.ACCOUNT.PING.<doc>       … about all accounts, or in other accounts about one's own
    $SYS.REQ.USER.INFO                the requesting user, in any account
    $MILLSTREAM.INSIGHT.>             more than nats-server tells, in accounts (``insight``)

A request is answered after the read that brought it, never during a delivery, because some handlers close
connections or change accounts.  An invalid request gets an error; one for another server gets no response.
The handlers are in ``answers``, which is imported with the first request, for a faster start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.internal import InternalMessage
    from millstream.broker.operator.registry import Registry
    from millstream.broker.routes import Subscription
    from millstream.server.server import Server
    from millstream.server.system.answers import SystemAnswers
    from millstream.server.system.outbox import Outbox

# The names of the documents; ``documents`` builds them.
SERVER_DOCUMENTS: Final = (
    "VARZ",
    "CONNZ",
    "SUBSZ",
    "ROUTEZ",
    "GATEWAYZ",
    "LEAFZ",
    "ACCOUNTZ",
    "JSZ",
    "HEALTHZ",
)
ACCOUNT_DOCUMENTS: Final = ("CONNZ", "SUBSZ", "LEAFZ", "JSZ", "INFO", "STATZ")

# Answers a request; the last argument is the account it came from.
Handler = Callable[["SystemAnswers", "InternalMessage", "Account"], None]


class SystemRequests:
    """Subscribes to system requests and passes them to their handlers."""

    def __init__(self, server: Server, outbox: Outbox) -> None:
        self._server = server
        self._broker = server.broker
        self._outbox = outbox
        self._listening: dict[Account, list[Subscription]] = {}
        self._answers: SystemAnswers | None = None

    def listen(self) -> Pieces[None]:
        """Subscribe in every existing account, and end the subscriptions in those that are gone."""
        known = set(self._broker.accounts.values())
        for account in [each for each in self._listening if each not in known]:
            self._stop_listening_in(account)
            yield 1
        for account in known:
            self.listen_in(account)
            yield 1

    def listen_in(self, account: Account) -> None:
        """Subscribe in an account, unless that was done before."""
        if account in self._listening:
            return
        self._listening[account] = []
        if account.is_system:
            self._listen_in_system_account(account)
        else:
            self._listen_in_account(account)

    def stop_listening(self) -> None:
        for account in list(self._listening):
            self._stop_listening_in(account)

    def _stop_listening_in(self, account: Account) -> None:
        for subscription in self._listening.pop(account):
            self._broker.unsubscribe(account, subscription)

    def _listen_in_system_account(self, account: Account) -> None:
        this_server = f"$SYS.REQ.SERVER.{self._broker.identity.server_id}"
        self._on(account, "$SYS.REQ.SERVER.PING", lambda answers, *asked: answers.statsz(*asked))
        for prefix in ("$SYS.REQ.SERVER.PING", this_server):
            self._on(account, f"{prefix}.STATSZ", lambda answers, *asked: answers.statsz(*asked))
            self._on(account, f"{prefix}.IDZ", lambda answers, *asked: answers.idz(*asked))
            for name in SERVER_DOCUMENTS:
                self._on(account, f"{prefix}.{name}", _about_server(name))
        self._on(account, f"{this_server}.RELOAD", lambda answers, *asked: answers.reload(*asked))
        self._on(account, f"{this_server}.KICK", lambda answers, *asked: answers.kick(*asked))
        self._on(account, f"{this_server}.LDM", lambda answers, *asked: answers.send_away(*asked))
        for name in ACCOUNT_DOCUMENTS:
            self._on(account, f"$SYS.REQ.ACCOUNT.*.{name}", _about_named_account(name))
        self._on(
            account, "$SYS.REQ.ACCOUNT.*.CONNS", lambda answers, *asked: answers.account_connections(*asked)
        )
        self._on(account, "$SYS.REQ.USER.INFO", lambda answers, *asked: answers.user_info(*asked))
        self._on(account, "$SYS.DEBUG.SUBSCRIBERS", lambda answers, *asked: answers.subscribers(*asked))

        if self._broker.registry is not None:
            self._listen_for_claims(account, self._broker.registry)

    def _listen_for_claims(self, account: Account, registry: Registry) -> None:
        from millstream.server.system.claims import ClaimsRequests

        requests = ClaimsRequests(self._broker, registry, self._outbox)
        handlers = {
            "$SYS.ACCOUNT.*.CLAIMS.UPDATE": requests.update_named,
            "$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE": requests.update_named,
        }
        if registry.tokens.folder:
            handlers |= {
                "$SYS.REQ.CLAIMS.UPDATE": requests.update,
                "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP": requests.look_up,
                "$SYS.REQ.CLAIMS.LIST": requests.list_names,
                "$SYS.REQ.CLAIMS.PACK": requests.pack,
                "$SYS.REQ.CLAIMS.DELETE": requests.delete,
            }
        for subject, handle in handlers.items():
            self._on(account, subject, lambda _, *asked, handle=handle: handle(*asked))

    def _listen_in_account(self, account: Account) -> None:
        for subject, name in (
            ("$SYS.REQ.ACCOUNT.PING.CONNZ", "CONNZ"),
            ("$SYS.REQ.SERVER.PING.CONNZ", "CONNZ"),
            ("$SYS.REQ.ACCOUNT.PING.STATZ", "STATZ"),
        ):
            self._on(account, subject, _about_own_account(name))
        self._on(account, "$MILLSTREAM.INSIGHT.>", lambda answers, *asked: answers.insight(*asked))
        self._on(account, "$SYS.REQ.USER.INFO", lambda answers, *asked: answers.user_info(*asked))

    def _on(self, account: Account, subject: str, handler: Handler) -> None:
        def arrived(message: InternalMessage) -> None:
            self._broker.turns.soon(self._handle, handler, message, account)

        self._listening[account].append(self._broker.serve(account, subject.encode(), arrived))

    def _handle(self, handler: Handler, message: InternalMessage, account: Account) -> None:
        if not self._listening:
            return
        if self._answers is None:
            from millstream.server.system.answers import SystemAnswers

            self._answers = SystemAnswers(self._server, self._outbox, lambda: bool(self._listening))
        self._answers.handle(handler, message, account)


def _about_server(name: str) -> Handler:
    return lambda answers, message, account: answers.about_server(name, message, account)


def _about_named_account(name: str) -> Handler:
    return lambda answers, message, account: answers.about_named_account(name, message, account)


def _about_own_account(name: str) -> Handler:
    return lambda answers, message, account: answers.about_own_account(name, message, account)
