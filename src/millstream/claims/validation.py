"""Check what the tokens of accounts and users say: the rules and words are those of nats-server.

Decisions need all of it: an account or user with a blocking issue is refused, and one with an issue of time
is refused now.  Warnings have no effect, so they are not made.
"""

import ipaddress
import time
from collections.abc import Iterable, Iterator
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from millstream.base.decimals import read_whole
from millstream.base.nkeys import KeyKind
from millstream.claims.decode import read_activation
from millstream.claims.token import ClaimsError, Token, is_key
from millstream.claims.types import (
    ANY,
    UNLIMITED,
    AccountBody,
    AccountClaims,
    ActivationClaims,
    ExportBody,
    ImportBody,
    PermissionClaims,
    Scope,
    TimeRange,
    UserClaims,
    UserLimits,
)

_WHOLE: Final = 100  # percent
_CLOCK: Final = "%H:%M:%S"
_KINDS: Final = ("stream", "service")
_RESPONSES: Final = ("", "Singleton", "Stream", "Chunked")


class Issue(msgspec.Struct, frozen=True):
    """One thing that is wrong with a token."""

    description: str
    time_check: bool = False  # it may be right at another time


def account_issues(claims: AccountClaims, now: float | None = None) -> list[Issue]:
    """Return what is wrong with an account."""
    return [
        *time_issues(claims.token, now),
        *(Issue(text) for text in _account_problems(claims.token.subject, claims.body)),
    ]


def user_issues(claims: UserClaims, now: float | None = None) -> list[Issue]:
    """Return what is wrong with a user."""
    return [*time_issues(claims.token, now), *(Issue(text) for text in _user_problems(claims))]


def activation_issues(claims: ActivationClaims, now: float | None = None) -> list[Issue]:
    return [*time_issues(claims.token, now), *(Issue(text) for text in _activation_problems(claims))]


def time_issues(token: Token, now: float | None = None) -> list[Issue]:
    """Return whether the token has expired, or is not valid yet."""
    seconds = int(time.time() if now is None else now)
    issues = []
    if 0 < token.expires < seconds:
        issues.append(Issue("claim is expired", time_check=True))
    if token.not_before > 0 and token.not_before > seconds:
        issues.append(Issue("claim is not yet valid", time_check=True))
    return issues


def import_problems(item: ImportBody, importer: str) -> Iterator[str]:
    """Yield what is wrong with an import, and with the token that activates it."""
    if item.type not in _KINDS:
        yield f'invalid import type: "{item.type}"'
    if item.type == "service" and item.allow_trace:
        yield "AllowTrace only valid for stream import"
    if not item.account:
        yield "account to import from is not specified"
    yield from _subject_problems(item.subject)
    if item.local_subject:
        yield from _renaming_problems(item.local_subject, item.subject)
        if item.to:
            yield "Local Subject replaces To"
    if item.share and item.type != "service":
        yield f'sharing information (for latency tracking) is only valid for services: "{item.subject}"'
    if item.token:
        yield from _token_problems(item, importer)


def is_contained(subject: str, other: str) -> bool:
    """Return True if every token of `subject` is that of `other`, or `other` has a wildcard there."""
    mine, theirs = subject.split("."), other.split(".")
    if len(mine) < len(theirs) or (len(mine) > len(theirs) and theirs[-1] != ">"):
        return False
    for index, token in enumerate(theirs):
        if index == len(theirs) - 1 and token == ">":
            return True
        if token not in (mine[index], "*"):
            return False
    return True


def _token_problems(item: ImportBody, importer: str) -> Iterator[str]:
    try:
        activation = read_activation(item.token)
    except ClaimsError:
        yield f'import "{item.subject}" contains an invalid activation token'
        return
    if item.account not in (activation.token.issuer, activation.issuer_account):
        yield f'activation token doesn\'t match account for import "{item.subject}"'
    if activation.token.subject != importer:
        yield f'activation token doesn\'t match account it is being included in, "{item.subject}"'
    if activation.body.kind != item.type:
        yield f"mismatch between token import type {activation.body.kind} and type of import {item.type}"
    yield from _activation_problems(activation)
    subject = item.to if item.type == "service" and item.to else item.subject
    if not is_contained(subject, activation.body.subject):
        yield (
            f'activation token import subject "{activation.body.subject}" doesn\'t match import '
            f'"{item.subject}"'
        )


def _activation_problems(claims: ActivationClaims) -> Iterator[str]:
    if claims.body.kind not in _KINDS:
        yield f'invalid import type: "{claims.body.kind}"'
    yield from _subject_problems(claims.body.subject)
    if claims.issuer_account and not is_key(claims.issuer_account, KeyKind.ACCOUNT):
        yield "account_id is not an account public key"


def _account_problems(name: str, body: AccountBody) -> Iterator[str]:
    yield from _imports_problems(name, body.imports)
    for export in body.exports:
        yield from _export_problems(export)
    for kind in _KINDS:
        yield from _overlaps(kind, [export.subject for export in body.exports if export.type == kind])
    yield from _limits_problems(body)
    yield from _permission_problems(body.default_permissions)
    yield from _mapping_problems(body)
    yield from _external_problems(body)
    yield from _trace_problems(body)
    for key in body.signing_keys:
        if isinstance(key, Scope):
            if not is_key(key.key, KeyKind.ACCOUNT):
                yield f"{key.key} is not an account public key"
        elif not is_key(key, KeyKind.ACCOUNT):
            yield f'"{key}" is not a valid account signing key'


def _limits_problems(body: AccountBody) -> Iterator[str]:
    limits = body.limits
    if limits.tiered_limits and "" in limits.tiered_limits:
        yield 'Tiered JetStream Limits can not contain a blank "" tier name'
    if limits.imports != UNLIMITED and len(body.imports) > limits.imports:
        yield "the account contains more imports than allowed by the operator"
    if limits.exports != UNLIMITED:
        if len(body.exports) > limits.exports:
            yield "the account contains more exports than allowed by the operator"
        if not limits.wildcards and any(_has_wildcards(export.subject) for export in body.exports):
            yield "the account contains wildcard exports that are not allowed by the operator"


def _external_problems(body: AccountBody) -> Iterator[str]:
    external = body.authorization
    if external.allowed_accounts and not external.auth_users:
        yield "External authorization cannot have accounts without users specified"
    for user in external.auth_users:
        if not is_key(user, KeyKind.USER):
            yield f'AuthUser "{user}" is not a valid user public key'
    for account in external.allowed_accounts:
        if account == ANY and len(external.allowed_accounts) > 1:
            yield f'AllowedAccounts can only be a list of accounts or "{ANY}"'
        elif account != ANY and not is_key(account, KeyKind.ACCOUNT):
            yield f'Account "{account}" is not a valid account public key'
    if external.xkey and not is_key(external.xkey, KeyKind.CURVE):
        yield f'XKey "{external.xkey}" is not a valid public xkey'


def _trace_problems(body: AccountBody) -> Iterator[str]:
    if body.trace is None:
        return
    for problem in _subject_problems(body.trace.dest):
        yield f"the account Trace.Destination {problem}"
    if _has_wildcards(body.trace.dest):
        yield f'the account Trace.Destination subject "{body.trace.dest}" is not a valid publish subject'
    if not 0 <= body.trace.sampling <= _WHOLE:
        yield (
            f"the account Trace.Sampling value '{body.trace.sampling}' is not valid, should be in the range "
            "[1..100]"
        )


def _mapping_problems(body: AccountBody) -> Iterator[str]:
    for source, destinations in body.mappings.items():
        yield from _subject_problems(source)
        totals: dict[str, int] = {}
        for each in destinations:
            yield from _subject_problems(each.subject)
            weight = each.weight or _WHOLE
            if weight > _WHOLE:
                yield f'Mapping "{source}" has a weight {weight} that exceeds 100'
            totals[each.cluster] = totals.get(each.cluster, 0) + weight
        for cluster, total in totals.items():
            if total > _WHOLE:
                where = f' in cluster "{cluster}"' if cluster else ""
                yield f'Mapping "{source}"{where} exceeds 100% among all of it\'s weighted to mappings'


def _imports_problems(name: str, imports: Iterable[ImportBody]) -> Iterator[str]:
    seen: dict[str, list[str]] = {}  # by exporting account
    for item in imports:
        if item.type == "service":
            subject = item.to or _pattern(item.local_subject) or item.subject
            for other in seen.setdefault(item.account, []):
                if is_contained(subject, other) or is_contained(other, subject):
                    yield (
                        f'overlapping subject namespace for "{subject}" and "{other}" in same account '
                        f'"{item.account}"'
                    )
            seen[item.account].append(subject)
        yield from import_problems(item, name)


def _export_problems(export: ExportBody) -> Iterator[str]:
    if export.type not in _KINDS:
        yield f'invalid export type: "{export.type}"'
    if export.type == "service" and export.response_type not in _RESPONSES:
        yield f'invalid response type for service: "{export.response_type}"'
    if export.type == "stream":
        if export.response_type:
            yield f'invalid response type for stream: "{export.response_type}"'
        if export.allow_trace:
            yield "AllowTrace only valid for service export"
    if export.service_latency is not None:
        if export.type != "service":
            yield "latency tracking only permitted for services"
        sampling = export.service_latency.sampling
        if isinstance(sampling, int) and not 0 <= sampling <= _WHOLE:
            yield "sampling percentage needs to be between 1-100"
        yield from _subject_problems(export.service_latency.results)
        if _has_wildcards(export.service_latency.results):
            yield "results subject can not contain wildcards"
    if export.response_threshold < 0:
        yield "negative response threshold is invalid"
    if export.response_threshold > 0 and export.type != "service":
        yield "response threshold only valid for services"
    yield from _subject_problems(export.subject)
    yield from _position_problems(export)


def _position_problems(export: ExportBody) -> Iterator[str]:
    position, subject = export.account_token_position, export.subject
    if position <= 0:
        return
    tokens = subject.split(".")
    if not _has_wildcards(subject):
        yield f"Account Token Position can only be used with wildcard subjects: {subject}"
    elif position > len(tokens):
        yield f"Account Token Position {position} exceeds length of subject '{subject}'"
    elif tokens[position - 1] != "*":
        yield (
            f"Account Token Position {position} matches '{tokens[position - 1]}' but must match a * in: "
            f"{subject}"
        )


def _overlaps(kind: str, subjects: list[str]) -> Iterator[str]:
    for index, subject in enumerate(subjects):
        for other_index, other in enumerate(subjects):
            if index != other_index and is_contained(subject, other):
                yield f'{kind} export subject "{other}" already exports "{subject}"'


def _user_problems(claims: UserClaims) -> Iterator[str]:
    yield from _permission_problems(claims.body)
    yield from reach_problems(claims.body)
    if claims.issuer_account and not is_key(claims.issuer_account, KeyKind.ACCOUNT):
        yield "account_id is not an account public key"


def reach_problems(limits: UserLimits) -> Iterator[str]:
    """Yield what is wrong with the networks that a user may come from, and with its hours."""
    for network in limits.networks:
        try:
            if "/" not in network:
                raise ValueError
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            yield f'invalid cidr "{network}" in user src limits'
    for span in limits.times:
        yield from _time_range_problems(span)
    if limits.times_location:
        try:
            ZoneInfo(limits.times_location)
        except (ValueError, OSError, KeyError):
            yield f"could not parse iana time zone by name: unknown time zone {limits.times_location}"


def _time_range_problems(span: TimeRange) -> Iterator[str]:
    for what, text in (("start", span.start), ("end", span.end)):
        if not text:
            yield f"time ranges {what} must contain {'a start' if what == 'start' else 'an end'}"
            continue
        try:
            time.strptime(text, _CLOCK)
        except ValueError:
            yield f'{what} in time range is invalid "{text}"'


def _permission_problems(permissions: PermissionClaims) -> Iterator[str]:
    for rules, queues in ((permissions.sub, True), (permissions.pub, False)):
        for entry in (*rules.allow, *rules.deny):
            words = entry.split(" ")
            if len(words) > 2:
                yield f'Permission Subject "{entry}" contains too many spaces'
                continue
            for word in words:
                yield from _subject_problems(word)
            if len(words) > 1 and not queues:
                yield f'Permission Subject "{entry}" is not allowed to contain queue'


def _renaming_problems(local: str, subject: str) -> Iterator[str]:
    yield from _subject_problems(local)
    if not subject:
        yield "subject cannot be empty"
    if _is_open(local) != _is_open(subject):
        yield "both, renaming subject and subject, need to end or not end in >"
    there = subject.split(".").count("*")
    used = 0
    for token in local.split("."):
        if token == "*":
            used += 1
        elif (number := _reference(token)) is not None:
            if number > there:
                yield (f'Reference ${number} in "{local}" reference * in "{subject}" that do not exist')
            else:
                used += 1
    if used != there:
        yield "subject does not contain enough * or reference wildcards $[0-9]"


def _subject_problems(subject: str) -> Iterator[str]:
    if not subject:
        yield "subject cannot be empty"
        return
    if " " in subject:
        yield f'subject "{subject}" cannot have spaces'
    if subject.startswith(".") or subject.endswith("."):
        yield f'subject "{subject}" cannot start or end with a `.`'
    if ".." in subject:
        yield f'subject "{subject}" cannot contain consecutive `.`'


def _is_open(subject: str) -> bool:
    return subject == ">" or subject.endswith(".>")


def _has_wildcards(subject: str) -> bool:
    return _is_open(subject) or "*" in subject.split(".")


def _pattern(local: str) -> str:
    tokens = local.split(".") if local else []
    return ".".join(token if _reference(token) is None else "*" for token in tokens)


def _reference(token: str) -> int | None:
    """Return the number of a reference such as `$1`, or None."""
    return read_whole(token[1:]) if token.startswith("$") else None
