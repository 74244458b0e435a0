"""NATS's text format of Ed25519 and X25519 public keys, and the verification of signatures.

    +----------+-------------------+-----------+
    | kind u8  | public key, 32 B  | crc16 LE  |     35 bytes = exactly 56 base32 characters
    +----------+-------------------+-----------+

The kind byte determines the first character of the text: `U` a user, `N` a server, `A` an account, `X` a
curve key.  The CRC is CRC-16/XMODEM over the first 33 bytes.  Only public keys are handled here: the broker
verifies and never signs.
"""

import base64
import binascii
import os
from enum import IntEnum
from typing import Final

from millstream.base.errors import MillstreamError

PUBLIC_KEY_LENGTH: Final = 56  # characters of text
_RAW_LENGTH: Final = 32  # bytes of key


class KeyKind(IntEnum):
    """The kind of a public key; the value is the first byte of the encoding."""

    ACCOUNT = 0 << 3  # A
    CLUSTER = 2 << 3  # C
    SERVER = 13 << 3  # N
    OPERATOR = 14 << 3  # O
    USER = 20 << 3  # U
    CURVE = 23 << 3  # X


class NkeyError(MillstreamError):
    """A text is not a public nkey."""


def encode(kind: KeyKind, raw: bytes) -> str:
    """Return the text of a 32-byte public key."""
    if len(raw) != _RAW_LENGTH:
        raise NkeyError(f"a public key has {_RAW_LENGTH} bytes, not {len(raw)}")
    body = bytes([kind]) + raw
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).decode("ascii")


def decode(public_key: str) -> tuple[KeyKind, bytes]:
    """Return the kind and the 32 bytes of a public key; raise NkeyError with the reason if it is invalid."""
    if public_key.startswith("S"):
        raise NkeyError("this is a seed, which must stay secret; give the public key instead")
    if len(public_key) != PUBLIC_KEY_LENGTH:
        raise NkeyError(f"a public nkey has {PUBLIC_KEY_LENGTH} characters, not {len(public_key)}")
    try:
        data = base64.b32decode(public_key)
    except (binascii.Error, ValueError):
        raise NkeyError("a public nkey is made of A-Z and 2-7 only") from None
    body, checksum = data[:-2], data[-2:]
    if binascii.crc_hqx(body, 0).to_bytes(2, "little") != checksum:
        raise NkeyError("the checksum of the nkey does not fit: it was mistyped or cut")
    try:
        kind = KeyKind(body[0])
    except ValueError:
        raise NkeyError(f"no kind of public nkey starts with {public_key[0]!r}") from None
    return kind, body[1:]


def check_user_key(public_key: str) -> None:
    """Raise NkeyError unless this is the public nkey of a user."""
    kind, _ = decode(public_key)
    if kind is not KeyKind.USER:
        raise NkeyError(f"the nkey of a user starts with 'U', not {public_key[0]!r}")


def prepare() -> None:
    """Import what ``verify`` needs, so that the first client does not wait for it."""
    import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401


def verify(public_key: str, signature: bytes, data: bytes) -> bool:
    """Return True if `signature` over `data` was made with the private key of `public_key`.

    An invalid key returns False and raises nothing, because the text comes from a client.
    """
    # Imported here because most servers use no nkeys and start faster without it.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        kind, raw = decode(public_key)
        if kind is KeyKind.CURVE:
            return False
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, data)
    except (NkeyError, InvalidSignature, ValueError):
        return False
    return True


def new_server_id() -> str:
    """Return a new server id: random bytes, because the server never signs."""
    return encode(KeyKind.SERVER, os.urandom(_RAW_LENGTH))


def new_xkey() -> str:
    """Return a new public curve key for INFO; any 32 bytes are valid."""
    return encode(KeyKind.CURVE, os.urandom(_RAW_LENGTH))
