"""Contents of the tokens of operators, accounts, users and activations, as frozen values.

Fields have the names of the JSON.  A missing number is 0, which as a limit means none at all; -1 means
unlimited.  Durations are nanoseconds.
"""

from typing import Final

import msgspec

from millstream.claims.token import Int64, Token

UNLIMITED: Final = -1
ANY: Final = "*"  # all keys of a list of revocations, or all accounts


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a token; unknown members are ignored."""


class SubjectClaims(_Body, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ResponseClaims(_Body, frozen=True, kw_only=True):
    max: Int64 = 0
    ttl: Int64 = 0  # ns


class PermissionClaims(_Body, frozen=True, kw_only=True):
    pub: SubjectClaims = SubjectClaims()
    sub: SubjectClaims = SubjectClaims()
    resp: ResponseClaims | None = None


class TimeRange(_Body, frozen=True, kw_only=True):
    """A part of each day, as `15:04:05`."""

    start: str = ""
    end: str = ""


class UserLimits(PermissionClaims, frozen=True, kw_only=True):
    """Permissions and limits of a user; also the template of a scoped signing key."""

    src: tuple[str, ...] | str = ()  # networks; version 1 has them in one text, separated by commas
    times: tuple[TimeRange, ...] = ()
    times_location: str = ""  # name of a time zone; empty: the server's
    subs: Int64 = 0
    data: Int64 = 0
    payload: Int64 = 0
    bearer_token: bool = False
    proxy_required: bool = False
    allowed_connection_types: tuple[str, ...] = ()

    @property
    def networks(self) -> tuple[str, ...]:
        if isinstance(self.src, str):
            return tuple(part.strip() for part in self.src.lower().split(",") if part.strip())
        return self.src


class UserBody(UserLimits, frozen=True, kw_only=True):
    issuer_account: str = ""


class Scope(_Body, frozen=True, kw_only=True):
    """A signing key whose users get the permissions and limits of its template."""

    kind: str = ""
    key: str = ""
    role: str = ""
    template: UserLimits = UserLimits(subs=UNLIMITED, data=UNLIMITED, payload=UNLIMITED)


class ExportLatency(_Body, frozen=True, kw_only=True):
    sampling: Int64 | str = 0  # percent, or `headers`
    results: str = ""


class ExportBody(_Body, frozen=True, kw_only=True):
    name: str = ""
    subject: str = ""
    type: str = ""
    token_req: bool = False
    revocations: dict[str, Int64] = {}
    response_type: str = ""
    response_threshold: Int64 = 0  # ns
    service_latency: ExportLatency | None = None
    account_token_position: Int64 = 0
    advertise: bool = False
    allow_trace: bool = False


class ImportBody(_Body, frozen=True, kw_only=True):
    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    type: str = ""
    share: bool = False
    allow_trace: bool = False


class StorageClaims(_Body, frozen=True, kw_only=True):
    mem_storage: Int64 = 0
    disk_storage: Int64 = 0
    streams: Int64 = 0
    consumer: Int64 = 0
    max_ack_pending: Int64 = 0
    mem_max_stream_bytes: Int64 = 0
    disk_max_stream_bytes: Int64 = 0
    max_bytes_required: bool = False


class AccountLimitClaims(StorageClaims, frozen=True, kw_only=True):
    subs: Int64 = 0
    data: Int64 = 0
    payload: Int64 = 0
    imports: Int64 = 0
    exports: Int64 = 0
    wildcards: bool = False
    disallow_bearer: bool = False
    conn: Int64 = 0
    leaf: Int64 = 0
    tiered_limits: dict[str, StorageClaims] = {}

    @property
    def jetstream(self) -> bool:
        """Return True if the account may store anything."""
        tiers = self.tiered_limits.values() if self.tiered_limits else (self,)
        return any(tier.mem_storage or tier.disk_storage for tier in tiers)


class WeightedSubject(_Body, frozen=True, kw_only=True):
    subject: str = ""
    weight: Int64 = 0  # percent; 0: 100
    cluster: str = ""


class ExternalAuthorization(_Body, frozen=True, kw_only=True):
    """The users of an account that decide about all others (auth callout)."""

    auth_users: tuple[str, ...] = ()
    allowed_accounts: tuple[str, ...] = ()
    xkey: str = ""


class Trace(_Body, frozen=True, kw_only=True):
    dest: str = ""
    sampling: Int64 = 0


class AccountBody(_Body, frozen=True, kw_only=True):
    imports: tuple[ImportBody, ...] = ()
    exports: tuple[ExportBody, ...] = ()
    limits: AccountLimitClaims = AccountLimitClaims()
    signing_keys: tuple[str | Scope, ...] = ()
    revocations: dict[str, Int64] = {}
    default_permissions: PermissionClaims = PermissionClaims()
    mappings: dict[str, tuple[WeightedSubject, ...]] = {}
    authorization: ExternalAuthorization = ExternalAuthorization()
    trace: Trace | None = None


class OperatorBody(_Body, frozen=True, kw_only=True):
    signing_keys: tuple[str, ...] = ()
    account_server_url: str = ""
    system_account: str = ""
    assert_server_version: str = ""
    strict_signing_key_usage: bool = False


class ActivationBody(_Body, frozen=True, kw_only=True):
    subject: str = ""
    kind: str = ""  # stream or service; named `type` by version 1
    issuer_account: str = ""


class OperatorClaims(msgspec.Struct, frozen=True):
    token: Token
    body: OperatorBody


class AccountClaims(msgspec.Struct, frozen=True):
    token: Token
    body: AccountBody

    @property
    def scopes(self) -> dict[str, Scope | None]:
        """Return the signing keys; those that are not scoped have no scope."""
        return {
            key if isinstance(key, str) else key.key: None if isinstance(key, str) else key
            for key in self.body.signing_keys
        }


class UserClaims(msgspec.Struct, frozen=True):
    token: Token
    body: UserBody
    issuer_account: str  # the account, if a signing key of it signed; else empty

    @property
    def account(self) -> str:
        return self.issuer_account or self.token.issuer


class ActivationClaims(msgspec.Struct, frozen=True):
    token: Token
    body: ActivationBody
    issuer_account: str


def is_revoked(revocations: dict[str, int], subject: str, issued_at: int) -> bool:
    """Return True if tokens of this subject, or of all, are revoked that were issued at this time."""
    return any(name in revocations and revocations[name] >= issued_at for name in (subject, ANY))
