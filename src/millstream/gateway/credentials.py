"""Credentials from the `Authorization` header, which are passed through to NATS.

They are compared and pooled by a keyed digest, and their `repr` shows nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from typing import Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.base.seeds import Signer, read_credentials
from millstream.gateway.errors import Unauthorized

# random for each process, so a leaked digest is useless elsewhere
_DIGEST_KEY: Final = secrets.token_bytes(32)


class Credentials(msgspec.Struct, frozen=True):
    """Credentials: one of user and password, a token, an nkey seed, the text of a credentials file."""

    user: str = ""
    password: str = ""
    token: str = ""
    nkey_seed: str = ""
    creds_text: str = ""  # JWT and seed

    def __repr__(self) -> str:
        return f"<Credentials {self.digest[:8]}>"

    @property
    def digest(self) -> str:
        """Return a digest that is equal for equal credentials, within this process."""
        parts = (self.user, self.password, self.token, self.nkey_seed, self.creds_text)
        text = "\0".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.blake2b(text.encode(), key=_DIGEST_KEY, digest_size=16).hexdigest()


def parse_authorization(value: str) -> Credentials:
    """Read an `Authorization` header: `Basic`, `Bearer`, `Nkey` or `Creds`."""
    scheme, _, rest = value.strip().partition(" ")
    rest = rest.strip()
    match scheme.lower():
        case "basic":
            try:
                user, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError, ValueError):
                user, colon, password = "", "", ""
            if colon and user:
                return Credentials(user=user, password=password)
        case "bearer":
            if rest:
                return Credentials(token=rest)
        case "nkey":
            if _is_seed_of_user(rest):
                return Credentials(nkey_seed=rest)
        case "creds":
            if text := _creds_text(rest):
                return Credentials(creds_text=text)
    raise Unauthorized("the Authorization header is not understood")


def _creds_text(encoded: str) -> str:
    """Return a credentials file with the JWT and seed of `encoded`; empty if it is no such file."""
    try:
        jwt, seed = read_credentials(base64.b64decode(encoded, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError, ValueError, MillstreamError):
        return ""
    if not jwt or not _is_seed_of_user(seed):
        return ""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def _is_seed_of_user(text: str) -> bool:
    if not text.startswith("SU"):
        return False
    try:
        Signer(text)
    except MillstreamError:
        return False
    return True
