"""Authenticate clients: credentials in, an identity or a refusal out; no sockets and no waiting.

The first of these that applies decides, and none of the later ones is tried when it fails:

    no authentication on this listener                    ->  anybody, in the global account
    an nkey was given and nkeys are configured            ->  the signature of the nonce
    users are configured and certificates are mapped      ->  the user that the certificate identifies
    users are configured and a user was given             ->  the password
    one token, or one user, is configured                 ->  the token, or the password

A client without any credentials becomes the `no_auth_user`.  The web socket listener may have its own token,
user and `no_auth_user`, which then replace all three.  JWTs are ignored: they mean something in operator mode
alone, whose users ``operator.authenticator`` knows.

A bcrypt hash takes longer to check than everything else a server does in a second.  So the decision has two
steps: `candidate` returns at once whom to check the client against, and `Candidate.verify` checks, in a
worker thread if `Candidate.slow` is set.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from millstream.base import nkeys
from millstream.base.errors import MillstreamError
from millstream.base.ids import nuid
from millstream.broker.options import (
    GLOBAL_ACCOUNT,
    BrokerOptions,
    ConnectionType,
    Permissions,
    TlsOptions,
    User,
)
from millstream.broker.permissions import PermissionRuleError, check_permissions
from millstream.broker.tls_peer import PeerNames

_BCRYPT: Final = re.compile(r"\$2[abxy]\$\d{2}\$")
_BCRYPT_MAX_BYTES: Final = 72  # bcrypt looks at no more of a password
_RAW_URL_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")
_REDACTED: Final = "[REDACTED]"  # how monitoring shows a token

# Plain clients of a server that has users only in its system account are this user, as long as the
# process lives: a reload must not take them for somebody else.
_STAND_IN: Final = f"nats-{nuid()[-8:]}"


class AuthOptionError(MillstreamError):
    """Users contradict each other, or refer to something that does not exist."""


class ClientCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a client, and the listener it used."""

    user: str = ""
    password: str = ""
    token: str = ""
    nkey: str = ""
    jwt: str = ""
    signature: str = ""  # of the nonce, in base64
    nonce: bytes = b""  # as sent in INFO
    connection_type: ConnectionType = ConnectionType.STANDARD
    peer: PeerNames | None = None  # the names in its verified certificate
    host: str = ""  # the address that it comes from


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to log in, with all that is known of the client: for decisions that others make."""

    credentials: ClientCredentials
    id: int = 0
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int = 0
    tls_version: str = ""
    tls_cipher: str = ""
    certificates: tuple[bytes, ...] = ()  # the client's own first, in DER
    certificate_verified: bool = False
    timeout_s: float


Decided = Callable[["Identity | None"], None]


class TokenTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a login by a signed token."""

    signer: str  # the key that signed it
    issued_at: int  # seconds of the Unix epoch
    ends: float | None = None  # the same: when the login ends; None: never
    max_subscriptions: int = -1
    max_payload: int = -1
    bearer: bool = False  # nobody had to prove that the token is theirs
    has_default_permissions: bool = False  # those of the account
    name: str = ""
    tags: tuple[str, ...] = ()
    token: str = ""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a client."""

    user: str = ""  # name, nkey or a stand-in for a token, as monitoring shows it
    label: str = ""  # the same with its kind, as logs show it: `user:me`, `nkey:U…`, `token`
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None  # None: everything
    nkey: str = ""  # if it was authenticated by one
    connection_types: frozenset[ConnectionType] | None = None  # None: any
    grant: TokenTerms | None = None  # None: not by a token

    @property
    def is_user(self) -> bool:
        """Return True if `user` is a user name, not an nkey or the stand-in for a token."""
        return self.label.startswith("user:")

    @classmethod
    def unchecked(cls, credentials: ClientCredentials) -> "Identity":
        """Return the identity that a client claims, for listeners without authentication."""
        if credentials.nkey:
            return cls(user=credentials.nkey, label=f"nkey:{credentials.nkey}")
        if credentials.user:
            return cls(user=credentials.user, label=f"user:{credentials.user}")
        if credentials.token:
            return cls(user=_REDACTED, label="token")
        return cls()


class Candidate:
    """An identity that the client may have, to be verified."""

    __slots__ = ("_check", "ask", "identity", "needs_account", "secret", "slow")

    def __init__(
        self,
        identity: Identity,
        check: Callable[[], bool] | None = None,
        *,
        secret: str = "",
        slow: bool = False,
        needs_account: str = "",
        ask: Callable[[Login, Decided], None] | None = None,
    ) -> None:
        self.identity = identity
        self.ask = ask  # somebody else decides, and calls back within the time of the login
        self.needs_account = needs_account  # to be looked up before this can be decided
        self.secret = secret  # the configured password that is asked for
        self.slow = slow  # verify in a worker thread
        self._check = check

    def verify(self) -> Identity | None:
        """Return the identity if the proof holds, else None.  Safe to call in any thread."""
        if self.ask is not None:
            return None
        return self.identity if self._check is None or self._check() else None


class _Simple(msgspec.Struct, frozen=True):
    """The credentials of a listener without users, and its `no_auth_user`."""

    username: str
    password: str
    token: str
    no_auth_user: str


class BrokerAuthenticator(Protocol):
    """Knows the users of a server; rebuilt when the configuration changes."""

    required: bool
    needs_nonce: bool
    has_plain_passwords: bool
    has_slow_users: bool

    def required_for(self, kind: ConnectionType) -> bool: ...
    def announced_for(self, kind: ConnectionType) -> bool: ...
    def connect_may_be_skipped(self, kind: ConnectionType) -> bool: ...
    def account_of_user(self, name: str) -> str | None: ...
    def account_of_nkey(self, nkey: str) -> str | None: ...
    def secret_of(self, identity: Identity) -> str: ...
    def still_known(self, identity: Identity) -> Identity | None: ...
    def candidate(self, credentials: ClientCredentials) -> Candidate | None: ...


class ClientAuthenticator:
    """The users of a configuration."""

    def __init__(self, options: BrokerOptions) -> None:
        authorization, websocket = options.authorization, options.websocket
        self._users = {user.name: user for user in authorization.users if not user.nkey}
        self._nkeys = {user.nkey: user for user in authorization.users if user.nkey}
        _check_options(options, self._users, self._nkeys)
        no_auth_user = authorization.no_auth_user
        if _only_system_users(options):
            self._users[_STAND_IN] = User(name=_STAND_IN, password=nuid())
            no_auth_user = _STAND_IN
        self._default_permissions = authorization.default_permissions
        self._plain = _Simple(
            authorization.username, authorization.password, authorization.token, no_auth_user
        )
        self._websocket: _Simple | None = None
        if websocket is not None and (websocket.username or websocket.token or websocket.no_auth_user):
            self._websocket = _Simple(
                websocket.username, websocket.password, websocket.token, websocket.no_auth_user
            )
        self._maps_certificates = _maps(options.tls)
        self._websocket_maps_certificates = websocket is not None and _maps(websocket.tls)
        self.required = authorization.required
        self.needs_nonce = bool(self._nkeys)
        if self._nkeys:
            nkeys.prepare()
        self.has_plain_passwords = any(
            user.password and not is_bcrypt(user.password)
            for user in self._users.values()
            if user.name != _STAND_IN
        ) or bool(authorization.password and not is_bcrypt(authorization.password))
        self.has_slow_users = any(is_bcrypt(user.password) for user in self._users.values())

    def required_for(self, kind: ConnectionType) -> bool:
        """Return True if a client of this listener must authenticate, possibly as the `no_auth_user`."""
        return self.required or (kind is ConnectionType.WEBSOCKET and self._websocket is not None)

    def announced_for(self, kind: ConnectionType) -> bool:
        """Return True if the first INFO has `auth_required`."""
        if kind is ConnectionType.WEBSOCKET:
            return self.required_for(kind)
        return self.required and self._plain.no_auth_user in ("", _STAND_IN)

    def connect_may_be_skipped(self, kind: ConnectionType) -> bool:
        """Return True if a client may start with another operation than CONNECT."""
        if not self.required_for(kind):
            return True
        name = self._plain.no_auth_user
        if kind is ConnectionType.WEBSOCKET and self._websocket is not None:
            name = self._websocket.no_auth_user or name
        user = self._users.get(name) if name else None
        return user is not None and _is_allowed(user, kind)

    def account_of_user(self, name: str) -> str | None:
        """Return the account of a configured user, or None."""
        user = self._users.get(name)
        return user.account if user is not None else None

    def account_of_nkey(self, nkey: str) -> str | None:
        user = self._nkeys.get(nkey)
        return user.account if user is not None else None

    def secret_of(self, identity: Identity) -> str:
        """Return the configured password or token of an identity; empty if it uses none."""
        if identity.nkey:
            return ""
        user = self._users.get(identity.user) if identity.is_user else None
        if user is not None:
            return user.password
        for simple in (self._plain, self._websocket):
            if simple is not None and identity.is_user and simple.username == identity.user:
                return simple.password
            if simple is not None and identity.label == "token" and simple.token:
                return simple.token
        return ""

    def still_known(self, identity: Identity) -> Identity | None:
        """Return the identity that a connected client keeps after a reload, or None if its user is gone."""
        if identity.nkey:
            user = self._nkeys.get(identity.nkey)
        else:
            user = self._users.get(identity.user) if identity.is_user else None
        if user is not None:
            return self._identity(user) if user.account == identity.account else None
        if identity.account != GLOBAL_ACCOUNT or identity.nkey:
            return None
        if not self.required:
            return identity
        for simple in (self._plain, self._websocket):
            if simple is not None and identity.is_user and simple.username == identity.user:
                return identity
            if simple is not None and identity.label == "token" and simple.token:
                return identity
        return None

    def candidate(self, credentials: ClientCredentials) -> Candidate | None:
        """Return whom to check the client against; None if it is refused at once."""
        kind = credentials.connection_type
        if not self.required_for(kind):
            return Candidate(Identity.unchecked(credentials))
        simple = self._plain
        if kind is ConnectionType.WEBSOCKET and self._websocket is not None:
            simple = self._websocket
        silent = not (credentials.user or credentials.password or credentials.token)
        if self._nkeys:
            nkey = credentials.nkey
            if silent and not nkey and simple.no_auth_user in self._nkeys:
                nkey = simple.no_auth_user
            if nkey:
                return self._nkey_candidate(nkey, credentials, simple.no_auth_user)
        if self._users:
            if self._maps(kind):
                return self._certificate_candidate(credentials)
            if silent and simple.no_auth_user in self._users:
                stand_in = self._users[simple.no_auth_user]
                credentials = replace(credentials, user=stand_in.name, password=stand_in.password)
            if credentials.user:
                return self._user_candidate(credentials, simple.no_auth_user)
        return _simple_candidate(credentials, simple)

    def _nkey_candidate(
        self, nkey: str, credentials: ClientCredentials, no_auth_user: str
    ) -> Candidate | None:
        user = self._nkeys.get(nkey)
        if user is None or not _is_allowed(user, credentials.connection_type):
            return None
        identity = self._identity(user)
        if nkey == no_auth_user:
            return Candidate(identity)
        signature = decode_signature(credentials.signature)
        if not signature:
            return None
        return Candidate(identity, lambda: nkeys.verify(nkey, signature, credentials.nonce))

    def _certificate_candidate(self, credentials: ClientCredentials) -> Candidate | None:
        if credentials.peer is None:
            return None
        kind = credentials.connection_type
        allowed = [user.name for user in self._users.values() if _is_allowed(user, kind)]
        name = credentials.peer.match(allowed)
        if name is None:
            return None
        # A password that was configured besides is still asked for.
        user = self._users[name]
        return _password_candidate(user.password, credentials.password, self._identity(user))

    def _user_candidate(self, credentials: ClientCredentials, no_auth_user: str) -> Candidate | None:
        user = self._users.get(credentials.user)
        if user is None or not _is_allowed(user, credentials.connection_type):
            return None
        if user.password == "" and user.name != no_auth_user and self._is_mapped_to(user):
            return None  # a user without a password on another listener's certificates is that and only that
        return _password_candidate(user.password, credentials.password, self._identity(user))

    def _identity(self, user: User) -> Identity:
        permissions = user.permissions
        if permissions is None and user.account == GLOBAL_ACCOUNT:
            permissions = self._default_permissions  # those of an account are settled where it is read
        name = user.nkey or user.name
        return Identity(
            user=name,
            label=f"nkey:{name}" if user.nkey else f"user:{name}",
            account=user.account,
            permissions=permissions,
            nkey=user.nkey,
            connection_types=user.connection_types,
        )

    def _maps(self, kind: ConnectionType) -> bool:
        if kind is ConnectionType.WEBSOCKET:
            return self._websocket_maps_certificates
        return self._maps_certificates

    def _is_mapped_to(self, user: User) -> bool:
        """Return True if some listener's certificates could identify this user."""
        return any(
            self._maps(kind) and _is_allowed(user, kind)
            for kind in (ConnectionType.STANDARD, ConnectionType.WEBSOCKET)
        )


def raw_user(credentials: ClientCredentials) -> str:
    """Return the user that a client claims to be, as monitoring shows it."""
    return credentials.nkey or credentials.user or (_REDACTED if credentials.token else "")


def denied(permissions: Permissions | None, subject: str) -> Permissions:
    """Return the permissions without that to publish to a subject."""
    permissions = permissions or Permissions()
    publish = permissions.publish
    return replace(permissions, publish=replace(publish, deny=(*publish.deny, subject)))


def is_bcrypt(password: str) -> bool:
    """Return True if a configured password is a bcrypt hash."""
    return _BCRYPT.match(password) is not None


def passwords_match(configured: str, given: str) -> bool:
    """Return True if `given` is the configured password; the duration does not depend on the difference."""
    secret = given.encode("utf-8", "surrogatepass")
    # Here, because a server without passwords starts without them.
    if not is_bcrypt(configured):
        import hmac

        return hmac.compare_digest(configured.encode("utf-8", "surrogatepass"), secret)
    import bcrypt

    try:
        return bcrypt.checkpw(secret[:_BCRYPT_MAX_BYTES], configured.encode())
    except ValueError:  # it only looks like a hash
        return False


def decode_signature(text: str) -> bytes | None:
    """Decode a signature in unpadded base64url or, from some clients, plain base64; None if invalid."""
    try:
        if _RAW_URL_BASE64.fullmatch(text):
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _simple_candidate(credentials: ClientCredentials, simple: _Simple) -> Candidate | None:
    identity = Identity.unchecked(credentials)
    if simple.token:
        return _password_candidate(simple.token, credentials.token, identity)
    if simple.username and simple.username == credentials.user:
        return _password_candidate(simple.password, credentials.password, identity)
    return None


def _password_candidate(configured: str, given: str, identity: Identity) -> Candidate:
    return Candidate(
        identity,
        lambda: passwords_match(configured, given),
        secret=configured,
        slow=is_bcrypt(configured),
    )


def _is_allowed(user: User, kind: ConnectionType) -> bool:
    return not user.connection_types or kind in user.connection_types


def _maps(tls: TlsOptions | None) -> bool:
    return tls is not None and tls.verify_and_map


def _only_system_users(options: BrokerOptions) -> bool:
    """Return True if users exist only for the system account, so that others need no credentials."""
    authorization = options.authorization
    return (
        bool(authorization.users)
        and not (authorization.no_auth_user or authorization.username or authorization.token)
        and all(user.account == options.system_account for user in authorization.users)
        and all(account.name == options.system_account for account in options.accounts)
    )


def _check_options(options: BrokerOptions, users: dict[str, User], keys: dict[str, User]) -> None:
    authorization, websocket = options.authorization, options.websocket
    if len(users) + len(keys) != len(authorization.users):
        raise AuthOptionError("a user or nkey is listed twice")
    for user in authorization.users:
        _check_user(user)
    if authorization.default_permissions is not None:
        _check_rules(authorization.default_permissions, "default_permissions")
    _check_no_auth_user(authorization.no_auth_user, users, keys)
    if websocket is None:
        return
    _check_no_auth_user(websocket.no_auth_user, users, keys)
    if authorization.users and (websocket.username or websocket.token):
        what = "username" if websocket.username else "token"
        raise AuthOptionError(f"websocket authentication {what} not compatible with presence of users/nkeys")


def _check_user(user: User) -> None:
    if user.nkey:
        try:
            nkeys.check_user_key(user.nkey)
        except nkeys.NkeyError as error:
            raise AuthOptionError(
                f'nkey "{user.nkey}" is not a valid public nkey for a user: {error}'
            ) from None
    elif not user.name:
        raise AuthOptionError("a user needs a name or an nkey")
    if user.permissions is not None:
        kind, name = ("nkey", user.nkey) if user.nkey else ("user", user.name)
        _check_rules(user.permissions, f'{kind} "{name}"')


def _check_rules(permissions: Permissions, owner: str) -> None:
    try:
        check_permissions(permissions)
    except PermissionRuleError as error:
        raise AuthOptionError(f"invalid permissions for {owner}: {error}") from None


def _check_no_auth_user(name: str, users: dict[str, User], keys: dict[str, User]) -> None:
    if not name or name in users or name in keys:
        return
    if not users and not keys:
        raise AuthOptionError(f'no_auth_user: "{name}" present, but users/nkeys are not defined')
    raise AuthOptionError(
        f'no_auth_user: "{name}" not present as user or nkey in authorization block or account configuration'
    )
