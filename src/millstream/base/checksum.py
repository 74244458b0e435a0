"""CRC-32C (Castagnoli), eight bytes at a time.

The polynomial of iSCSI, ext4 and Snappy's framing; it detects more kinds of damage in records of our sizes
than zlib's.  The compiled build uses the processor's instruction if there is one (``checksum_x86``);
otherwise tables, which give the same result on every processor.
"""

import cython

from millstream.base.build import COMPILED_FOR_X86

_POLYNOMIAL = 0x82F63B78  # reflected
_ONES = 0xFFFFFFFF


def _make_tables() -> list[list[int]]:
    first = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        first.append(value)
    tables = [first]
    for _ in range(7):
        last = tables[-1]
        tables.append([first[value & 0xFF] ^ (value >> 8) for value in last])
    return tables


_TABLES = _make_tables()

if not cython.compiled:
    _table = [0] * 2048  # compiled, it is an array of C
for _index, _value in enumerate(value for table in _TABLES for value in table):
    _table[_index] = _value


def crc_of(p: bytes | bytearray, start: int, end: int) -> int:
    """Return the checksum of ``p[start:end]``; compiled, `p` is a pointer and nothing is checked."""
    return _best(p, start, end)


def crc_by_tables(data: bytes) -> int:
    """Return the checksum of `data`, computed without the processor's instruction."""
    return _crc_by_tables(data, 0, len(data))


def _crc_by_tables(p: bytes | bytearray, start: int, end: int) -> int:
    table = _table
    crc = _ONES
    i = start
    while end - i >= 8:
        crc = (
            table[1792 + (p[i] ^ (crc & 0xFF))]
            ^ table[1536 + (p[i + 1] ^ ((crc >> 8) & 0xFF))]
            ^ table[1280 + (p[i + 2] ^ ((crc >> 16) & 0xFF))]
            ^ table[1024 + (p[i + 3] ^ (crc >> 24))]
            ^ table[768 + p[i + 4]]
            ^ table[512 + p[i + 5]]
            ^ table[256 + p[i + 6]]
            ^ table[p[i + 7]]
        )
        i += 8
    while i < end:
        crc = table[p[i] ^ (crc & 0xFF)] ^ (crc >> 8)
        i += 1
    return crc ^ _ONES


def crc32c(data: bytes) -> int:
    """Return the checksum of `data`."""
    return crc_of(data, 0, len(data))


_best = _crc_by_tables
if cython.compiled and COMPILED_FOR_X86:
    from millstream.base.checksum_x86 import address

    if address():
        _best = cython.cast("_Checksum", cython.cast("size_t", address()))
