"""Answer the system account's requests about the tokens of accounts, as tools such as `nsc` send them.

    $SYS.REQ.ACCOUNT.<account>.CLAIMS.UPDATE   store and use a token; also $SYS.REQ.CLAIMS.UPDATE
    $SYS.REQ.ACCOUNT.<account>.CLAIMS.LOOKUP   the token; nothing if there is none
    $SYS.REQ.CLAIMS.LIST                       the names of all accounts
    $SYS.REQ.CLAIMS.PACK                       all tokens, unless the requester has the same ones
    $SYS.REQ.CLAIMS.DELETE                     delete accounts; signed by the operator

With a resolver in memory or behind a URL there is no more than the first, which uses the token and does not
store it.  Files are written in a thread, one request after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.base.nkeys import KeyKind
from millstream.broker.operator.tokens import FolderTokens, TokenError
from millstream.broker.options import ResolverKind
from millstream.claims.decode import read_account
from millstream.claims.token import ClaimsError, is_key, read_json, read_token
from millstream.claims.types import AccountClaims
from millstream.claims.validation import account_issues

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.internal import InternalMessage
    from millstream.broker.operator.registry import Registry
    from millstream.server.system.outbox import Outbox

_log = logging.getLogger("millstream.server")

_OK: Final = 200
_FAILED: Final = 500
_MOST_WAITING: Final = 1024  # requests that change something
_AT_ONCE: Final = 64  # tokens of a pack


class _Status(msgspec.Struct, frozen=True, omit_defaults=True):
    account: str = ""
    code: int = 0
    message: str = ""


class _Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    account: str = ""
    code: int = msgspec.field(default=0)
    description: str = ""


class _Deletion(msgspec.Struct, frozen=True):
    accounts: list[str]


class ClaimsRequests:
    """Answers requests about tokens."""

    def __init__(self, broker: Broker, registry: Registry, outbox: Outbox) -> None:
        self._broker = broker
        self._registry = registry
        self._outbox = outbox
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False
        resolver = registry.trust.resolver
        self._cached = resolver is not None and resolver.kind is ResolverKind.CACHE
        self._note = " cache" if self._cached else ""

    # -- updates ----------------------------------------------------------------------------------

    def update_named(self, message: InternalMessage, account: Account) -> None:
        tokens = message.subject.split(b".")
        name = tokens[3 if tokens[1] == b"REQ" else 2].decode(errors="replace")
        self._update(message, account, name)

    def update(self, message: InternalMessage, account: Account) -> None:
        self._update(message, account, "")

    def _update(self, message: InternalMessage, account: Account, wanted: str) -> None:
        """Use a token, and store it if there is a folder.  `wanted`: the account that the subject names."""
        text = message.payload.decode(errors="replace").strip()
        failed = f"jwt update{self._note} resulted in error"
        stored = isinstance(self._registry.tokens, FolderTokens)
        if not text and not stored:
            self._refuse(message, account, wanted, "jwt update error", "request body is empty")
            return
        try:
            claims = read_account(text)
        except ClaimsError as error:
            shown = wanted if wanted and (self._cached or not stored) else "n/a"
            self._refuse(message, account, shown, failed, str(error))
            return
        name = claims.token.subject
        if problem := self._problem(claims, wanted):
            self._refuse(message, account, wanted or name, failed, problem)
        elif (self._cached or not stored) and name not in self._registry.accounts:
            self._confirm(message, account, name, f"jwt update{self._note} skipped")
        elif stored and (issues := [each for each in account_issues(claims) if not each.time_check]):
            told = f"validation errors: [{' '.join(each.description for each in issues)}]"
            what = "jwt update cache validation failed" if self._cached else "jwt validation failed"
            self._refuse(message, account, name, what, told)
        else:
            self._store(message, account, name, text, failed)

    def _problem(self, claims: AccountClaims, wanted: str) -> str:
        trust = self._registry.trust
        if wanted and claims.token.subject != wanted:
            return "subject does not match jwt content"
        if trust.strict and claims.token.issuer == trust.operator:
            return "operator requires issuer to be a signing key"
        if claims.token.issuer not in trust.keys:
            return "account validation failed: not signed by a trusted operator"
        return ""

    def _store(self, message: InternalMessage, account: Account, name: str, text: str, failed: str) -> None:
        tokens = self._registry.tokens

        def stored(error: Exception | None) -> None:
            try:
                if error is not None:
                    raise error
                if name in self._registry.accounts:
                    self._registry.put(name, text)
            except (ClaimsError, TokenError) as refusal:
                self._refuse(message, account, name, failed, str(refusal))
            else:
                told = f"jwt updated{self._note}"
                self._broker.when_renewed(partial(self._confirm, message, account, name, told))

        if isinstance(tokens, FolderTokens):
            self._in_turn(message, account, partial(tokens.store, name, text), stored)
        else:
            stored(None)

    # -- the others -------------------------------------------------------------------------------

    def look_up(self, message: InternalMessage, account: Account) -> None:
        tokens = self._registry.tokens
        if not message.reply or not isinstance(tokens, FolderTokens):
            return
        name = message.subject.split(b".")[3].decode(errors="replace")
        try:
            text = tokens.fetch(name)
        except TokenError as error:
            _log.error('DirResolver - Error looking up account "%s": %s', name, error)
            return
        self._broker.publish(account, message.reply, text.encode())

    def list_names(self, message: InternalMessage, account: Account) -> None:
        if message.reply:
            names = self._registry.tokens.names()
            self._outbox.answer(account, message.reply, {"server": self._outbox.server_info(), "data": names})

    def pack(self, message: InternalMessage, account: Account) -> None:
        """Send every token in a message of its own, and an empty message as the last one."""
        tokens = self._registry.tokens
        if not message.reply or not isinstance(tokens, FolderTokens):
            return
        if message.payload == tokens.digest():
            self._broker.publish(account, message.reply, b"")
            return
        self._broker.turns.in_slices("pack of tokens", self._send_pack(tokens, account, message.reply))

    def _send_pack(self, tokens: FolderTokens, account: Account, reply: bytes) -> Any:
        for line in tokens.pack():
            self._broker.publish(account, reply, line.encode())
            yield _AT_ONCE
        self._broker.publish(account, reply, b"")

    def delete(self, message: InternalMessage, account: Account) -> None:
        """Delete the accounts that a token of the operator lists."""
        tokens = self._registry.tokens
        if not isinstance(tokens, FolderTokens):
            return
        subject = ""
        try:
            token = read_token(message.payload.decode(errors="replace").strip())
            subject = token.subject
            names = self._deletable(token.subject, token.issuer, token.body)
        except (ClaimsError, TokenError) as error:
            self._refuse(message, account, "", f"delete accounts request by {subject} failed", str(error))
            return

        def delete() -> None:
            for name in names:
                tokens.delete(name)

        def deleted(error: Exception | None) -> None:
            gone = [name for name in names if name not in tokens.names()]
            for name in gone:
                self._registry.remove(name)
            what = f"deleted {len(gone)} accounts"
            if error is None:
                self._confirm(message, account, "", what)
            else:
                failed = f"{what}, failed for {len(names) - len(gone)}"
                self._refuse(message, account, "", failed, str(error))

        self._in_turn(message, account, delete, deleted)

    def _deletable(self, subject: str, issuer: str, body: msgspec.Raw) -> list[str]:
        resolver = self._registry.trust.resolver
        if resolver is None or not (resolver.allow_delete or self._cached):
            raise TokenError("delete must be enabled in server config")
        if subject != issuer:
            raise TokenError("not self signed")
        if issuer not in self._registry.trust.keys:
            raise TokenError("not trusted")
        try:
            names = read_json(body, _Deletion).accounts
        except ClaimsError:
            raise TokenError("malformed request") from None
        if not all(is_key(name, KeyKind.ACCOUNT) for name in names):
            raise TokenError("malformed request")
        if self._broker.options.system_account in names:
            raise TokenError("not allowed to delete system account")
        return names

    # -- answers ----------------------------------------------------------------------------------

    def _in_turn(
        self,
        message: InternalMessage,
        account: Account,
        work: Callable[[], None],
        done: Callable[[Exception | None], None],
    ) -> None:
        """Do something with files in a thread, after what was asked for before."""
        if len(self._waiting) >= _MOST_WAITING:
            self._refuse(message, account, "", "jwt update resulted in error", "too many requests wait")
            return

        def begin() -> None:
            future = self._broker.loop.run_in_executor(None, work)
            self._broker.turns.when_done(future, partial(self._ended, done))

        self._waiting.append(begin)
        self._begin_next()

    def _begin_next(self) -> None:
        if not self._busy and self._waiting:
            self._waiting.popleft()()
            self._busy = True  # unless no thread could be had

    def _ended(self, done: Callable[[Exception | None], None], future: asyncio.Future[None]) -> None:
        self._busy = False
        try:
            error = None if future.cancelled() else future.exception()
            done(error if isinstance(error, MillstreamError) or error is None else TokenError(str(error)))
        finally:
            self._begin_next()

    def _confirm(self, message: InternalMessage, account: Account, name: str, text: str) -> None:
        _log.debug("%s%s", text, f" - {name}" if name else "")
        if message.reply:
            self._answer(message, account, data=_Status(name, _OK, text))

    def _refuse(self, message: InternalMessage, account: Account, name: str, what: str, why: str) -> None:
        _log.error("%s%s - %s", what, f" - {name}" if name else "", why)
        if message.reply:
            self._answer(message, account, error=_Failure(name, _FAILED, f"{what} - {why}"))

    def _answer(self, message: InternalMessage, account: Account, **fields: object) -> None:
        self._outbox.answer(account, message.reply, {"server": self._outbox.server_info(), **fields})
