"""Find the one changed byte that a CRC-32C proves.

The checksum of changed bytes differs from the old one by a value that depends only on the change and on how
far it is from the end.  So that value is taken back, byte by byte, until it is one that a byte makes at once.
"""

from __future__ import annotations

from typing import Final

from millstream.base.checksum import crc32c

_POLYNOMIAL: Final = 0x82F63B78


def _step(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


def changed_byte(data: bytes, crc: int) -> bytes | None:
    """Return the data with one byte changed so that it has this checksum; None if not exactly one will do."""
    table = [_step(byte) for byte in range(256)]
    byte_of = {value: byte for byte, value in enumerate(table)}
    by_top = {value >> 24: byte for byte, value in enumerate(table)}
    found = []
    value = crc32c(data) ^ crc
    for at in range(len(data) - 1, -1, -1):
        if value in byte_of:
            found.append((at, byte_of[value]))
        byte = by_top[value >> 24]
        value = ((value ^ table[byte]) << 8 | byte) & 0xFFFFFFFF
    if len(found) != 1 or not found[0][1]:
        return None
    at, change = found[0]
    return data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
