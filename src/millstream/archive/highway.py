"""HighwayHash-64, the checksum in the files of older archives.

A keyed hash with 1024 bits of state that takes 32 bytes at a time (Alakuijala, Cox and Wassenberg, 2016).
Used only for files of nats-server: our own files have CRC-32C.  Compiled, because every record of an older
archive is checked with it.
"""

import cython

_MASK = 0xFFFFFFFFFFFFFFFF
_LOW = 0xFFFFFFFF
# Names, because a literal of more than 32 bits would be an object when compiled.
_BYTE_1 = 0xFF00
_BYTE_2 = 0xFF0000
_BYTE_3 = 0xFF000000
_BYTE_4 = 0xFF00000000
_BYTE_5 = 0xFF0000000000
_BYTE_6 = 0xFF000000000000
_BYTE_7 = 0xFF00000000000000

if not cython.compiled:
    _INIT = [0] * 8
_INIT[0] = 0xDBE6D5D5FE4CCE2F
_INIT[1] = 0xA4093822299F31D0
_INIT[2] = 0x13198A2E03707344
_INIT[3] = 0x243F6A8885A308D3
_INIT[4] = 0x3BD39E10CB0EF593
_INIT[5] = 0xC0ACF169B5F18A8C
_INIT[6] = 0xBE5466CF34E90C6C
_INIT[7] = 0x452821E638D01377


class HighwayHash:
    """The hash with one key; ``sum`` may be called repeatedly."""

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError("a key has 32 bytes")
        if not cython.compiled:
            self._key = [0] * 4
            self._v0 = [0] * 4
            self._v1 = [0] * 4
            self._mul0 = [0] * 4
            self._mul1 = [0] * 4
            self._packet = bytearray(32)
        for lane in range(4):
            self._key[lane] = int.from_bytes(key[8 * lane : 8 * lane + 8], "little")
        self._filled = 0

    def sum(self, data: bytes) -> bytes:
        """Return the eight bytes of the hash, as in files."""
        self.begin()
        self.add(data, 0, len(data))
        return self.end().to_bytes(8, "little")

    def begin(self) -> None:
        for lane in range(4):
            key = self._key[lane]
            self._mul0[lane] = _INIT[lane]
            self._mul1[lane] = _INIT[4 + lane]
            self._v0[lane] = _INIT[lane] ^ key
            self._v1[lane] = _INIT[4 + lane] ^ _swap(key)
        self._filled = 0

    def add(self, data: bytes, start: int, end: int) -> None:
        """Add ``data[start:end]``, which must exist."""
        p = data
        filled = self._filled
        for at in range(start, end):
            self._packet[filled] = p[at]
            filled += 1
            if filled == 32:
                self._update()
                filled = 0
        self._filled = filled

    def end(self) -> int:
        if self._filled:
            self._add_rest(self._filled)
        for _ in range(4):
            self._permute()
        return (self._v0[0] + self._v1[0] + self._mul0[0] + self._mul1[0]) & _MASK

    def _update(self) -> None:
        p = self._packet
        for lane in range(4):
            at = 8 * lane
            word = p[at + 7]
            for index in range(6, -1, -1):
                word = (word << 8) | p[at + index]
            self._mix(lane, word)
        self._zip()

    def _permute(self) -> None:
        first = _swap(self._v0[2])
        second = _swap(self._v0[3])
        third = _swap(self._v0[0])
        fourth = _swap(self._v0[1])
        self._mix(0, first)
        self._mix(1, second)
        self._mix(2, third)
        self._mix(3, fourth)
        self._zip()

    def _mix(self, lane: int, word: int) -> None:
        self._v1[lane] = (self._v1[lane] + self._mul0[lane] + word) & _MASK
        self._mul0[lane] ^= ((self._v1[lane] & _LOW) * (self._v0[lane] >> 32)) & _MASK
        self._v0[lane] = (self._v0[lane] + self._mul1[lane]) & _MASK
        self._mul1[lane] ^= ((self._v0[lane] & _LOW) * (self._v1[lane] >> 32)) & _MASK

    def _zip(self) -> None:
        """Mix the bytes of neighbouring lanes."""
        for pair in range(2):
            lane = 2 * pair
            low = self._v1[lane]
            high = self._v1[lane + 1]
            self._v0[lane] = (self._v0[lane] + _zip_low(low, high)) & _MASK
            self._v0[lane + 1] = (self._v0[lane + 1] + _zip_high(low, high)) & _MASK
        for pair in range(2):
            lane = 2 * pair
            low = self._v0[lane]
            high = self._v0[lane + 1]
            self._v1[lane] = (self._v1[lane] + _zip_low(low, high)) & _MASK
            self._v1[lane + 1] = (self._v1[lane + 1] + _zip_high(low, high)) & _MASK

    def _add_rest(self, size: int) -> None:
        """Add the last bytes, fewer than a packet."""
        for lane in range(4):
            self._v0[lane] = (self._v0[lane] + (size << 32) + size) & _MASK
            self._v1[lane] = _rotate_halves(self._v1[lane], size)
        whole = size & ~3
        odd = size & 3
        p = self._packet
        rest = bytes((p[size - 4], p[size - 3], p[size - 2], p[size - 1])) if size >= 4 else b""
        first = p[whole] if odd else 0
        middle = p[whole + (odd >> 1)] if odd else 0
        last = p[size - 1]
        for index in range(whole, 32):
            p[index] = 0
        if size & 16:
            for index in range(4):
                p[28 + index] = rest[index]
        elif odd:
            p[16] = first
            p[17] = middle
            p[18] = last
        self._update()


def _swap(value: int) -> int:
    """Exchange the halves of a word."""
    return ((value >> 32) | (value << 32)) & _MASK


def _rotate_halves(value: int, count: int) -> int:
    """Rotate both halves of a word to the left."""
    low = value & _LOW
    high = value >> 32
    if count:
        low = ((low << count) | (low >> (32 - count))) & _LOW
        high = ((high << count) | (high >> (32 - count))) & _LOW
    return (high << 32) | low


def _zip_low(low: int, high: int) -> int:
    return (
        (((low & _BYTE_3) | (high & _BYTE_4)) >> 24)
        | (((low & _BYTE_5) | (high & _BYTE_6)) >> 16)
        | (low & _BYTE_2)
        | ((low & _BYTE_1) << 32)
        | ((high & _BYTE_7) >> 8)
        | ((low << 56) & _MASK)
    )


def _zip_high(low: int, high: int) -> int:
    return (
        (((high & _BYTE_3) | (low & _BYTE_4)) >> 24)
        | (high & _BYTE_2)
        | ((high & _BYTE_5) >> 16)
        | ((high & _BYTE_1) << 24)
        | ((low & _BYTE_6) >> 8)
        | ((high & 0xFF) << 48)
        | (low & _BYTE_7)
    )
