"""Operators, accounts and users with keys, and the tokens that they sign: what `nsc` makes, for tests.

    operator = Operator()
    account = operator.account("A", limits={"conn": 2})
    user = account.user("ann")
    server = shared_server(config=operator.config([account]))
    client = user.join(dial, server)

Keys come from names, so tokens are the same in every run but for their times, and servers can be shared.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import nkeys

from tests.kits.wire import WireClient, WireError

UNLIMITED = {"subs": -1, "data": -1, "payload": -1}
ACCOUNT_LIMITS = {**UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
JETSTREAM = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
ISSUED = int(time.time()) - 60


class Key:
    """A key pair.  `kind`: O an operator, A an account, U a user, X a curve key."""

    def __init__(self, kind: str, name: str) -> None:
        prefix = {
            "O": nkeys.PREFIX_BYTE_OPERATOR,
            "A": nkeys.PREFIX_BYTE_ACCOUNT,
            "U": nkeys.PREFIX_BYTE_USER,
            "N": nkeys.PREFIX_BYTE_SERVER,
        }[kind]
        raw = hashlib.sha256(f"{kind} {name}".encode()).digest()
        self.seed = nkeys.encode_seed(raw, prefix)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public = self._pair.public_key.decode()

    def sign(self, data: bytes) -> bytes:
        return bytes(self._pair.sign(data))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(
    key: Key,
    kind: str,
    subject: str,
    body: dict[str, Any],
    *,
    version: int = 2,
    **claims: Any,
) -> str:
    """Return a signed token; further claims, such as `exp`, are added or replace others."""
    header = {"typ": "JWT", "alg": "ed25519-nkey" if version == 2 else "ed25519"}
    payload = {"jti": "", "iat": ISSUED, "iss": key.public, "sub": subject, **claims}
    if version == 2:
        payload["nats"] = {"type": kind, "version": 2, **body}
    else:
        payload |= {"type": kind, "nats": body}
        if account := body.pop("issuer_account", ""):
            payload["issuer_account"] = account
    identified = json.dumps(payload, sort_keys=True).encode()
    payload["jti"] = base64.b32encode(hashlib.sha256(identified).digest()).decode().rstrip("=")
    parts = [encoded(json.dumps(part).encode()) for part in (header, payload)]
    signed = ".".join(parts) if version == 2 else parts[1]
    return ".".join([*parts, encoded(key.sign(signed.encode()))])


def joined_before_expiry(join: Callable[[int], WireClient]) -> WireClient:
    """Return the client that `join` returns for the time at which its login expires.

    On a busy machine this time may come before the login; `join` then raises WireError and gets a later one.
    """
    for seconds in (1, 4, 16):
        try:
            return join(int(time.time()) + seconds)
        except WireError:
            continue
    return join(int(time.time()) + 64)


def last_words(client: WireClient) -> bytes:
    """Return what the server sends until it closes the connection, without the PINGs of a long wait."""
    return client.read_until_closed().replace(b"PING\r\n", b"")


class User:
    """A user with its token."""

    def __init__(self, key: Key, text: str) -> None:
        self.key = key
        self.public = key.public
        self.token = text

    def signature(self, nonce: str) -> str:
        return encoded(self.key.sign(nonce.encode()))

    def credentials(self) -> str:
        """Return the content of a file of credentials."""
        seed = self.key.seed.decode()
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )

    def join(self, dial: Any, server: Any, **options: Any) -> Any:
        """Connect, log in and return the client."""
        client = dial(server)
        nonce = client.read_info()["nonce"]
        client.handshake(read_info=False, jwt=self.token, sig=self.signature(nonce), **options)
        return client


class Account:
    """An account, and who signs for it."""

    def __init__(self, operator: "Operator", name: str, **body: Any) -> None:
        self.operator = operator
        self.name = name
        self.key = Key("A", name)
        self.public = self.key.public
        self.body = body
        self.claims: dict[str, Any] = {}

    @property
    def token(self) -> str:
        return self.signed(self.operator.key)

    def signed(self, key: Key, *, version: int = 2, **changes: Any) -> str:
        """Return the account's token, signed by `key`, with some changes of its body."""
        body = {**self.body, **changes}
        body["limits"] = {**ACCOUNT_LIMITS, **body.get("limits", {})}
        claims = {"name": self.name, **self.claims}
        return token(key, "account", self.public, body, version=version, **claims)

    def but(self, **changes: Any) -> Self:
        """Return this account with other members of its body, or claims (`exp`, `iat`)."""
        other = type(self)(self.operator, self.name, **self.body)
        claims: dict[str, Any] = {
            name: changes.pop(name) for name in ("exp", "nbf", "iat", "tags") if name in changes
        }
        other.body = {**self.body, **changes}
        other.claims = {**self.claims, **claims}
        return other

    def user(
        self, name: str, *, signer: Key | None = None, scoped: bool = False, version: int = 2, **more: Any
    ) -> User:
        """Return a user: `more` is of its body, or a claim (`exp`, `iat`, `nbf`, `iss`)."""
        key = Key("U", f"{self.name} {name}")
        claims = {each: more.pop(each) for each in ("exp", "nbf", "iat", "iss") if each in more}
        body = {**({} if scoped else UNLIMITED), **more}
        if signer is not None:
            body["issuer_account"] = self.public
        return User(
            key, token(signer or self.key, "user", key.public, body, version=version, name=name, **claims)
        )

    def activation(self, importer: "Account", subject: str, kind: str, **more: Any) -> str:
        """Return a token that lets `importer` import what this account exports."""
        signer: Key = more.pop("signer", self.key)
        body: dict[str, Any] = {"subject": subject, "kind": kind}
        if signer is not self.key:
            body["issuer_account"] = self.public
        return token(signer, "activation", importer.public, body, **more)


class Operator:
    """An operator with a system account."""

    def __init__(self, name: str = "operator", **body: Any) -> None:
        self.key = Key("O", name)
        self.name = name
        self.body = body
        self.system = Account(
            self,
            "SYS",
            exports=[
                {
                    "name": "account-monitoring-services",
                    "subject": "$SYS.REQ.ACCOUNT.*.*",
                    "type": "service",
                    "response_type": "Stream",
                    "account_token_position": 4,
                }
            ],
        )

    @property
    def token(self) -> str:
        body = {"system_account": self.system.public, **self.body}
        return token(self.key, "operator", self.key.public, body, name=self.name)

    def account(self, name: str, **body: Any) -> Account:
        return Account(self, name, **body)

    def config(self, accounts: Iterable[Account | str], more: str = "", resolver: str = "MEMORY") -> str:
        """Return a configuration with these accounts, or tokens `KEY: token`, in memory."""
        lines = [
            each if isinstance(each, str) else f'{each.public}: "{each.token}"'
            for each in (self.system, *accounts)
        ]
        preload = "\n  ".join(lines)
        return (
            f'operator: "{self.token}"\nresolver: {resolver}\nresolver_preload {{\n  {preload}\n}}\n{more}\n'
        )
