"""Answer system requests: documents about the server, commands, and user information.

``requests`` subscribes to the subjects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base import guard
from millstream.base.errors import MillstreamError
from millstream.base.ids import nuid
from millstream.base.lanes import Unwanted
from millstream.base.slices import Pieces
from millstream.broker import handshake
from millstream.broker.close_reason import CloseReason
from millstream.broker.connection import Connection
from millstream.server.monitor.queries import BadQuery
from millstream.server.monitor.totals import account_traffic
from millstream.server.system.documents import ACCOUNT_DOCUMENTS, SERVER_DOCUMENTS, Document, NoAnswer
from millstream.server.system.messages import (
    AccountConnections,
    ErrorDocument,
    ResponseDocument,
    ServerDocument,
    account_connections,
)
from millstream.server.system.options import NoOptions, decode
from millstream.server.system.outbox import encoded
from millstream.server.system.statsz import statsz
from millstream.server.system.users import count_subscribers, user_info

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.internal import InternalMessage
    from millstream.server.server import Server
    from millstream.server.system.outbox import Outbox
    from millstream.server.system.requests import Handler

_log = logging.getLogger("millstream.server")

_ACCOUNT_TOKEN: Final = 3  # in $SYS.REQ.ACCOUNT.<name>.<document>
_OPTIONS: Final = "EventOptions"  # suffix of the names of options
_BAD_REQUEST: Final = 400
_FAILED: Final = 500


class KickRequest(msgspec.Struct, frozen=True):
    """The body of KICK and LDM."""

    cid: int = 0


class AccountRequest(msgspec.Struct, frozen=True):
    """The body of CONNS; the subject names the account too."""

    acc: str = ""


class SystemAnswers:
    """Answers requests, each in the account it came from."""

    def __init__(self, server: Server, outbox: Outbox, is_listening: Callable[[], bool]) -> None:
        self._server = server
        self._broker = server.broker
        self._outbox = outbox
        self._is_listening = is_listening

    def handle(self, handler: Handler, message: InternalMessage, account: Account) -> None:
        """Answer a request; an unexpected failure becomes an error response."""
        try:
            handler(self, message, account)
        except Exception as error:
            self._fail(message, account, error)

    def _fail(self, message: InternalMessage, account: Account, error: Exception) -> None:
        guard.report(f"the system request {message.subject!r}", error)
        if message.reply:
            self._refuse(message, account, _FAILED, MillstreamError("internal error"), data=None)

    # -- documents --------------------------------------------------------------------------------

    def about_server(self, name: str, message: InternalMessage, account: Account) -> None:
        self._answer(message, account, SERVER_DOCUMENTS[name], "")

    def about_own_account(self, name: str, message: InternalMessage, account: Account) -> None:
        self._answer(message, account, ACCOUNT_DOCUMENTS[name], account.name)

    def about_named_account(self, name: str, message: InternalMessage, account: Account) -> None:
        about = message.subject.split(b".")[_ACCOUNT_TOKEN].decode(errors="replace")
        if name == "STATZ" and about == "PING":
            about = ""  # about all accounts
        self._answer(message, account, ACCOUNT_DOCUMENTS[name], about)

    def _answer(self, message: InternalMessage, account: Account, document: Document, about: str) -> None:
        if not message.reply:
            return
        try:
            options, filters = decode(message.payload, document.owner, document.options)
        except BadQuery as error:
            self._refuse(message, account, _BAD_REQUEST, error)
            return
        if not filters.accept(self._broker):
            return
        encoding = _accepted_encoding(message.headers)
        reply = message.reply

        def answered(parts: list[bytes] | None, error: Exception | None) -> None:
            if parts is not None:
                self._outbox.send(account, reply, parts, encoding)
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
            lambda: self._is_listening() and self._outbox.is_heard(account, reply),
        )

    def _response(self, document: Pieces[Any], encoding: str) -> Pieces[list[bytes]]:
        data = yield from document
        return (yield from encoded(ResponseDocument(server=self._outbox.server_info(), data=data), encoding))

    def _refuse(
        self, message: InternalMessage, account: Account, code: int, error: Exception, **fields: Any
    ) -> None:
        told = ErrorDocument(code=code, description=str(error))
        response = ResponseDocument(server=self._outbox.server_info(), error=told, **fields)
        self._outbox.answer(account, message.reply, response)

    def statsz(self, message: InternalMessage, account: Account) -> None:
        """Send the statistics to the reply subject or, without one, to the subject of heartbeats."""
        subject = message.reply or b"$SYS.SERVER.%b.STATSZ" % self._broker.identity.server_id.encode()
        try:
            _, filters = decode(message.payload, "StatszEventOptions", NoOptions)
        except BadQuery as error:
            if message.reply:
                self._refuse(message, account, _BAD_REQUEST, error)
            return
        if filters.accept(self._broker):
            self._outbox.announce_in_slices("system STATSZ", account, subject, statsz(self._server))

    def idz(self, message: InternalMessage, account: Account) -> None:
        if message.reply:
            self._outbox.answer(account, message.reply, self._outbox.server_id())

    def account_connections(self, message: InternalMessage, account: Account) -> None:
        """Send the number of an account's connections, as in the event; nothing if it has none."""
        name = message.subject.split(b".")[_ACCOUNT_TOKEN].decode(errors="replace")
        try:
            request, _ = decode(message.payload, "AccountRequest", AccountRequest)
        except BadQuery as error:
            _log.error("System request for the connections of an account: %s", error)
            return
        about = self._broker.accounts.get(name)
        if not message.reply or about is None or not about.connections or request.acc not in ("", name):
            return
        self._outbox.announce_in_slices("system CONNS", account, message.reply, _counted(about))

    def user_info(self, message: InternalMessage, account: Account) -> None:
        if message.reply:
            asker = message.source if isinstance(message.source, Connection) else None
            response = ResponseDocument(server=self._outbox.server_info(), data=user_info(asker, account))
            self._outbox.answer(account, message.reply, response)

    def insight(self, message: InternalMessage, account: Account) -> None:
        """Answer what nats-server has no document for, without the envelope of its documents."""
        from millstream.server.system.insight import insight

        if not message.reply:
            return
        reply = message.reply

        def made() -> Pieces[bytes]:
            return msgspec.json.encode((yield from insight(self._server, account, message)))

        def answered(payload: bytes | None, error: Exception | None) -> None:
            if payload is not None:
                self._outbox.send(account, reply, [payload], "")
            elif error is not None and not isinstance(error, Unwanted):
                self._fail(message, account, error)

        self._outbox.in_slices(
            "insight",
            made(),
            answered,
            lambda: self._is_listening() and self._outbox.is_heard(account, reply),
        )

    def subscribers(self, message: InternalMessage, account: Account) -> None:
        if message.reply:
            # Through an import, the response is about the requester's account.
            asker = message.source
            about = asker.account if isinstance(asker, Connection) else account
            self._outbox.in_slices(
                "system SUBSCRIBERS",
                count_subscribers(about, message.payload),
                lambda count, _: self._outbox.answer(account, message.reply, count),
            )

    # -- commands ---------------------------------------------------------------------------------

    def _command(self, message: InternalMessage, account: Account, act: Callable[[], object]) -> None:
        def begin(ended: Callable[[Exception | None], None]) -> None:
            try:
                act()
            except MillstreamError as error:
                ended(error)
            else:
                ended(None)

        self._command_later(message, account, begin)

    def _command_later(
        self,
        message: InternalMessage,
        account: Account,
        begin: Callable[[Callable[[Exception | None], None]], None],
    ) -> None:
        """Begin what is asked for; answer when it has ended, perhaps later."""
        if not message.reply:
            return
        try:
            _, filters = decode(message.payload, "EventFilterOptions", NoOptions)
        except BadQuery as error:
            self._refuse(message, account, _BAD_REQUEST, error)
            return
        if filters.accept(self._broker):
            begin(lambda error: self._answer_command(message, account, error))

    def _answer_command(self, message: InternalMessage, account: Account, error: Exception | None) -> None:
        if error is not None:
            self._refuse(message, account, _FAILED, error)
        else:
            self._outbox.answer(account, message.reply, ResponseDocument(server=self._outbox.server_info()))

    def reload(self, message: InternalMessage, account: Account) -> None:
        self._command_later(message, account, self._server.reloads.begin)

    def kick(self, message: InternalMessage, account: Account) -> None:
        self._to_client(message, account, self._kick)

    def send_away(self, message: InternalMessage, account: Account) -> None:
        self._to_client(message, account, self._send_away)

    def _to_client(self, message: InternalMessage, account: Account, act: Callable[[int], None]) -> None:
        try:
            request, _ = decode(message.payload or b" ", "KickRequest", KickRequest)
        except BadQuery as error:
            _log.error("System request to close or warn a client: %s", error)
            return
        self._command(message, account, lambda: act(request.cid))

    def _kick(self, cid: int) -> None:
        connection = self._broker.connections.get(cid)
        if connection is None:
            raise BadQuery("no such client or leafnode id")
        self._broker.close(connection, CloseReason.KICKED)

    def _send_away(self, cid: int) -> None:
        """Send one client the notification that lame duck mode sends to all."""
        connection = self._broker.connections.get(cid)
        if connection is None:
            raise BadQuery("no such client id")
        session = connection.session
        if session.connect.protocol < 1 or not session.pong_sent:
            raise BadQuery(
                "client does not support Lame Duck Mode or is not ready to receive the notification"
            )
        self._broker.broadcast(
            lambda each: handshake.update_info(self._broker, each, lame_duck=True), [connection]
        )


def _counted(account: Account) -> Pieces[Callable[[ServerDocument], AccountConnections]]:
    traffic = yield from account_traffic(account)
    return lambda info: account_connections(info, account, traffic, nuid())


def _accepted_encoding(headers: bytes) -> str:
    """Return the compression that the requester accepts, in lower case."""
    for line in headers.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and name == b"Accept-Encoding":
            return value.strip().decode(errors="replace").lower()
    return ""
