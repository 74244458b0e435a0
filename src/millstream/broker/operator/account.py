"""Turn what the token of an account says into the options of an account, as a configuration would give them.

Whether an import works depends on what its exporter offers at this moment, so options are made again whenever
an exporter changes.  Imports that do not work are left out, and the account is then incomplete.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.broker.options import (
    AccountOptions,
    AccountQuota,
    AccountTrace,
    Export,
    ExportKind,
    Import,
    MapDestination,
    Permissions,
    ResponseType,
    ServiceLatency,
    SubjectMapping,
)
from millstream.broker.sharing import Sharing
from millstream.broker.user_claims import permissions_of
from millstream.claims import types
from millstream.claims.decode import read_activation
from millstream.claims.token import ClaimsError
from millstream.claims.types import AccountClaims, ExportBody, ImportBody, is_revoked
from millstream.claims.validation import activation_issues, import_problems, is_contained
from millstream.subjects.functions import TransformError
from millstream.subjects.tokens import valid_publish_subject
from millstream.subjects.transform import WeightedMapping

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger("millstream.broker")

_RESPONSES: Final = {
    "Stream": ResponseType.STREAM,
    "Chunked": ResponseType.CHUNKED,
}
_WHOLE: Final = 100  # percent
_S: Final = 1e-9  # of a nanosecond


class ClaimedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account and the token that describes it."""

    claims: AccountClaims | None  # None: the system account, until its token is there
    signers: dict[str, types.Scope | None]  # the keys that may sign users, with their scopes
    options: AccountOptions
    permissions: Permissions | None = None  # of users without any of their own
    wanting: frozenset[str] = frozenset()  # exporters of imports that do not work
    ends: float | None = None  # when an activation token expires next, as seconds of the epoch
    removed: bool = False

    @property
    def name(self) -> str:
        return self.options.name

    def expired(self, now: float | None = None) -> bool:
        """Return True if the token has expired, or was deleted."""
        if self.claims is None:
            return False
        expires = self.claims.token.expires
        return self.removed or 0 < expires <= (time.time() if now is None else now)


def bare_account(name: str) -> ClaimedAccount:
    """Return an account without a token, in which only its own key signs users."""
    return ClaimedAccount(claims=None, signers={name: None}, options=AccountOptions(name=name))


def claimed_account(
    claims: AccountClaims, *, strict: bool, others: Mapping[str, ClaimedAccount]
) -> ClaimedAccount:
    """Return the account of a token; `strict`: its own key may not sign users."""
    token, body = claims.token, claims.body
    name = token.subject
    options = AccountOptions(
        name=name,
        tag=token.name,
        limits=AccountQuota(
            max_connections=body.limits.conn,
            max_subscriptions=body.limits.subs,
            max_payload=body.limits.payload,
            max_leafnodes=body.limits.leaf,
        ),
        exports=tuple(_export(each) for each in body.exports),
        mappings=tuple(_mappings(claims)),
        trace=_trace(body.trace),
    )
    imports, wanting, ends = _imports(options, claims, others)
    return ClaimedAccount(
        claims=claims,
        signers=claims.scopes | ({} if strict else {name: None}),
        options=msgspec.structs.replace(options, imports=imports),
        permissions=permissions_of(body.default_permissions),
        wanting=wanting,
        ends=ends,
    )


def _mappings(claims: AccountClaims) -> Iterator[SubjectMapping]:
    """Yield the mappings that work."""
    for source, destinations in claims.body.mappings.items():
        # This server is in no cluster, so it passes over what is for one.
        shares = [(each.subject, each.weight or _WHOLE) for each in destinations if not each.cluster]
        try:
            WeightedMapping(source, shares, random.Random(0))
        except TransformError as error:
            _log.error('Account [%s]: error adding mapping for "%s": %s', claims.token.subject, source, error)
            continue
        yield SubjectMapping(
            source=source,
            destinations=tuple(MapDestination(subject=subject, weight=weight) for subject, weight in shares),
        )


def _trace(claimed: types.Trace | None) -> AccountTrace | None:
    if claimed is None or not valid_publish_subject(claimed.dest.encode()):
        return None
    return AccountTrace(dest=claimed.dest, sampling=claimed.sampling or _WHOLE)


def _export(body: ExportBody) -> Export:
    kind = ExportKind(body.type)
    export = Export(
        kind=kind,
        subject=body.subject,
        response_type=_RESPONSES.get(body.response_type, ResponseType.SINGLETON),
        account_token_position=body.account_token_position,
        allow_trace=body.allow_trace,
        token_required=body.token_req,
        latency=_latency(body),
    )
    if not body.response_threshold:
        return export
    return msgspec.structs.replace(export, response_threshold_s=body.response_threshold * _S)


def _latency(body: ExportBody) -> ServiceLatency | None:
    """Return what a token says about measurements; only services with one response are measured."""
    claimed = body.service_latency
    if claimed is None or body.response_type not in ("", ResponseType.SINGLETON):
        return None
    return ServiceLatency(claimed.results, claimed.sampling if isinstance(claimed.sampling, int) else 0)


def _imports(
    options: AccountOptions, claims: AccountClaims, others: Mapping[str, ClaimedAccount]
) -> tuple[tuple[Import, ...], frozenset[str], float | None]:
    """Return the imports that work, the exporters of those that do not, and until when this holds."""
    accepted: list[Import] = []
    wanting: set[str] = set()
    ends: list[int] = []
    known = _Options(others, options)
    sharing = Sharing(known, _Imports(known, options.name, accepted))
    for body in claims.body.imports:
        exporter = others.get(body.account)
        reason = ""
        if exporter is None or exporter.removed:
            reason = "account missing"
        else:
            activated, until = _activation(body, options.name, exporter)
            ends += [until] if until else []
            item = _import(body, activated=activated)
            reason = sharing.reason_against(options, item)
        if reason:
            wanting.add(body.account)
            level = logging.ERROR if exporter is None else logging.DEBUG
            _log.log(
                level,
                "Error adding %s import %s of account %s to account [%s]: %s",
                body.type,
                body.subject,
                body.account,
                options.name,
                reason,
            )
        else:
            sharing.accept(options.name, item)
    return tuple(accepted), frozenset(wanting), min(ends, default=None)


def _import(body: ImportBody, *, activated: bool) -> Import:
    kind = ExportKind(body.type)
    subject, to, prefix = body.subject, body.local_subject, ""
    if not to and body.to:  # the way of version 1: a prefix of streams, and for services turned around
        if kind is ExportKind.STREAM:
            prefix = body.to
        else:
            subject, to = body.to, body.subject
    return Import(
        kind=kind,
        account=body.account,
        subject=subject,
        to=to,
        prefix=prefix,
        share=body.share,
        allow_trace=body.allow_trace,
        activated=activated,
    )


def _activation(body: ImportBody, importer: str, exporter: ClaimedAccount) -> tuple[bool, int]:
    """Return whether the import has a valid activation token, and when that expires; 0: never."""
    if not body.token or any(import_problems(body, importer)):
        return False, 0
    try:
        activation = read_activation(body.token)
    except ClaimsError:
        return False, 0
    token = activation.token
    if activation.issuer_account:
        if activation.issuer_account != exporter.name:
            _log.error(
                'Invalid issuer account "%s" in activation claim (subject: "%s" - type: "%s") '
                'for account "%s"',
                activation.issuer_account,
                activation.body.subject,
                activation.body.kind,
                exporter.name,
            )
            return False, 0
        if token.issuer not in exporter.signers:
            return False, 0
    if activation_issues(activation) or 0 < token.expires <= time.time():
        return False, 0
    if any(
        is_revoked(export.revocations, token.subject, token.issued_at)
        for export in _covering(exporter, body.type, activation.body.subject)
    ):
        return False, 0
    return True, token.expires


def _covering(exporter: ClaimedAccount, kind: str, subject: str) -> Iterator[ExportBody]:
    """Yield the exports that a token for this subject activates."""
    for export in exporter.claims.body.exports if exporter.claims is not None else ():
        if export.type == kind and is_contained(subject, export.subject):
            yield export


class _Options(Mapping[str, AccountOptions]):
    """The options of all accounts, with those of one that is not among them yet."""

    def __init__(self, accounts: Mapping[str, ClaimedAccount], new: AccountOptions) -> None:
        self._accounts = accounts
        self._new = new

    def __getitem__(self, name: str) -> AccountOptions:
        return self._new if name == self._new.name else self._accounts[name].options

    def __iter__(self) -> Iterator[str]:
        return iter({*self._accounts, self._new.name})

    def __len__(self) -> int:
        return len({*self._accounts, self._new.name})


class _Imports(Mapping[str, list[Import]]):
    """The imports of all accounts, with those of a new one that were accepted so far."""

    def __init__(self, options: _Options, new: str, accepted: list[Import]) -> None:
        self._options = options
        self._new = new
        self._accepted = accepted

    def __getitem__(self, name: str) -> list[Import]:
        return self._accepted if name == self._new else list(self._options[name].imports)

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)
