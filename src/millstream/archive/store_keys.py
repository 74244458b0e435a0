"""The encryption of nats-server's file store: keys that are derived, keys in files, and what they open.

    key of an asset's key file    HMAC-SHA-256 with the configured key over "<account><context>"
    context                       <stream>, <stream>.<consumer> or <stream>:<block>
    key file                      nonce, sealed 32 bytes: the asset's own key
    meta.inf, o.dat, index.db     nonce, sealed content
    <n>.blk                       a key stream over the file, with the nonce of its key file

Two ciphers: XChaCha20-Poly1305 with a nonce of 24 bytes (blocks: XChaCha20), and AES-256-GCM with one of 16
(blocks: AES-256-CTR).  A store may have files of both and of a previous key, because the server converts
them one by one.  So all of them are tried.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Sequence
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from millstream.archive.errors import ArchiveError

_MASK: Final = 0xFFFF_FFFF
_CHACHA_CONSTANT: Final = b"expand 32-byte k"
_QUARTERS: Final = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
_SHORTEST_KEY_FILE: Final = 64


class StoreKeyError(ArchiveError):
    """Raised if the key of a store is missing or wrong."""


class _StoreCipher(Protocol):
    nonce_size: int

    def open(self, key: bytes, data: bytes) -> bytes:
        """Return the content of nonce and sealed bytes; raise InvalidTag."""

    def decrypt(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        """Apply the key stream to a block."""


class _XChaCha:
    nonce_size = 24

    def open(self, key: bytes, data: bytes) -> bytes:
        inner, nonce = _extended(key, data[: self.nonce_size])
        return ChaCha20Poly1305(inner).decrypt(nonce, data[self.nonce_size :], None)

    def decrypt(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        inner, rest = _extended(key, nonce)
        cipher = Cipher(algorithms.ChaCha20(inner, bytes(4) + rest), mode=None)  # the counter begins at 0
        return cipher.decryptor().update(data)


class _Aes:
    nonce_size = 16

    def open(self, key: bytes, data: bytes) -> bytes:
        return AESGCM(key).decrypt(data[: self.nonce_size], data[self.nonce_size :], None)

    def decrypt(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        return Cipher(algorithms.AES(key), modes.CTR(nonce)).decryptor().update(data)


class AssetKey:
    """The key of one stream, consumer or block."""

    def __init__(self, cipher: _StoreCipher, key: bytes, nonce: bytes) -> None:
        self._cipher = cipher
        self._key = key
        self._nonce = nonce

    def open(self, data: bytes) -> bytes:
        """Return the content of a sealed file; raise ArchiveError if it was altered."""
        try:
            return self._cipher.open(self._key, data)
        except (InvalidTag, ValueError) as error:
            raise ArchiveError("it cannot be decrypted") from error

    def decrypt(self, data: bytes) -> bytes:
        """Return the content of a block."""
        return self._cipher.decrypt(self._key, self._nonce, data)


class StoreKeys:
    """The keys of a store: the configured one and perhaps a previous one; none if there are none."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys = [key.encode() for key in keys if key]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def asset_key(self, account: str, context: str, key_file: bytes) -> AssetKey:
        """Return the key in a key file; raise ArchiveError if no key of the store opens it."""
        if len(key_file) >= _SHORTEST_KEY_FILE:
            for key in self._keys:
                outer = hmac.digest(key, (account + context).encode(), "sha256")
                for cipher in _CIPHERS:
                    try:
                        inner = cipher.open(outer, key_file)
                    except (InvalidTag, ValueError):
                        continue
                    if len(inner) == len(outer):
                        return AssetKey(cipher, inner, key_file[: cipher.nonce_size])
        raise StoreKeyError("it is encrypted, and not with the key that was given")


_CIPHERS: Final[tuple[_StoreCipher, ...]] = (_XChaCha(), _Aes())


def _extended(key: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """Return key and nonce of ChaCha20 for those of XChaCha20 (HChaCha20)."""
    if len(nonce) != _XChaCha.nonce_size:
        raise ValueError("a nonce has 24 bytes")
    words = list(struct.unpack("<16I", _CHACHA_CONSTANT + key + nonce[:16]))
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            for left, right, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                words[left] = (words[left] + words[right]) & _MASK
                mixed = words[turned] ^ words[left]
                words[turned] = ((mixed << bits) | (mixed >> (32 - bits))) & _MASK
    return struct.pack("<8I", *words[:4], *words[12:]), bytes(4) + nonce[16:]
