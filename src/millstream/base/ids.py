"""Generate ids: NUIDs for unique names, secret tokens, nonces for nkey challenges, hashes of texts.

A NUID is 22 base-62 characters: 12 from the operating system's random source and ten from a counter that
climbs in random steps; the 12 are drawn again when the counter is used up.  So the next NUID costs an
addition, and two processes do not collide, not even after a fork.  NUIDs are unique but not secret: the next
one can be guessed.  Secret tokens and nonces are random every time; use a secret token in a subject that
only its owner may know.  Keys are in `base.nkeys`.
"""

import base64
import os
import random
import threading
from typing import Final

NUID_LENGTH: Final = 22
HASH_LENGTH: Final = 8

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PREFIX_LENGTH: Final = 12
_COUNTER_LENGTH: Final = NUID_LENGTH - _PREFIX_LENGTH
_COUNTER_END: Final = 62**_COUNTER_LENGTH
_MIN_STEP: Final = 33
_MAX_STEP: Final = 333
_NONCE_BYTES: Final = 11
_SECRET_LENGTH: Final = NUID_LENGTH  # so that both look alike
_AS_DIGITS: Final = bytes(ord(_DIGITS[byte % 62]) for byte in range(256))

_system_random: Final = random.SystemRandom()


class NuidGenerator:
    """A thread-safe source of NUIDs."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Draw a new state.  A forked process calls it, because its parent continues with the old one."""
        self._lock = threading.Lock()  # a new lock: the thread that held the old one is not in this process
        self._random = random.Random(os.urandom(8))
        self._restart()

    def next(self) -> str:
        with self._lock:
            self._counter += self._step
            if self._counter >= _COUNTER_END:
                self._restart()
            prefix, number = self._prefix, self._counter
        tail = []
        for _ in range(_COUNTER_LENGTH):
            number, digit = divmod(number, 62)
            tail.append(_DIGITS[digit])
        tail.reverse()
        return prefix + "".join(tail)

    def _restart(self) -> None:
        self._prefix = "".join(_system_random.choices(_DIGITS, k=_PREFIX_LENGTH))
        self._counter = self._random.randrange(_COUNTER_END)
        self._step = self._random.randrange(_MIN_STEP, _MAX_STEP)


_shared = NuidGenerator()
os.register_at_fork(after_in_child=_shared.begin)


def nuid() -> str:
    """Return the next NUID of this process."""
    return _shared.next()


def secret_token() -> str:
    """Return a token that cannot be guessed: 22 base-62 characters, about 130 random bits."""
    return os.urandom(_SECRET_LENGTH).translate(_AS_DIGITS).decode("ascii")


def nonce() -> str:
    """Return a new challenge for a client to sign: 11 random bytes in unpadded base64url."""
    return base64.urlsafe_b64encode(os.urandom(_NONCE_BYTES)).rstrip(b"=").decode("ascii")


def short_hash(text: str) -> str:
    """Return a hash of `text` in eight base-62 characters; the same in every process."""
    import hashlib

    return hashlib.sha256(text.encode()).digest()[:HASH_LENGTH].translate(_AS_DIGITS).decode("ascii")
