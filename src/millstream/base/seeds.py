"""The secret half of an nkey: read a seed and sign with it.

    +------------------+-----------------+-----------------+-----------+
    | 'S' and kind, 2 B (5 bits each)    | seed, 32 B      | crc16 LE  |    base32, 58 characters
    +------------------+-----------------+-----------------+-----------+

The first five bits mark a seed, the next eight are the kind of key (`nkeys.KeyKind`).  No error message
contains a seed, not even an invalid one.
"""

import base64
import binascii
import re
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millstream.base.nkeys import KeyKind, NkeyError, encode

_SEED_PREFIX: Final = 18 << 3  # S
_SEED_LENGTH: Final = 58  # characters of text
# No two parts of the expression match the same character, so a long line takes linear time.
_BLOCK: Final = re.compile(
    r"^[^\S\n]*-{3}[^\n]*?BEGIN (?P<what>NATS USER JWT|USER NKEY SEED)[^\n]*\n"
    r"\s*(?P<body>\S+)[^\S\n]*\n\s*-{3}",
    re.MULTILINE,
)


class Signer:
    """Signs with the private key of a seed."""

    def __init__(self, seed: str) -> None:
        kind, raw = _decode(seed.strip())
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public_key: Final = encode(kind, self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> str:
        """Return the signature in URL-safe base64 without padding, as servers expect it."""
        return base64.urlsafe_b64encode(self._key.sign(data)).rstrip(b"=").decode("ascii")


def _decode(seed: str) -> tuple[KeyKind, bytes]:
    if len(seed) != _SEED_LENGTH or not seed.startswith("S"):
        raise NkeyError(f"an nkey seed has {_SEED_LENGTH} characters and starts with 'S'")
    try:
        data = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        raise NkeyError("an nkey seed is made of A-Z and 2-7 only") from None
    body, checksum = data[:-2], data[-2:]
    if binascii.crc_hqx(body, 0).to_bytes(2, "little") != checksum:
        raise NkeyError("the checksum of the nkey seed does not fit: it was mistyped or cut")
    if body[0] & 0xF8 != _SEED_PREFIX:
        raise NkeyError("this is no nkey seed")
    try:
        kind = KeyKind((body[0] & 7) << 5 | (body[1] & 0xF8) >> 3)
    except ValueError:
        raise NkeyError("this is a seed of an unknown kind of nkey") from None
    return kind, body[2:]


def make_seed(kind: KeyKind, raw: bytes) -> str:
    """Return the text of a seed, given its 32 secret bytes."""
    body = bytes([_SEED_PREFIX | kind >> 5, (kind & 31) << 3]) + raw
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).rstrip(b"=").decode("ascii")


def read_credentials(text: str) -> tuple[str, str]:
    """Return the JWT (empty if there is none) and the seed in the text of a `.creds` file."""
    found = {match["what"]: match["body"].strip() for match in _BLOCK.finditer(text)}
    seed = found.get("USER NKEY SEED", "")
    if not seed:
        raise NkeyError("there is no user seed in the credentials")
    return found.get("NATS USER JWT", ""), seed
