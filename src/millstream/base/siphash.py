"""SipHash-2-4 with 128 bits: a hash with a key, of short texts that others choose.

Without the key nobody can find two texts with the same hash, and by chance that does not happen.  So whoever
keeps hashes need not keep the texts.  Unlike Python's ``hash`` it is the same in every process.
"""

import cython

from millstream.base.buffer import read_little

KEY_SIZE = 16  # bytes

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_START_0 = 0x736F6D6570736575
_START_1 = 0x646F72616E646F6D ^ 0xEE
_START_2 = 0x6C7967656E657261
_START_3 = 0x7465646279746573


class SipHash:
    """The hash with one key; `high` and `low` are the halves of the last result."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise ValueError(f"the key has {len(key)} bytes instead of {KEY_SIZE}")
        self.key = key
        self._key_0 = read_little(key, 0, 8)
        self._key_1 = read_little(key, 8, 8)
        self.high = 0
        self.low = 0

    def of(self, data: bytes) -> None:
        """Hash `data`."""
        size = len(data)
        words = size // 8
        rest = size - 8 * words
        length = size & 0xFF
        v0 = self._key_0 ^ _START_0
        v1 = self._key_1 ^ _START_1
        v2 = self._key_0 ^ _START_2
        v3 = self._key_1 ^ _START_3
        # A step has two rounds: one step for each word, the last of which ends with the length, and two for
        # each half of the result.
        for step in range(words + 5):
            word = 0
            if step < words:
                word = read_little(data, 8 * step, 8)
            elif step == words:
                word = length << 56
                if rest:
                    word |= read_little(data, 8 * words, rest)
            elif step == words + 1:
                v2 ^= 0xEE
            elif step == words + 3:
                self.high = v0 ^ v1 ^ v2 ^ v3
                v1 ^= 0xDD
            v3 ^= word
            for _turn in range(2):
                v0 += v1
                v2 += v3
                if not cython.compiled:
                    v0 &= _MASK
                    v2 &= _MASK
                v1 = _rotate(v1, 13) ^ v0
                v3 = _rotate(v3, 16) ^ v2
                v0 = _rotate(v0, 32)
                v2 += v1
                v0 += v3
                if not cython.compiled:
                    v0 &= _MASK
                    v2 &= _MASK
                v1 = _rotate(v1, 17) ^ v2
                v3 = _rotate(v3, 21) ^ v0
                v2 = _rotate(v2, 32)
            v0 ^= word
        self.low = v0 ^ v1 ^ v2 ^ v3


def _rotate(value: int, bits: int) -> int:
    if cython.compiled:
        return (value << bits) | (value >> (64 - bits))
    return ((value << bits) | (value >> (64 - bits))) & _MASK
