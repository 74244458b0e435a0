"""Requests that the server answers itself: documents about it, commands to it, and who am I.

In the system account they are asked by operators and tools; every other account can ask about itself.

    $SYS.REQ.SERVER.PING              statistics of every server (there is one)
    $SYS.REQ.SERVER.PING.<document>   a document of every server
    $SYS.REQ.SERVER.<id>.<document>   … of this one;  RELOAD, KICK and LDM are commands
    $SYS.REQ.ACCOUNT.<name>.<doc>     a document about an account
    $SYS.REQ.ACCOUNT.PING.<doc>       … about all accounts, or in other accounts about one's own
    $SYS.REQ.USER.INFO                who am I, in any account

A request is answered after the read that brought it, never in the middle of a delivery, because
some answers close connections or change accounts.  A request that makes no sense gets an error; one
that is meant for another server gets nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base import guard
from millstream.base.errors import MillstreamError
from millstream.base.ids import nuid
from millstream.base.slices import Pieces
from millstream.broker import handshake
from millstream.broker.close_reason import CloseReason
from millstream.broker.connection import Connection
from millstream.broker.lanes import Unwanted
from millstream.server.monitor.queries import BadRequest
from millstream.server.monitor.totals import account_traffic
from millstream.server.reload import reload_configuration
from millstream.server.system_documents import ACCOUNT_DOCUMENTS, SERVER_DOCUMENTS, Document, NoAnswer
from millstream.server.system_messages import (
    AccountConnections,
    ApiError,
    Response,
    ServerInfo,
    account_connections,
)
from millstream.server.system_options import NoOptions, decode
from millstream.server.system_outbox import encoded
from millstream.server.system_statsz import statsz
from millstream.server.system_users import count_subscribers, user_info

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.internal import Message
    from millstream.broker.router import Subscription
    from millstream.server.server import Server
    from millstream.server.system_outbox import Outbox

_log = logging.getLogger("millstream.server")

_ACCOUNT_TOKEN: Final = 3  # of $SYS.REQ.ACCOUNT.<name>.<document>
_OPTIONS: Final = "EventOptions"  # how the names of options end
_BAD_REQUEST: Final = 400
_FAILED: Final = 500

Handler = Callable[["Message", "Account"], None]  # a request, and the account it was asked in


class ClientRequest(msgspec.Struct, frozen=True):
    """The body of KICK and LDM."""

    cid: int = 0


class AccountRequest(msgspec.Struct, frozen=True):
    """The body of CONNS; the account is named in the subject too."""

    acc: str = ""


class SystemRequests:
    """Listens for requests and answers them."""

    def __init__(self, server: Server, outbox: Outbox) -> None:
        self._server = server
        self._broker = server.broker
        self._outbox = outbox
        self._listening: list[tuple[Account, Subscription]] = []

    # -- what is listened to ----------------------------------------------------------------------

    def listen(self) -> None:
        """Subscribe in every account that there is now."""
        self.stop_listening()
        for account in self._broker.accounts.values():
            if account.is_system:
                self._listen_in_system_account(account)
            else:
                self._listen_in_account(account)

    def stop_listening(self) -> None:
        for account, subscription in self._listening:
            self._broker.unsubscribe(account, subscription)
        self._listening.clear()

    def _listen_in_system_account(self, account: Account) -> None:
        this_server = f"$SYS.REQ.SERVER.{self._broker.server_id}"
        self._on(account, "$SYS.REQ.SERVER.PING", self._statsz)
        for prefix in ("$SYS.REQ.SERVER.PING", this_server):
            self._on(account, f"{prefix}.STATSZ", self._statsz)
            self._on(account, f"{prefix}.IDZ", self._idz)
            for name, document in SERVER_DOCUMENTS.items():
                self._on(account, f"{prefix}.{name}", self._about_server(document))
        self._on(account, f"{this_server}.RELOAD", self._reload)
        self._on(account, f"{this_server}.KICK", self._to_client(self._kick))
        self._on(account, f"{this_server}.LDM", self._to_client(self._send_away))
        for name, document in ACCOUNT_DOCUMENTS.items():
            self._on(account, f"$SYS.REQ.ACCOUNT.*.{name}", self._about_named_account(name, document))
        self._on(account, "$SYS.REQ.ACCOUNT.*.CONNS", self._connections)
        self._on(account, "$SYS.REQ.USER.INFO", self._user_info)
        self._on(account, "$SYS.DEBUG.SUBSCRIBERS", self._subscribers)

    def _listen_in_account(self, account: Account) -> None:
        for subject, name in (
            ("$SYS.REQ.ACCOUNT.PING.CONNZ", "CONNZ"),
            ("$SYS.REQ.SERVER.PING.CONNZ", "CONNZ"),
            ("$SYS.REQ.ACCOUNT.PING.STATZ", "STATZ"),
        ):
            self._on(account, subject, self._about_own_account(ACCOUNT_DOCUMENTS[name]))
        self._on(account, "$SYS.REQ.USER.INFO", self._user_info)

    def _on(self, account: Account, subject: str, handler: Handler) -> None:
        def arrived(message: Message) -> None:
            self._broker.turns.soon(self._handle, handler, message, account)

        self._listening.append((account, self._broker.serve(account, subject.encode(), arrived)))

    def _handle(self, handler: Handler, message: Message, account: Account) -> None:
        if not self._listening:
            return
        try:
            handler(message, account)
        except Exception as error:
            self._fail(message, account, error)

    def _fail(self, message: Message, account: Account, error: Exception) -> None:
        guard.report(f"the system request {message.subject!r}", error)
        if message.reply:
            self._refuse(message, account, _FAILED, MillstreamError("internal error"), data=None)

    # -- documents --------------------------------------------------------------------------------

    def _about_server(self, document: Document) -> Handler:
        return lambda message, account: self._answer(message, account, document, "")

    def _about_own_account(self, document: Document) -> Handler:
        return lambda message, account: self._answer(message, account, document, account.name)

    def _about_named_account(self, name: str, document: Document) -> Handler:
        def handle(message: Message, account: Account) -> None:
            about = message.subject.split(b".")[_ACCOUNT_TOKEN].decode(errors="replace")
            if name == "STATZ" and about == "PING":
                about = ""  # of all accounts
            self._answer(message, account, document, about)

        return handle

    def _answer(self, message: Message, account: Account, document: Document, about: str) -> None:
        if not message.reply:
            return
        try:
            options, filters = decode(message.payload, document.owner, document.options)
        except BadRequest as error:
            self._refuse(message, account, _BAD_REQUEST, error)
            return
        if not filters.accept(self._broker):
            return
        encoding = _accepted_encoding(message.headers)
        reply = message.reply

        def answered(payload: bytes | None, error: Exception | None) -> None:
            if payload is not None:
                self._outbox.send(account, reply, payload, encoding)
            elif isinstance(error, NoAnswer | Unwanted):
                return
            elif isinstance(error, MillstreamError):
                self._refuse(message, account, _FAILED, error, data=None)
            elif error is not None:
                self._fail(message, account, error)

        self._outbox.in_slices(
            f"system {document.owner.removesuffix(_OPTIONS).upper()}",
            self._response(document.build(self._server, options, about), encoding),
            answered,
            lambda: bool(self._listening) and self._outbox.is_heard(account, reply),
        )

    def _response(self, document: Pieces[Any], encoding: str) -> Pieces[bytes]:
        data = yield from document
        return (yield from encoded(Response(server=self._outbox.server_info(), data=data), encoding))

    def _refuse(self, message: Message, account: Account, code: int, error: Exception, **fields: Any) -> None:
        told = ApiError(code=code, description=str(error))
        response = Response(server=self._outbox.server_info(), error=told, **fields)
        self._outbox.answer(account, message.reply, response)

    def _statsz(self, message: Message, account: Account) -> None:
        """Without a reply subject the answer goes where heartbeats go."""
        subject = message.reply or b"$SYS.SERVER.%b.STATSZ" % self._broker.server_id.encode()
        try:
            _, filters = decode(message.payload, "StatszEventOptions", NoOptions)
        except BadRequest as error:
            if message.reply:
                self._refuse(message, account, _BAD_REQUEST, error)
            return
        if filters.accept(self._broker):
            self._outbox.announce_in_slices("system STATSZ", account, subject, statsz(self._server))

    def _idz(self, message: Message, account: Account) -> None:
        if message.reply:
            self._outbox.answer(account, message.reply, self._outbox.server_id())

    def _connections(self, message: Message, account: Account) -> None:
        """How many connections an account has, in the form of the event; nothing if it has none."""
        name = message.subject.split(b".")[_ACCOUNT_TOKEN].decode(errors="replace")
        try:
            request, _ = decode(message.payload, "AccountRequest", AccountRequest)
        except BadRequest as error:
            _log.error("System request for the connections of an account: %s", error)
            return
        about = self._broker.accounts.get(name)
        if not message.reply or about is None or not about.connections or request.acc not in ("", name):
            return
        self._outbox.announce_in_slices("system CONNS", account, message.reply, _counted(about))

    def _user_info(self, message: Message, account: Account) -> None:
        if message.reply:
            asker = message.source if isinstance(message.source, Connection) else None
            response = Response(server=self._outbox.server_info(), data=user_info(asker, account))
            self._outbox.answer(account, message.reply, response)

    def _subscribers(self, message: Message, account: Account) -> None:
        if message.reply:
            # Reached through an import, it is about the account of whoever asked.
            asker = message.source
            about = asker.account if isinstance(asker, Connection) else account
            self._outbox.in_slices(
                "system SUBSCRIBERS",
                count_subscribers(about, message.payload),
                lambda count, _: self._outbox.answer(account, message.reply, count),
            )

    # -- commands ---------------------------------------------------------------------------------

    def _command(self, message: Message, account: Account, act: Callable[[], object]) -> None:
        if not message.reply:
            return
        try:
            _, filters = decode(message.payload, "EventFilterOptions", NoOptions)
        except BadRequest as error:
            self._refuse(message, account, _BAD_REQUEST, error)
            return
        if not filters.accept(self._broker):
            return
        try:
            act()
        except MillstreamError as error:
            self._refuse(message, account, _FAILED, error)
            return
        self._outbox.answer(account, message.reply, Response(server=self._outbox.server_info()))

    def _reload(self, message: Message, account: Account) -> None:
        self._command(message, account, lambda: reload_configuration(self._server))

    def _to_client(self, act: Callable[[int], None]) -> Handler:
        def handle(message: Message, account: Account) -> None:
            try:
                request, _ = decode(message.payload or b" ", "ClientRequest", ClientRequest)
            except BadRequest as error:
                _log.error("System request to close or warn a client: %s", error)
                return
            self._command(message, account, lambda: act(request.cid))

        return handle

    def _kick(self, cid: int) -> None:
        connection = self._broker.connections.get(cid)
        if connection is None:
            raise BadRequest("no such client or leafnode id")
        self._broker.close(connection, CloseReason.KICKED)

    def _send_away(self, cid: int) -> None:
        """Tell one client what lame duck mode tells all."""
        connection = self._broker.connections.get(cid)
        if connection is None:
            raise BadRequest("no such client id")
        session = connection.session
        if session.connect.protocol < 1 or not session.pong_sent:
            raise BadRequest(
                "client does not support Lame Duck Mode or is not ready to receive the notification"
            )
        self._broker.broadcast(
            lambda each: handshake.update_info(self._broker, each, lame_duck=True), [connection]
        )


def _counted(account: Account) -> Pieces[Callable[[ServerInfo], AccountConnections]]:
    traffic = yield from account_traffic(account)
    return lambda info: account_connections(info, account, traffic, nuid())


def _accepted_encoding(headers: bytes) -> str:
    """What the asker would like an answer to be compressed with, in small letters."""
    for line in headers.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and name == b"Accept-Encoding":
            return value.strip().decode(errors="replace").lower()
    return ""
