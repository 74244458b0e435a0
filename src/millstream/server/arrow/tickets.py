"""Tickets: proof for some minutes that somebody is a client of this server.

    mrt1.<claims>.<HMAC-SHA-256 of the claims>        both in base64url

A client asks for one over its NATS connection, where it was authenticated in whatever way, and shows it over
HTTP, where nkeys and certificates cannot be asked for.  It says who it is, not what it may do: that is looked
up when it is shown, so it ends with its user.  The key is this process's own: no ticket outlives it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from millstream.broker.auth import Identity

PREFIX: Final = "mrt1."
LIFETIME_NS: Final = 5 * 60 * 1_000_000_000


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    account: str
    user: str
    label: str
    nkey: str
    expires: int  # ns since 1970


class Tickets:
    """Made and checked with one key."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def issue(self, identity: Identity, now_ns: int) -> tuple[str, int]:
        """A ticket, and when it expires."""
        expires = now_ns + LIFETIME_NS
        claims = _Claims(identity.account, identity.user, identity.label, identity.nkey, expires)
        text = _encode(msgspec.json.encode(claims))
        return f"{PREFIX}{text}.{self._seal(text)}", expires

    def check(self, ticket: str, now_ns: int) -> Identity | None:
        """Whose ticket it is; None if it is not one of ours, or has expired."""
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
        return Identity(user=claims.user, label=claims.label, account=claims.account, nkey=claims.nkey)

    def _seal(self, text: str) -> str:
        return _encode(hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
