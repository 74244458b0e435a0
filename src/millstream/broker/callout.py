"""Auth callout: ask a service on NATS who a client is, and check what it answers.

    client ──CONNECT──▶ Callouts.ask ──$SYS.REQ.USER.AUTH──▶ service, in the account of the callout
                             │       ◀──── signed answer ───┘
                             └──▶ Identity, or nobody

The request names a user key that is made for it, and an answer has to be about that key and this server, so
no answer can be used twice.  The first answer decides.  Without one the client is refused when the time of
its login is over.  Whose signature counts, and where a user is placed, differs between a configuration
(``CalloutAuthenticator``) and operator mode (``operator.callout``); both are ``CalloutRules``.

What a service does wrong is logged with nats-server's words; the client gets to know only that it is refused.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from millstream.base.ids import secret_token
from millstream.base.nkeys import KeyKind, encode
from millstream.base.server_keys import SealError, ServerKeys
from millstream.broker.auth import (
    Candidate,
    ClientAuthenticator,
    ClientCredentials,
    Decided,
    Identity,
    Login,
    denied,
    raw_user,
)
from millstream.broker.info import SERVER_VERSION
from millstream.broker.internal import InternalMessage
from millstream.broker.options import BrokerOptions, CalloutOptions, ConnectionType
from millstream.broker.user_claims import connection_types_of, identity_of, may_come_from
from millstream.claims.callout import (
    AskingServer,
    AuthorizationRequest,
    CalloutResponse,
    ClientDetails,
    ClientTls,
    GivenOptions,
    read_response,
    signed_request,
)
from millstream.claims.decode import read_user
from millstream.claims.token import ClaimsError
from millstream.claims.types import UserClaims, UserLimits
from millstream.claims.validation import user_issues
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker

_log = logging.getLogger("millstream.broker")

AUTH_SUBJECT: Final = "$SYS.REQ.USER.AUTH"
_XKEY_HEADER: Final = b"Nats-Server-Xkey"
_TOKEN_START: Final = b"eyJ"
_USER_KEY_BYTES: Final = 32


class CalloutRules(Protocol):
    """Whom to ask about a client, and whose answer counts."""

    @property
    def account(self) -> str:
        """Return the account in which the service listens."""

    @property
    def subject(self) -> str:
        """Return the key that the request is addressed to."""

    @property
    def xkey(self) -> str:
        """Return the curve key of the service; empty if nothing is encrypted."""

    def knows(self, signer: str) -> bool:
        """Return True if this key may sign answers that are not encrypted."""

    def target(self, user: UserClaims) -> str:
        """Return the account of a user; raise ClaimsError if its signer may not place it there."""

    def identity(self, user: UserClaims, login: Login, target: str) -> Identity:
        """Return the identity of a user; raise ClaimsError if it may not log in."""


class _Question(msgspec.Struct):
    """A login that a service was asked about."""

    rules: CalloutRules
    login: Login
    user_key: str
    done: Decided
    ends: list[Callable[[], object]]  # what to give up when it is decided


class Callouts:
    """The questions of a broker that are not answered yet."""

    def __init__(self, broker: Broker, keys: ServerKeys) -> None:
        self._broker = broker
        self._keys = keys
        self._inbox = b"$SYS._INBOX.%b." % secret_token().encode()

    def ask(self, rules: CalloutRules, login: Login, done: Decided) -> None:
        """Ask the service about a login; `done` is called later, with None if nobody is let in."""
        broker, account = self._broker, self._broker.accounts.get(rules.account)
        user_key = encode(KeyKind.USER, os.urandom(_USER_KEY_BYTES))
        question = _Question(rules, login, user_key, done, [])
        if account is None:
            self._refuse(question, f'No valid account "{rules.account}" for auth callout request')
            return
        try:
            payload, block = self._request(question)
        except SealError as error:
            self._refuse(
                question, f'Error encrypting auth request claim on account "{rules.account}": {error}'
            )
            return
        reply = self._inbox + secret_token().encode()
        subscription = broker.subscribe(account, reply, partial(self._take, question, account))
        timer = broker.turns.later(login.timeout_s, self._late, question)
        question.ends += [timer.cancel, lambda: broker.unsubscribe(account, subscription)]
        broker.publish(account, AUTH_SUBJECT.encode(), payload, reply=reply, headers=block)

    def _request(self, question: _Question) -> tuple[bytes, bytes | None]:
        """Return the payload of a request, and its headers."""
        broker, keys, rules, login = self._broker, self._keys, question.rules, question.login
        now = int(time.time())
        text = signed_request(
            AuthorizationRequest(
                server_id=AskingServer(
                    name=broker.identity.server_name,
                    host=broker.options.host,
                    id=keys.server_id,
                    version=SERVER_VERSION,
                    tags=broker.options.server_tags,
                    xkey=keys.xkey if rules.xkey else "",
                ),
                user_nkey=question.user_key,
                client_info=_details(login),
                connect_opts=_options(login),
                client_tls=_tls(login),
            ),
            issuer=keys.server_id,
            subject=rules.subject,
            issued_at=now,
            expires=now + max(1, int(login.timeout_s)),
            sign=keys.sign,
        ).encode()
        if not rules.xkey:
            return text, None
        return keys.seal(text, rules.xkey), headers.make((_XKEY_HEADER, keys.xkey.encode()))

    def _take(self, question: _Question, account: Account, message: InternalMessage) -> None:
        # Not within the delivery: letting a client in delivers further messages.
        self._broker.turns.soon(self._answered, question, message.payload)

    def _late(self, question: _Question) -> None:
        self._refuse(
            question,
            f'Authorization callout response not received in time on account "{question.rules.account}"',
            level=logging.DEBUG,
        )

    def _answered(self, question: _Question, payload: bytes) -> None:
        if question.done is _ignore:
            return
        try:
            user = self._user(question, payload)
            target = question.rules.target(user)
        except (ClaimsError, SealError) as error:
            self._refuse(question, str(error))
            return
        registry = self._broker.registry
        if registry is None or target in self._broker.accounts:
            self._admit(question, user, target)
        else:
            registry.look_up(target, partial(self._broker.turns.soon, self._admit, question, user, target))

    def _user(self, question: _Question, payload: bytes) -> UserClaims:
        """Return the user of an answer; raise ClaimsError or SealError if it is not one to our question."""
        rules = question.rules
        if not payload:
            raise ClaimsError(f'auth callout violation: "no reason supplied" on account "{rules.account}"')
        encrypted = bool(rules.xkey) and not payload.startswith(_TOKEN_START)
        if encrypted:
            try:
                payload = self._keys.open(payload, rules.xkey)
            except SealError as error:
                raise SealError(
                    f'error decrypting auth callout response on account "{rules.account}": {error}'
                ) from None
        response = read_response(payload.decode(errors="replace"))
        _check_response(response, question, self._keys.server_id, encrypted)
        user = read_user(response.jwt)
        if issues := user_issues(user):
            raise ClaimsError(f"error validating user JWT: {issues[0].description}")
        if user.token.subject != question.user_key:
            raise ClaimsError(
                f'expected authorized user of "{question.user_key}" but got "{user.token.subject}" on '
                f'account "{rules.account}"'
            )
        return user

    def _admit(self, question: _Question, user: UserClaims, target: str) -> None:
        if question.done is _ignore:
            return
        if target not in self._broker.accounts:
            self._refuse(
                question,
                f'No valid account "{target}" for auth callout response on account '
                f'"{question.rules.account}": account missing',
            )
            return
        try:
            identity = question.rules.identity(user, question.login, target)
        except ClaimsError as error:
            self._refuse(question, str(error))
            return
        if target == question.rules.account:
            identity = msgspec.structs.replace(
                identity, permissions=denied(identity.permissions, AUTH_SUBJECT)
            )
        self._end(question, identity)

    def _refuse(self, question: _Question, reason: str, level: int = logging.WARNING) -> None:
        if question.done is not _ignore:
            _log.log(level, "%s%s", reason[:1].upper(), reason[1:])
            self._end(question, None)

    def _end(self, question: _Question, identity: Identity | None) -> None:
        done, question.done = question.done, _ignore
        for end in question.ends:
            end()
        self._broker.turns.soon(done, identity)


class CalloutAuthenticator(ClientAuthenticator):
    """The users of a configuration that delegates all logins but those of the service itself."""

    def __init__(self, options: BrokerOptions, ask: Callable[[CalloutRules, Login, Decided], None]) -> None:
        super().__init__(options)
        assert options.authorization.callout is not None
        self._callout = options.authorization.callout
        self._ask = partial(ask, _ConfiguredRules(self._callout))

    def candidate(self, credentials: ClientCredentials) -> Candidate | None:
        """Return whom to check the client against, which is for the service to decide in most cases."""
        known = super().candidate(credentials)
        user = raw_user(credentials) or (known.identity.user if known is not None else "")
        if known is not None and known.identity.user in self._callout.users:
            if known.identity.account == self._callout.account:
                known.identity = msgspec.structs.replace(
                    known.identity, permissions=denied(known.identity.permissions, AUTH_SUBJECT)
                )
            return known
        if user in self._callout.users:
            return None
        if known is not None and self._decides_itself(known):
            return known
        # As in nats-server, a token of a user means nothing outside of operator mode.
        asked = msgspec.structs.replace(credentials, user=credentials.user or user, jwt="")
        if credentials.nkey or credentials.token:
            asked = msgspec.structs.replace(credentials, jwt="")
        return Candidate(
            Identity(account=self._callout.account),
            ask=lambda login, done: self._ask(msgspec.structs.replace(login, credentials=asked), done),
        )

    def _decides_itself(self, known: Candidate) -> bool:
        """Return True for a user of an account that is not delegated; a wrong password is for the service."""
        delegated = self._callout.delegated
        if not delegated or known.identity.account in delegated:
            return False
        return known.slow or known.verify() is not None

    def still_known(self, identity: Identity) -> Identity | None:
        """Return the identity of a client that the service let in, while its key signs users."""
        grant = identity.grant
        if grant is None:
            return super().still_known(identity)
        gone = grant.signer != self._callout.issuer or (grant.ends is not None and grant.ends <= time.time())
        return None if gone else identity


class _ConfiguredRules:
    """A service with one key, whose users name their account as the audience of their token."""

    def __init__(self, options: CalloutOptions) -> None:
        self.account = options.account
        self.subject = self._issuer = options.issuer
        self.xkey = options.xkey

    def knows(self, signer: str) -> bool:
        return signer == self._issuer

    def target(self, user: UserClaims) -> str:
        if user.issuer_account:
            raise ClaimsError(
                f'error non operator mode account "{self.account}": attempted to use issuer_account'
            )
        if user.token.issuer != self._issuer:
            raise ClaimsError(
                f'wrong issuer for auth callout response on account "{self.account}", expected '
                f'"{self._issuer}" got "{user.token.issuer}"'
            )
        return user.token.audience

    def identity(self, user: UserClaims, login: Login, target: str) -> Identity:
        identity = identity_of(user, user.body, target, None, None, login.credentials.host)
        return admitted(user, user.body, login, identity)


def admitted(user: UserClaims, limits: UserLimits, login: Login, identity: Identity) -> Identity:
    """Return the identity of a user that a service let in; raise ClaimsError if it came the wrong way."""
    allowed = connection_types_of(limits)
    if allowed is not None and login.credentials.connection_type not in allowed:
        raise ClaimsError("Connection type not allowed")
    if not may_come_from(limits, login.credentials.host):
        raise ClaimsError("Bad src Ip")
    name = user.token.name or raw_user(login.credentials)
    return msgspec.structs.replace(identity, user=name, label=f"callout:{name}", connection_types=allowed)


def _ignore(identity: Identity | None) -> None:
    """Stand for the end of a login that is over."""


def _check_response(response: CalloutResponse, question: _Question, server_id: str, encrypted: bool) -> None:
    if response.token.subject != question.user_key:
        raise ClaimsError("auth callout violation: auth callout response is not for expected user")
    if response.token.audience != server_id:
        raise ClaimsError("auth callout violation: auth callout response is not for server")
    if response.error:
        raise ClaimsError(f"auth callout service returned an error: {response.error}")
    # Nobody but the service can have encrypted it.
    if not encrypted and not question.rules.knows(response.signer):
        raise ClaimsError("auth callout signing key is unknown")


def _details(login: Login) -> ClientDetails:
    credentials = login.credentials
    return ClientDetails(
        host=credentials.host,
        id=login.id,
        user=raw_user(credentials),
        name=login.name,
        kind="Client",
        type="websocket" if credentials.connection_type is ConnectionType.WEBSOCKET else "nats",
        nonce=credentials.nonce.decode() if credentials.signature else "",
    )


def _options(login: Login) -> GivenOptions:
    credentials = login.credentials
    return GivenOptions(
        jwt=credentials.jwt,
        nkey=credentials.nkey,
        sig=credentials.signature,
        auth_token=credentials.token,
        user=credentials.user,
        password=credentials.password,
        name=login.name,
        lang=login.lang,
        version=login.version,
        protocol=login.protocol,
    )


def _tls(login: Login) -> ClientTls | None:
    if not login.tls_version:
        return None
    import ssl

    certificates = tuple(ssl.DER_cert_to_PEM_cert(each) for each in login.certificates)
    verified = login.certificate_verified
    return ClientTls(
        version=login.tls_version,
        cipher=login.tls_cipher,
        certs=() if verified else certificates,
        verified_chains=(certificates,) if verified and certificates else (),
    )
