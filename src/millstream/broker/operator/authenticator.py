"""Authenticate the clients of operator mode: a user's token, signed by a known account, and a signed nonce.

The order of the checks is nats-server's, as are the words for what is wrong; they are logged at debug level,
and the client gets to know only that it is refused.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from millstream.base import nkeys
from millstream.base.nkeys import KeyKind
from millstream.broker.auth import Candidate, ClientCredentials, Identity, TokenTerms, decode_signature
from millstream.broker.operator.account import ClaimedAccount, permissions_of
from millstream.broker.options import ConnectionType, Permissions
from millstream.broker.permissions import PermissionRuleError, check_permissions
from millstream.claims.decode import read_user
from millstream.claims.templates import filled
from millstream.claims.token import ClaimsError, is_key
from millstream.claims.types import TimeRange, UserClaims, UserLimits, is_revoked
from millstream.claims.validation import user_issues

if TYPE_CHECKING:
    from millstream.broker.options import Trust

_log = logging.getLogger("millstream.broker")

_NOTHING: Final = UserLimits()
_SCOPED_FIELDS: Final = UserLimits.__struct_fields__


class OperatorAuthenticator:
    """The users of all accounts; has the methods of ``auth.ClientAuthenticator``."""

    required = True
    needs_nonce = True
    has_plain_passwords = False
    has_slow_users = False

    def __init__(self, trust: Trust, accounts: Mapping[str, ClaimedAccount]) -> None:
        self._trust = trust
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
        if user.body.proxy_required:
            raise ClaimsError("proxy is required")
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
        external = account.claims.body.authorization.auth_users if account.claims is not None else ()
        if external and user.token.subject not in external:
            _log.error("%s - auth callout is not supported: account %s", credentials.host, account.name)
            raise ClaimsError("the account's users are decided about by a callout")
        limits = _limits(user, account)
        if limits.bearer_token and account.claims is not None and account.claims.body.limits.disallow_bearer:
            raise ClaimsError("Account does not allow bearer tokens")
        allowed = _connection_types(limits)
        if allowed is not None and credentials.connection_type not in allowed:
            raise ClaimsError("Connection type not allowed")
        if not limits.bearer_token:
            _check_signature(user, credentials)
        if account.claims is not None and is_revoked(
            account.claims.body.revocations, user.token.subject, user.token.issued_at
        ):
            raise ClaimsError("User authentication revoked")
        if not _may_come_from(limits, credentials.host):
            _log.error("%s - Bad src Ip %s", credentials.host, credentials.host)
            raise ClaimsError("Bad src Ip")
        return Candidate(identity_of(user, limits, account, allowed, credentials.host))

    def _token(self, text: str) -> UserClaims:
        """Return the user of a token; without a token that can be read, that of the sentinel."""
        try:
            return read_user(text)
        except ClaimsError as error:
            if self._trust.default_sentinel:
                return read_user(self._trust.default_sentinel)
            raise ClaimsError(f"Authentication requires a user JWT{f': {error}' if text else ''}") from None


def identity_of(
    user: UserClaims,
    limits: UserLimits,
    account: ClaimedAccount,
    connection_types: frozenset[ConnectionType] | None,
    host: str,
) -> Identity:
    """Return the identity of a user who may log in now; raise ClaimsError outside of its hours."""
    token = user.token
    until = _hours_end(limits)
    if until is not None and until <= 0:
        _log.error("%s - Outside connect times", host)
        raise ClaimsError("Outside connect times")
    ends = float(token.expires) if token.expires else None
    if until is not None:
        ends = min(ends, time.time() + until) if ends is not None else time.time() + until
    permissions = permissions_of(limits)
    effective = account.permissions if permissions is None else permissions
    try:
        check_permissions(effective or Permissions())
    except PermissionRuleError as error:
        raise ClaimsError(f"User JWT has invalid permissions: {error}") from None
    return Identity(
        user=token.subject,
        label=f"jwt:{token.subject}",
        account=account.name,
        permissions=effective,
        connection_types=connection_types,
        grant=TokenTerms(
            signer=token.issuer,
            issued_at=token.issued_at,
            ends=ends,
            max_subscriptions=limits.subs,
            max_payload=limits.payload,
            bearer=limits.bearer_token,
            has_default_permissions=permissions is None,
            name=token.name,
            tags=token.tags,
            token=token.text,
        ),
    )


def _limits(user: UserClaims, account: ClaimedAccount) -> UserLimits:
    """Return what the user may do: what its token says, or the template of the key that signed it."""
    issuer = user.token.issuer
    if issuer not in account.signers:
        raise ClaimsError("User JWT issuer is not known")
    scope = account.signers[issuer]
    if scope is None or account.claims is None:
        return user.body
    if any(getattr(user.body, name) != getattr(_NOTHING, name) for name in _SCOPED_FIELDS):
        raise ClaimsError("User JWT is not valid: scoped users require no permissions or limits set")
    try:
        return filled(scope.template, user, account.claims)
    except ClaimsError as error:
        raise ClaimsError(f"User JWT generated invalid permissions: {error}") from None


def _connection_types(limits: UserLimits) -> frozenset[ConnectionType] | None:
    """Return the kinds of connections that are allowed; None: all.  Unknown ones are passed over."""
    if not limits.allowed_connection_types:
        return None
    names = {name.upper() for name in limits.allowed_connection_types}
    known = frozenset(kind for kind in ConnectionType if kind.value in names)
    if not known:
        raise ClaimsError(f"invalid connection types {sorted(names)}")
    return known


def _check_signature(user: UserClaims, credentials: ClientCredentials) -> None:
    if not credentials.signature:
        raise ClaimsError("Signature missing")
    signature = decode_signature(credentials.signature)
    if signature is None:
        raise ClaimsError("Signature not valid base64")
    subject = user.token.subject
    if not credentials.nonce or not nkeys.verify(subject, signature, credentials.nonce):
        raise ClaimsError("Signature not verified")


def _may_come_from(limits: UserLimits, host: str) -> bool:
    networks = limits.networks
    if not networks:
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("::ffff:"))
    except ValueError:
        return False
    return any(address in ipaddress.ip_network(network, strict=False) for network in networks)


def _hours_end(limits: UserLimits) -> float | None:
    """Return for how many seconds the user may stay; None: without end, 0: not at all."""
    if not limits.times:
        return None
    zone = ZoneInfo(limits.times_location) if limits.times_location else None
    now = datetime.datetime.now(zone)
    return max(_left(span, now) for span in limits.times)


def _left(span: TimeRange, now: datetime.datetime) -> float:
    """Return how many seconds of a daily span are left; 0 outside of it."""
    start, end = (_on_day(now, text) for text in (span.start, span.end))
    if start < now < end:
        return (end - now).total_seconds()
    if start > end:  # across midnight
        if now < end:
            return (end - now).total_seconds()
        end += datetime.timedelta(days=1)
        if start < now < end:
            return (end - now).total_seconds()
    return 0.0


def _on_day(now: datetime.datetime, clock: str) -> datetime.datetime:
    hour, minute, second = (int(part) for part in clock.split(":"))
    return now.replace(hour=hour, minute=minute, second=second, microsecond=0)
