"""Tickets, which prove for some minutes that the bearer is a client of this server.

    mst1.<claims>.<HMAC-SHA-256 of the claims>        both in base64url

A client requests a ticket over its NATS connection, which is authenticated, and shows it over HTTP, where
nkeys and certificates cannot be used.  A ticket names the user and not the permissions, which are looked up
when it is shown; it ends with its user and with the user's password.  The key belongs to this process, so no
ticket outlives it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from millstream.broker.auth import Identity
from millstream.broker.options import ConnectionType

PREFIX: Final = "mst1."
LIFETIME_NS: Final = 5 * 60 * 1_000_000_000


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    account: str
    user: str
    label: str
    nkey: str
    kind: str  # of the connection that requested the ticket
    proof: str  # digest of the user's secret at that time
    expires: int  # ns since 1970


class Tickets:
    """Issues and checks tickets with one key."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def issue(
        self,
        identity: Identity,
        now_ns: int,
        secret: str = "",
        kind: ConnectionType = ConnectionType.STANDARD,
    ) -> tuple[str, int]:
        """Return a ticket and its expiry time."""
        expires = now_ns + LIFETIME_NS
        claims = _Claims(
            identity.account,
            identity.user,
            identity.label,
            identity.nkey,
            kind.value,
            self._seal(secret),
            expires,
        )
        text = _encode(msgspec.json.encode(claims))
        return f"{PREFIX}{text}.{self._seal(text)}", expires

    def check(
        self, ticket: str, now_ns: int, secret_of: Callable[[Identity], str] = lambda identity: ""
    ) -> Identity | None:
        """Return the user of a ticket, with the kind of connection that requested it.

        Returns None if the ticket is not ours or has expired, or the user's secret has changed.
        """
        text, _, seal = ticket.removeprefix(PREFIX).partition(".")
        if not hmac.compare_digest(seal.encode(), self._seal(text).encode()):
            return None
        try:
            claims = msgspec.json.decode(
                base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Claims
            )
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None
        if claims.expires <= now_ns:
            return None
        identity = Identity(
            user=claims.user,
            label=claims.label,
            account=claims.account,
            nkey=claims.nkey,
            connection_types=frozenset({ConnectionType(claims.kind)}),
        )
        if not hmac.compare_digest(claims.proof, self._seal(secret_of(identity))):
            return None
        return identity

    def _seal(self, text: str) -> str:
        return _encode(hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
