"""Options of the broker, as frozen values.

Filled by ``millstream.config`` from files and flags, or by hand in tests; nothing here parses text.
Durations are seconds, sizes are bytes.  Defaults are nats-server's.
"""

from enum import StrEnum
from typing import Final

import msgspec

from millstream.jsapi.names import domain_mappings

GLOBAL_ACCOUNT: Final = "$G"
SYSTEM_ACCOUNT: Final = "$SYS"


class ConnectionType(StrEnum):
    """Kinds of connections, in the spelling of `allowed_connection_types`."""

    STANDARD = "STANDARD"
    WEBSOCKET = "WEBSOCKET"
    IN_PROCESS = "IN_PROCESS"
    LEAFNODE = "LEAFNODE"
    LEAFNODE_WS = "LEAFNODE_WS"
    MQTT = "MQTT"
    MQTT_WS = "MQTT_WS"


class SubjectRules(msgspec.Struct, frozen=True, kw_only=True):
    """The subjects of one direction.  An entry may be `subject queue` for subscriptions."""

    allow: tuple[str, ...] | None = None  # None: everything not denied
    deny: tuple[str, ...] = ()


class ResponseRule(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to respond to requests that were delivered to this user."""

    max_messages: int = 1  # negative: any number
    expires_s: float = 120.0  # negative or zero: never


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    publish: SubjectRules = SubjectRules()
    subscribe: SubjectRules = SubjectRules()
    allow_responses: ResponseRule | None = None


class User(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a users list: a name with a password, an nkey, or a mapped certificate."""

    name: str = ""  # empty for an nkey user
    password: str = ""  # plain, or a bcrypt hash
    nkey: str = ""  # public key, `U…`
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None
    connection_types: frozenset[ConnectionType] | None = None  # None: any


class ExportKind(StrEnum):
    STREAM = "stream"
    SERVICE = "service"


class ResponseType(StrEnum):
    """Number of responses that a service export gives to one request."""

    SINGLETON = "Singleton"
    STREAM = "Stream"
    CHUNKED = "Chunked"


class ServiceLatency(msgspec.Struct, frozen=True):
    """The measurements of a service: their subject, and the part of the requests that is measured."""

    subject: str
    sampling: int = 100  # percent; 0: those whose headers ask for it


class Export(msgspec.Struct, frozen=True, kw_only=True):
    kind: ExportKind
    subject: str
    accounts: tuple[str, ...] | None = None  # None: public
    response_type: ResponseType = ResponseType.SINGLETON
    response_threshold_s: float = 120.0
    account_token_position: int = 0  # 1-based token that must name the importing account; 0: none
    allow_trace: bool = False  # services: message traces of importers go on in the exporting account
    token_required: bool = False  # importers need an activation token
    latency: ServiceLatency | None = None  # services: requests are measured


class Import(msgspec.Struct, frozen=True, kw_only=True):
    kind: ExportKind
    account: str  # the exporting account
    subject: str  # as exported
    to: str = ""  # how the importing account sees it; empty: unchanged
    prefix: str = ""  # stream imports only: put before the subject
    share: bool = False  # tell the service who asked
    allow_trace: bool = False  # streams: message traces of the exporter tell who gets the message here
    activated: bool = False  # by a token that the exporter signed


class MapDestination(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    weight: int = 100  # percent


class SubjectMapping(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    destinations: tuple[MapDestination, ...]


class AccountQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an account; -1 means unlimited."""

    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    max_leafnodes: int = -1


class AccountTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Tracing of messages that are part of an external trace."""

    dest: str  # the subject that is told
    sampling: int = 100  # percent of them


class AccountOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tag: str = ""  # another name, that monitoring shows beside it
    limits: AccountQuota = AccountQuota()
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()
    mappings: tuple[SubjectMapping, ...] = ()
    trace: AccountTrace | None = None


class ResolverKind(StrEnum):
    """Place of the tokens of accounts."""

    MEMORY = "MEMORY"
    FULL = "FULL"  # all of them in a folder
    CACHE = "CACHE"  # some of them in a folder; others are asked for over NATS
    URL = "URL"


class ResolverOptions(msgspec.Struct, frozen=True, kw_only=True):
    kind: ResolverKind = ResolverKind.MEMORY
    folder: str = ""
    allow_delete: bool = False
    hard_delete: bool = False  # or the file is renamed
    limit: int = 0  # tokens in the folder; 0: unlimited
    ttl_s: float = 0.0  # how long a cached token is kept without being used; 0: until it expires
    interval_s: float = 60.0  # between comparisons with other servers
    timeout_s: float = 2.0  # to get one token
    url: str = ""  # with the account's key appended
    ca_file: str = ""  # that signed the certificate of the URL; empty: any known one
    cert_file: str = ""  # shown to the URL
    key_file: str = ""


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Operator mode: who may sign accounts, and where their tokens are."""

    keys: tuple[str, ...]  # of operators, and their signing keys
    strict_keys: frozenset[str] = frozenset()  # accounts that these signed sign with signing keys only
    operator: str = ""  # the first operator; empty with `trusted_keys`
    operators: tuple[str, ...] = ()  # their tokens
    resolver: ResolverOptions | None = None
    preload: dict[str, str] = {}  # account tokens by account
    pinned_accounts: frozenset[str] | None = None  # the only ones whose users may connect; None: all
    default_sentinel: str = ""  # the token of clients that bring none

    @property
    def strict(self) -> bool:
        """Return True if the operator itself may not sign accounts."""
        return bool(self.operator) and self.operator not in self.keys


class CalloutOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The service that decides who may log in (auth callout)."""

    issuer: str  # public key, `A…`, that signs its answers
    users: tuple[str, ...]  # names and nkeys of the service itself, whose logins the configuration decides
    account: str = GLOBAL_ACCOUNT  # where it listens
    xkey: str = ""  # public curve key, `X…`; empty: nothing is encrypted
    delegated: tuple[str, ...] = ()  # accounts whose configured users it decides about; empty: all


class OidcOptions(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID Connect issuer whose tokens let clients in.  Names of claims may have dots."""

    issuer: str  # as tokens name it; its keys are found below this URL
    audience: tuple[str, ...]  # one of these has to be in a token
    user_claim: str = "sub"
    account: str = GLOBAL_ACCOUNT  # of tokens, unless `account_claim` names another
    account_claim: str = ""
    accounts: tuple[str, ...] = ()  # that `account_claim` may name
    roles_claim: str = "roles"
    roles: dict[str, Permissions] = {}  # what each value of `roles_claim` permits
    default_permissions: Permissions | None = None  # without any of the roles
    clock_skew_s: float = 30.0
    jwks_url: str = ""  # empty: the issuer says it
    jwks_file: str = ""  # instead of a URL
    ca_file: str = ""  # that signed the issuer's certificate; empty: any known one


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """The users that may connect.  Users of accounts and of the authorization block are in one list."""

    token: str = ""
    username: str = ""
    password: str = ""
    users: tuple[User, ...] = ()
    timeout_s: float | None = None  # None: 2 s, or the TLS timeout + 1 s
    no_auth_user: str = ""
    default_permissions: Permissions | None = None
    callout: CalloutOptions | None = None
    oidc: OidcOptions | None = None

    @property
    def required(self) -> bool:
        return bool(self.token or self.username or self.users or self.callout or self.oidc)


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    cert_file: str
    key_file: str
    ca_file: str = ""
    verify: bool = False
    verify_and_map: bool = False
    timeout_s: float = 2.0
    min_version: str = "1.2"  # "1.2" or "1.3"
    cipher_suites: tuple[str, ...] = ()  # names as the Go standard library spells them
    curve_preferences: tuple[str, ...] = ()
    pinned_certs: frozenset[str] = frozenset()  # hex SHA-256 of the client's public key info
    connection_rate_limit: int = 0  # handshakes a second; 0: unlimited
    handshake_first: bool = False
    handshake_first_fallback_s: float | None = None  # send a clear INFO after this delay
    allow_non_tls: bool = False


class WebSocketOptions(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "0.0.0.0"
    port: int = 443  # -1: pick one
    advertise: str = ""
    tls: TlsOptions | None = None  # None: `no_tls: true`
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    compression: bool = False
    handshake_timeout_s: float = 2.0
    headers: tuple[tuple[str, str], ...] = ()  # added to the upgrade response
    ping_interval_s: float | None = None  # None: as for other clients
    no_auth_user: str = ""
    username: str = ""
    password: str = ""
    token: str = ""
    auth_timeout_s: float | None = None
    user_cookie: str = ""
    password_cookie: str = ""
    token_cookie: str = ""
    jwt_cookie: str = ""


class RemoteTls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS of a link that we make."""

    ca_file: str = ""  # empty: the system's authorities
    cert_file: str = ""
    key_file: str = ""
    insecure: bool = False  # accept any certificate
    timeout_s: float = 2.0
    min_version: str = "1.2"
    handshake_first: bool = False


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP proxy between this server and hubs with a websocket."""

    url: str
    username: str = ""
    password: str = ""
    timeout_s: float = 0.0  # 0: that of dialing


class CompressionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The compression of a link, if the other server compresses, too."""

    mode: str = "s2_auto"
    rtt_thresholds_s: tuple[float, ...] = (0.01, 0.05, 0.1)  # of `s2_auto`: round trips that part its modes


class RemoteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A server to link an account to; we are its spoke unless `hub` is set."""

    urls: tuple[str, ...]
    account: str = GLOBAL_ACCOUNT
    creds_file: str = ""
    nkey_seed: str = ""
    tls: RemoteTls | None = None  # None: if the URL or the server asks for it, with the system's authorities
    hub: bool = False
    deny_imports: tuple[str, ...] = ()
    deny_exports: tuple[str, ...] = ()
    isolate: bool = False  # do not tell the other server what other links listen to
    request_isolation: bool = False  # ask the other server for the same
    no_randomize: bool = False
    ignore_discovered: bool = False  # connect only to the configured URLs
    first_info_timeout_s: float = 1.0
    dial_timeout_s: float = 1.0
    disabled: bool = False
    compression: CompressionOptions = CompressionOptions()
    ws_compression: bool = False  # by the websocket, and then not by the link
    ws_no_masking: bool = False
    proxy: ProxyOptions | None = None

    @property
    def name(self) -> tuple[object, ...]:
        """Return what makes it the same remote after a reload."""
        return frozenset(self.urls), self.account, self.creds_file, self.nkey_seed


class LeafOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Links to other servers, which we make or accept."""

    remotes: tuple[RemoteOptions, ...] = ()
    reconnect_interval_s: float = 1.0
    isolate: bool = False
    compression: CompressionOptions = CompressionOptions()  # of links that are accepted
    host: str = "0.0.0.0"
    port: int = 0  # 0: no link is accepted; -1: pick one
    advertise: str = ""
    no_advertise: bool = False
    tls: TlsOptions | None = None
    username: str = ""
    password: str = ""
    nkey: str = ""
    account: str = ""  # of the username, the nkey and, if there are none, of everybody
    users: tuple[User, ...] = ()
    auth_timeout_s: float | None = None  # None: 2 s, or the TLS timeout + 1 s
    min_version: str = ""


class BrokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "0.0.0.0"
    port: int = 4222  # -1: pick one
    server_name: str = ""  # empty: the server id
    client_advertise: str = ""
    max_control_line: int = 4096
    max_payload: int = 1024 * 1024
    max_pending: int = 64 * 1024 * 1024
    max_connections: int = 64 * 1024  # negative: none may connect
    max_subscriptions: int = 0  # per connection; 0: unlimited
    max_subject_tokens: int = 0  # per subscription; 0: unlimited
    max_closed_clients: int = 10_000
    ping_interval_s: float = 120.0
    ping_max: int = 2
    write_deadline_s: float = 10.0
    write_timeout_retry: bool = False  # `write_timeout: retry`: keep a connection that missed it
    no_fast_producer_stall: bool = False
    headers: bool = True
    proxy_protocol: bool = False  # connections may begin with the header of a proxy
    lame_duck_duration_s: float = 120.0
    lame_duck_grace_period_s: float = 10.0
    system_account: str = SYSTEM_ACCOUNT  # empty: `no_system_account`
    authorization: Authorization = Authorization()
    trust: Trust | None = None  # operator mode: accounts and users come from tokens
    accounts: tuple[AccountOptions, ...] = ()  # besides $G and $SYS
    mappings: tuple[SubjectMapping, ...] = ()  # of the global account
    tls: TlsOptions | None = None
    websocket: WebSocketOptions | None = None
    leaf: LeafOptions | None = None
    default_js_domains: dict[str, str] = {}  # by account: whose JetStream the plain subjects of the API reach
    trace: bool = False  # log every protocol operation
    trace_verbose: bool = False  # of the system account too
    trace_headers: bool = False  # of messages only the headers
    max_traced_message: int = 0  # bytes of a payload in the trace; 0: all
    server_tags: tuple[str, ...] = ()
    server_metadata: dict[str, str] = {}
    feature_flags: dict[str, bool] = {}  # as chosen, with unknown ones

    @property
    def signs(self) -> bool:
        """Return True if the server may have to sign something."""
        return self.trust is not None or self.authorization.callout is not None


def default_domain_mappings(domain: str) -> tuple[SubjectMapping, ...]:
    """Return what leads from the plain subjects of JetStream to those of a domain; empty without one."""
    if not domain:
        return ()
    return tuple(
        SubjectMapping(source=plain, destinations=(MapDestination(subject=named),))
        for named, plain in domain_mappings(domain).items()
    )
