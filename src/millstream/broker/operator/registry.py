"""The accounts of operator mode that this server knows, and what happens when the token of one changes.

An account is looked up when the first of its users connects, or when another account imports from it.  What a
new token changes is in force at once: clients are marked as outdated and checked in slices, as after a reload
of the configuration (``broker.reload``).  Accounts that import from a changed account get new imports.

        resolver ──token──▶ put ──▶ Broker.put_account ──▶ imports, mappings, limits
                                ├─▶ Renewal             ──▶ clients of the account
                                ├─▶ importers           ──▶ the same for them
                                └─▶ listeners           ──▶ JetStream, system requests
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from millstream.base import guard
from millstream.base.ids import secret_token
from millstream.broker import reload
from millstream.broker.close_reason import CloseReason
from millstream.broker.operator.account import ClaimedAccount, bare_account, claimed_account
from millstream.broker.operator.tokens import FolderTokens, TokenError, Tokens
from millstream.broker.options import AccountQuota
from millstream.claims.decode import read_account
from millstream.claims.token import ClaimsError
from millstream.claims.types import AccountClaims, is_revoked
from millstream.claims.validation import Issue, account_issues
from millstream.protocol import errors

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.broker.internal import InternalMessage
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.options import Trust
    from millstream.broker.turns import Planned

_log = logging.getLogger("millstream.broker")

_FETCHES: Final = 16  # tokens that are fetched at a time from a URL
_MOST_LOOKUPS: Final = 256  # accounts that are being looked up; users of more are refused
_LOOKUP: Final = b"$SYS.REQ.ACCOUNT.%b.CLAIMS.LOOKUP"
_LONGEST_TIMER_S: Final = 86_400.0  # a timer for something later looks again then


class Registry:
    """Accounts by name; ``OperatorAuthenticator`` reads them."""

    def __init__(self, broker: Broker, trust: Trust, tokens: Tokens) -> None:
        self._broker = broker
        self.trust = trust
        self.tokens = tokens
        self.accounts: dict[str, ClaimedAccount] = {}
        self.listeners: list[Callable[[ClaimedAccount], None]] = []
        self._importers: dict[str, set[str]] = {}  # by exporter
        self._waiting: dict[str, list[Callable[[], object]]] = {}  # by the account that is looked up
        self._timers: dict[str, Planned] = {}
        self._threads: ThreadPoolExecutor | None = None
        self.updated_ns: dict[str, int] = {}

    def close(self) -> None:
        """Give up what is being looked up."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        for timer in self._timers.values():
            timer.cancel()

    # -- tokens -----------------------------------------------------------------------------------

    def verified(self, text: str) -> AccountClaims:
        """Return an account that may be used now; raise ClaimsError with the reason if it may not."""
        claims = read_account(text)
        if claims.token.issuer not in self.trust.keys:
            raise ClaimsError("account validation failed: not signed by a trusted operator")
        if issues := account_issues(claims):
            raise ClaimsError(f"account validation failed: {_told(issues)}")
        return claims

    def put(self, name: str, text: str) -> ClaimedAccount:
        """Use this token for an account from now on; raise ClaimsError if it may not be used."""
        known = self.accounts.get(name)
        if (
            known is not None
            and known.claims is not None
            and known.claims.token.text == text
            and not (known.wanting or known.expired())
        ):
            _log.debug("Requested account update for [%s], same claims detected", name)
            return known
        claims = self.verified(text)
        if claims.token.subject != name:
            raise ClaimsError("account validation failed: the token is that of another account")
        _log.debug("Updating account claims: %s/%s", name, claims.token.name)
        account = self._made(claims)
        self._apply(account)
        return account

    def put_bare(self, name: str) -> None:
        """Let the system account exist until its token is there."""
        self._apply(bare_account(name))

    def remove(self, name: str) -> None:
        """Lock an account out whose token was deleted: its clients are closed, and no others accepted."""
        known = self.accounts.get(name)
        if known is None:
            return
        _log.debug("Disable account %s due to remove", name)
        nobody = AccountQuota(max_connections=0, max_subscriptions=0, max_payload=0)
        options = replace(known.options, limits=nobody, imports=(), exports=())
        self._apply(replace(known, options=options, wanting=frozenset(), ends=None, removed=True))
        self._expel(name)

    def forget(self, name: str) -> None:
        """Drop an account that the resolver no longer has; its clients are closed."""
        known = self.accounts.pop(name, None)
        if known is None:
            return
        _log.info('Reloaded: deleting account [removed]: "%s"', name)
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
        gone = self._broker.drop_account(name)
        for listener in self.listeners:
            guard.alone("following an account", listener, replace(known, removed=True))
        if gone is not None:
            for connection in (*gone.connections.values(), *gone.links.values()):
                self._broker.close(connection, CloseReason.CLIENT_CLOSED)
        for importer in list(self._importers.get(name, ())):
            self._remake(importer)

    # -- looking up -------------------------------------------------------------------------------

    def look_up_now(self, name: str) -> bool:
        """Get an account's token, waiting for it, and return True if the account is known."""
        try:
            text = self.tokens.fetch(name)
        except TokenError as error:
            _log.warning("Account fetch failed: %s", error)
            return False
        return self._found(name, text)

    def look_up(self, name: str, done: Callable[[], object]) -> None:
        """Get an account's token and call `done`, perhaps at once; afterwards the account is known or not."""
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(done)
            return
        if not self.tokens.slow:
            if self.look_up_now(name):
                done()
                return
            if not isinstance(self.tokens, FolderTokens):
                done()
                return
        if len(self._waiting) >= _MOST_LOOKUPS:
            _log.warning("Account fetch failed: %d others are being looked up", _MOST_LOOKUPS)
            done()
            return
        if self.tokens.slow:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_FETCHES, "millstream-token")
            fetched = self._broker.loop.run_in_executor(self._threads, self.tokens.fetch, name)
            self._waiting[name] = [done]  # not before: without a thread there is nothing to wait for
            self._broker.turns.when_done(fetched, partial(self._fetched, name))
        else:
            self._waiting[name] = [done]
            self._ask_others(name)

    def _fetched(self, name: str, future: asyncio.Future[str]) -> None:
        try:
            text = "" if future.cancelled() else future.result()
        except TokenError as error:
            _log.warning("Account fetch failed: %s", error)
            text = ""
        self._answered(name, text)

    def _ask_others(self, name: str) -> None:
        """Ask whoever listens in the system account for a token that the folder does not have."""
        broker, system = self._broker, self._broker.system_account
        if system is None:
            self._answered(name, "")
            return
        reply = b"_INBOX." + secret_token().encode()
        ends: list[Callable[[], object]] = []

        def end(text: str) -> None:
            if not ends:
                return
            for each in ends:
                each()
            ends.clear()
            with suppress(TokenError, ClaimsError):
                if text and self.verified(text).token.subject == name:
                    self.tokens.store(name, text)
            self._answered(name, text)

        def take(message: InternalMessage) -> None:
            if message.payload:  # an empty one: that server does not have it either
                broker.turns.soon(end, message.payload.decode(errors="replace"))

        subscription = broker.subscribe(system, reply, take)
        resolver = self.trust.resolver
        timer = broker.turns.later(resolver.timeout_s if resolver is not None else 0.0, end, "")
        ends += [timer.cancel, lambda: broker.unsubscribe(system, subscription)]
        if not broker.publish(system, _LOOKUP % name.encode(), b"", reply=reply):
            end("")

    def _answered(self, name: str, text: str) -> None:
        with suppress(ClaimsError):
            self._found(name, text)
        for done in self._waiting.pop(name, ()):
            guard.alone("ending a look-up", done)

    def _found(self, name: str, text: str) -> bool:
        """Use the token that was found, if it may be used; return True if the account is known now."""
        if not text:
            _log.debug("Account JWT lookup error: account missing: %s", name)
            return False
        try:
            self.put(name, text)
        except ClaimsError as error:
            _log.warning("Account [%s]: %s", name, error)
            return False
        return True

    # -- applying ---------------------------------------------------------------------------------

    def _made(self, claims: AccountClaims) -> ClaimedAccount:
        strict = claims.token.issuer in self.trust.strict_keys
        return claimed_account(claims, strict=strict, others=self.accounts)

    def _remake(self, name: str) -> None:
        """Decide again which imports of an account work."""
        known = self.accounts.get(name)
        if known is not None and known.claims is not None and not known.removed:
            self._apply(self._made(known.claims), follow=False)

    def _apply(self, account: ClaimedAccount, *, follow: bool = True) -> None:
        name, before = account.name, self.accounts.get(account.name)
        self.accounts[name] = account
        self.updated_ns[name] = time.time_ns()
        claimed = account.claims.body.imports if account.claims is not None else ()
        for exporter in {each.account for each in claimed}:
            self._importers.setdefault(exporter, set()).add(name)
        running = self._broker.put_account(account.options)
        if (running.connections or running.links) and before is not None:
            check = _Check(self._broker, account, before)
            self._broker.renew_some(list(running.connections.values()), check.renew, rewires=True)
            for link in _accepted_links(running):
                check.check_link(link)
        self._set_timer(account)
        for listener in self.listeners:
            guard.alone("following an account", listener, account)
        if not follow:
            return
        for importer in list(self._importers.get(name, ())):
            if importer != name:
                self._remake(importer)
        for exporter in account.wanting - self.accounts.keys():
            self.look_up(exporter, lambda: None)  # the importer is made again when it is found

    def _set_timer(self, account: ClaimedAccount) -> None:
        timer = self._timers.pop(account.name, None)
        if timer is not None:
            timer.cancel()
        expires = account.claims.token.expires if account.claims is not None else 0
        due = [at for at in (expires, account.ends) if at and at > time.time()]
        if due and not account.removed:
            delay = min(min(due) - time.time(), _LONGEST_TIMER_S)
            self._timers[account.name] = self._broker.turns.later(max(delay, 0.0), self._due, account.name)

    def _due(self, name: str) -> None:
        """Follow the time: close the clients of an expired account, or end imports whose token expired."""
        self._timers.pop(name, None)
        account = self.accounts.get(name)
        if account is None:
            return
        if account.expired():
            self._expel(name)
        elif account.ends is not None and account.ends <= time.time():
            self._remake(name)
        else:
            self._set_timer(account)

    def _expel(self, name: str) -> None:
        running = self._broker.accounts.get(name)
        if running is not None:
            for connection in (*running.connections.values(), *_accepted_links(running)):
                self._broker.close(connection, CloseReason.AUTHENTICATION_EXPIRED, errors.ACCOUNT_EXPIRED)


class _Check:
    """Checks the clients of an account whose token has changed."""

    def __init__(self, broker: Broker, account: ClaimedAccount, before: ClaimedAccount) -> None:
        self._broker = broker
        self._account = account
        self._claims = account.claims
        self._is_rewired = _wiring(before) != _wiring(account)
        changed = {key for key, scope in account.signers.items() if before.signers.get(key, scope) != scope}
        self._signers = account.signers.keys() - changed
        limit = account.options.limits.max_connections
        there = broker.accounts[account.name].connections
        # The most recent clients have to go.
        self._too_many = set(sorted(there)[limit:]) if 0 <= limit < len(there) else set[int]()

    def renew(self, connection: Connection) -> None:
        broker, identity = self._broker, connection.session.identity
        grant = identity.grant if identity is not None else None
        if connection.cid in self._too_many:
            broker.close(
                connection, CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED, errors.MAX_ACCOUNT_CONNECTIONS
            )
        if grant is None or self._claims is None or connection.closed:
            return
        body = self._claims.body
        if grant.bearer and body.limits.disallow_bearer:
            reload.refuse(broker, connection)
        elif is_revoked(body.revocations, identity.user, grant.issued_at):
            broker.close(connection, CloseReason.CREDENTIALS_REVOKED, errors.USER_REVOKED)
        elif grant.signer not in self._signers:
            broker.close(connection, CloseReason.AUTHENTICATION_FAILURE)
        elif grant.has_default_permissions:
            connection.session.identity = replace(identity, permissions=self._account.permissions)

    def check_link(self, link: LeafConnection) -> None:
        """Close a leaf link that has to go, or that is to be made anew by other rules."""
        permissions = link.session.identity.permissions
        self.renew(link)
        if self._is_rewired or link.session.identity.permissions != permissions:
            self._broker.close(link, CloseReason.CLIENT_CLOSED)


def _wiring(account: ClaimedAccount) -> tuple[object, ...]:
    """Return what a link was told of when it was made."""
    return account.options.imports, account.options.exports, account.options.mappings


def _accepted_links(account: Account) -> list[LeafConnection]:
    """Return the leaf links that other servers have made: their users have tokens."""
    return [link for link in account.links.values() if link.peer.remote is None]


def _told(issues: list[Issue]) -> str:
    return "; ".join(issue.description for issue in issues)
