"""The keys of a running server: it signs with one, and reads and writes what is encrypted with the other.

Most servers sign nothing and have random bytes for public keys (``nkeys.new_server_id``), because the import
of the cryptography takes longer than the rest of their start.

    +------+-----------+----------------------------------+
    | xkv1 | nonce 24  | X25519, XSalsa20 and Poly1305    |     encrypted for one reader
    +------+-----------+----------------------------------+
"""

import os
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from millstream.base.errors import MillstreamError
from millstream.base.nkeys import KeyKind, NkeyError, decode, encode
from millstream.base.seeds import Signer, make_seed

if TYPE_CHECKING:
    from nacl.public import Box

_VERSION: Final = b"xkv1"
_KEY_BYTES: Final = 32
MISSING: Final = "xkeys need PyNaCl: pip install 'millstream[callout]'"


class SealError(MillstreamError):
    """Something cannot be encrypted, or was not encrypted for us by whom it should have been."""


class ServerKeys:
    """A pair to sign with and a pair to encrypt with, made for one run of a server."""

    def __init__(self) -> None:
        self._signer = Signer(make_seed(KeyKind.SERVER, os.urandom(_KEY_BYTES)))
        self._curve = os.urandom(_KEY_BYTES)
        curve = X25519PrivateKey.from_private_bytes(self._curve)
        self.server_id: Final = self._signer.public_key
        self.xkey: Final = encode(KeyKind.CURVE, curve.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> str:
        """Return the signature in URL-safe base64 without padding."""
        return self._signer.sign(data)

    def seal(self, data: bytes, reader: str) -> bytes:
        """Return the data encrypted for the owner of a public curve key."""
        return _VERSION + bytes(self._box(reader).encrypt(data))

    def open(self, data: bytes, writer: str) -> bytes:
        """Return what the owner of a public curve key encrypted for us; raise SealError if it did not."""
        from nacl.exceptions import CryptoError

        if not data.startswith(_VERSION):
            raise SealError("not encrypted with an xkey")
        try:
            return bytes(self._box(writer).decrypt(data[len(_VERSION) :]))
        except (CryptoError, ValueError, TypeError):
            raise SealError("could not decrypt: the keys do not fit") from None

    def _box(self, other: str) -> "Box":
        if not has_xkeys():
            raise SealError(MISSING)
        from nacl.public import Box, PrivateKey, PublicKey

        try:
            kind, raw = decode(other)
        except NkeyError as error:
            raise SealError(str(error)) from None
        if kind is not KeyKind.CURVE:
            raise SealError("not a public curve key")
        return Box(PrivateKey(self._curve), PublicKey(raw))


def has_xkeys() -> bool:
    """Return True if the library that encrypts is installed."""
    try:
        import nacl.public  # noqa: F401
    except ImportError:
        return False
    return True
