"""Short names: NUIDs for anything that needs a unique one, nonces for nkey challenges, hashes of texts.

A NUID is 22 base-62 characters: 12 from the operating system's random source, drawn again when the
other ten, a counter that climbs in random steps, are used up.  So the next one costs an addition,
and two processes do not collide, not even one and its fork.  NUIDs are unique, not secret: the counter
makes the next one guessable.  A secret token and a nonce are drawn afresh every time: a subject that is
known only to those who may use it has a secret token in it.  Keys are in `base.nkeys`.
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
_SECRET_LENGTH: Final = NUID_LENGTH  # so they look alike
_AS_DIGITS: Final = bytes(ord(_DIGITS[byte % 62]) for byte in range(256))

_system_random: Final = random.SystemRandom()


class NuidGenerator:
    """A source of NUIDs; may be shared between threads."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Draw everything; in a forked process, whose parent goes on with the numbers there were."""
        self._lock = threading.Lock()  # a new one: who held the old one is not in this process
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
    """The next NUID of this process."""
    return _shared.next()


def secret_token() -> str:
    """A token of a subject that nobody can guess: 22 base-62 characters, some 130 random bits."""
    return os.urandom(_SECRET_LENGTH).translate(_AS_DIGITS).decode("ascii")


def nonce() -> str:
    """A fresh challenge for a client to sign: 11 random bytes in unpadded base64url."""
    return base64.urlsafe_b64encode(os.urandom(_NONCE_BYTES)).rstrip(b"=").decode("ascii")


def short_hash(text: str) -> str:
    """Eight base-62 characters that stand for `text`, the same everywhere and every time."""
    import hashlib

    return "".join(_DIGITS[byte % 62] for byte in hashlib.sha256(text.encode()).digest()[:HASH_LENGTH])
