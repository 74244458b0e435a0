"""Authenticate the clients of operator mode: a user's token, signed by a known account, and a signed nonce.

The order of the checks is nats-server's, as are the words for what is wrong; they are logged at debug level,
and the client gets to know only that it is refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from millstream.base import nkeys
from millstream.base.nkeys import KeyKind
from millstream.broker.auth import (
    Candidate,
    ClientCredentials,
    Decided,
    Identity,
    Login,
    decode_signature,
    denied,
)
from millstream.broker.callout import AUTH_SUBJECT, CalloutRules
from millstream.broker.operator.account import ClaimedAccount
from millstream.broker.operator.callout import AccountCallout
from millstream.broker.operator.scopes import limits_of
from millstream.broker.options import ConnectionType
from millstream.broker.user_claims import connection_types_of, identity_of, may_come_from
from millstream.claims.decode import read_user
from millstream.claims.token import ClaimsError, is_key
from millstream.claims.types import UserClaims, is_revoked
from millstream.claims.validation import user_issues

if TYPE_CHECKING:
    from millstream.broker.options import Trust

_log = logging.getLogger("millstream.broker")


class OperatorAuthenticator:
    """The users of all accounts; has the methods of ``auth.ClientAuthenticator``."""

    required = True
    needs_nonce = True
    has_plain_passwords = False
    has_slow_users = False

    def __init__(
        self,
        trust: Trust,
        accounts: Mapping[str, ClaimedAccount],
        ask: Callable[[CalloutRules, Login, Decided], None],
    ) -> None:
        """`ask` asks the service of an account that delegates logins."""
        self._trust = trust
        self._ask = ask
        self._accounts = accounts
        nkeys.prepare()

    def required_for(self, kind: ConnectionType) -> bool:
        return True

    def announced_for(self, kind: ConnectionType) -> bool:
        return True

    def connect_may_be_skipped(self, kind: ConnectionType) -> bool:
        return False

    def account_of_user(self, name: str) -> str | None:
        return None

    def account_of_nkey(self, nkey: str) -> str | None:
        return None

    def secret_of(self, identity: Identity) -> str:
        return ""

    def still_known(self, identity: Identity) -> Identity | None:
        """Return the identity of a user whose token is still good, or None."""
        grant, account = identity.grant, self._accounts.get(identity.account)
        if grant is None or account is None or account.expired():
            return None
        revocations = account.claims.body.revocations if account.claims is not None else {}
        gone = (
            grant.signer not in account.signers
            or is_revoked(revocations, identity.user, grant.issued_at)
            or (grant.ends is not None and grant.ends <= time.time())
        )
        return None if gone else identity

    def candidate(self, credentials: ClientCredentials) -> Candidate | None:
        """Return the identity to check; None if it is refused at once.

        If the account is not known, or has expired, the candidate names it, and is asked for again when its
        token was looked up.
        """
        try:
            return self._candidate(credentials)
        except ClaimsError as error:
            _log.debug("%s - %s", credentials.host, error)
            return None

    def _candidate(self, credentials: ClientCredentials) -> Candidate:
        user = self._token(credentials.jwt)
        if issues := user_issues(user):
            raise ClaimsError(f"User JWT no longer valid: {'; '.join(each.description for each in issues)}")
        pinned = self._trust.pinned_accounts
        if pinned is not None and user.account not in pinned:
            raise ClaimsError(f"Account {user.account} not listed as operator pinned account")
        account = self._accounts.get(user.account)
        if account is None or account.expired():
            if not is_key(user.account, KeyKind.ACCOUNT):
                raise ClaimsError("Account JWT lookup error: will only fetch valid account keys")
            return Candidate(Identity(account=user.account), lambda: False, needs_account=user.account)
        if account.claims is not None and account.claims.token.issuer not in self._trust.keys:
            raise ClaimsError("Account JWT not signed by trusted operator")
        limits = limits_of(user, account)
        if limits.bearer_token and account.claims is not None and account.claims.body.limits.disallow_bearer:
            raise ClaimsError("Account does not allow bearer tokens")
        allowed = connection_types_of(limits)
        if allowed is not None and credentials.connection_type not in allowed:
            raise ClaimsError("Connection type not allowed")
        if not limits.bearer_token:
            _check_signature(user, credentials)
        if account.claims is not None and is_revoked(
            account.claims.body.revocations, user.token.subject, user.token.issued_at
        ):
            raise ClaimsError("User authentication revoked")
        if not may_come_from(limits, credentials.host):
            _log.error("%s - Bad src Ip %s", credentials.host, credentials.host)
            raise ClaimsError("Bad src Ip")
        identity = identity_of(user, limits, account.name, account.permissions, allowed, credentials.host)
        external = account.claims.body.authorization if account.claims is not None else None
        if external is None or not external.auth_users:
            return Candidate(identity)
        if user.token.subject in external.auth_users:
            permissions = denied(identity.permissions, AUTH_SUBJECT)
            return Candidate(replace(identity, permissions=permissions))
        rules = AccountCallout(account, external, self._accounts, pinned)
        return Candidate(identity, ask=partial(self._ask, rules))

    def _token(self, text: str) -> UserClaims:
        """Return the user of a token; without a token that can be read, that of the sentinel."""
        try:
            return read_user(text)
        except ClaimsError as error:
            if self._trust.default_sentinel:
                return read_user(self._trust.default_sentinel)
            raise ClaimsError(f"Authentication requires a user JWT{f': {error}' if text else ''}") from None


def _check_signature(user: UserClaims, credentials: ClientCredentials) -> None:
    if not credentials.signature:
        raise ClaimsError("Signature missing")
    signature = decode_signature(credentials.signature)
    if signature is None:
        raise ClaimsError("Signature not valid base64")
    subject = user.token.subject
    if not credentials.nonce or not nkeys.verify(subject, signature, credentials.nonce):
        raise ClaimsError("Signature not verified")
