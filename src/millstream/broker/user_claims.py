"""Turn the token of a user into an identity: permissions, limits, hours and kinds of connections.

Callers have checked who signed the token, and that it is the client's.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import time
from typing import Final
from zoneinfo import ZoneInfo

from millstream.broker.auth import Identity, TokenTerms
from millstream.broker.options import ConnectionType, Permissions, ResponseRule, SubjectRules
from millstream.broker.permissions import PermissionRuleError, check_permissions
from millstream.claims.token import ClaimsError
from millstream.claims.types import PermissionClaims, TimeRange, UserClaims, UserLimits

_log = logging.getLogger("millstream.broker")

_S: Final = 1e-9  # of a nanosecond


def identity_of(
    user: UserClaims,
    limits: UserLimits,
    account: str,
    default: Permissions | None,
    connection_types: frozenset[ConnectionType] | None,
    host: str,
) -> Identity:
    """Return the identity of a user who may log in now; raise ClaimsError for one who may not.

    `default` are the permissions of a user without any of its own.
    """
    token = user.token
    if limits.proxy_required:  # no proxy can prove itself here
        raise ClaimsError("proxy is required")
    until = _hours_end(limits)
    if until is not None and until <= 0:
        _log.error("%s - Outside connect times", host)
        raise ClaimsError("Outside connect times")
    ends = float(token.expires) if token.expires else None
    if until is not None:
        ends = min(ends, time.time() + until) if ends is not None else time.time() + until
    permissions = permissions_of(limits)
    effective = default if permissions is None else permissions
    try:
        check_permissions(effective or Permissions())
    except PermissionRuleError as error:
        raise ClaimsError(f"User JWT has invalid permissions: {error}") from None
    return Identity(
        user=token.subject,
        label=f"jwt:{token.subject}",
        account=account,
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


def permissions_of(claimed: PermissionClaims) -> Permissions | None:
    """Return permissions as options; None if they restrict nothing."""
    if not (claimed.pub.allow or claimed.pub.deny or claimed.sub.allow or claimed.sub.deny or claimed.resp):
        return None
    publish = SubjectRules(allow=claimed.pub.allow or None, deny=claimed.pub.deny)
    responses = None
    if claimed.resp is not None:
        # Zero stands for the default.
        rule = ResponseRule()
        responses = ResponseRule(
            max_messages=claimed.resp.max or rule.max_messages,
            expires_s=claimed.resp.ttl * _S if claimed.resp.ttl else rule.expires_s,
        )
        if publish.allow is None:
            publish = SubjectRules(allow=(), deny=publish.deny)
    return Permissions(
        publish=publish,
        subscribe=SubjectRules(allow=claimed.sub.allow or None, deny=claimed.sub.deny),
        allow_responses=responses,
    )


def connection_types_of(limits: UserLimits) -> frozenset[ConnectionType] | None:
    """Return the kinds of connections that are allowed; None: all.  Unknown ones are passed over."""
    if not limits.allowed_connection_types:
        return None
    names = {name.upper() for name in limits.allowed_connection_types}
    known = frozenset(kind for kind in ConnectionType if kind.value in names)
    if not known:
        raise ClaimsError(f"invalid connection types {sorted(names)}")
    return known


def may_come_from(limits: UserLimits, host: str) -> bool:
    """Return True if a user of this address may log in."""
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
