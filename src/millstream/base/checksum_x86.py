"""CRC-32C with the instruction that x86 processors have since 2008: five times as fast as tables.

Compiled on that architecture only (``base/build.py``), so nothing may ``cimport`` it: ``checksum`` asks for
the address of the function and uses its tables if there is none.
"""

from typing import Any

import cython

if not cython.compiled:  # of the C library and the compiler: see the .pxd
    __builtin_ia32_crc32di: Any = None
    __builtin_ia32_crc32qi: Any = None
    __get_cpuid: Any = None
    memcpy: Any = None

_ONES = 0xFFFFFFFF
_FEATURES = 1  # the question to the processor of which the third answer has this bit:
_SSE_4_2 = 1 << 20


def has_instruction() -> bool:
    """Return True if this processor has the instruction and this build can use it."""
    if not cython.compiled:
        return False
    a = b = c = d = 0
    known = __get_cpuid(_FEATURES, cython.address(a), cython.address(b), cython.address(c), cython.address(d))
    return known != 0 and (c & _SSE_4_2) != 0


def address() -> int:
    """Return the address of the C function with the arguments of ``checksum.crc_of``; 0 if it is unusable."""
    if cython.compiled and has_instruction():
        where: int = cython.cast("size_t", cython.address(_crc_by_instruction))
        return where
    return 0


def _crc_by_instruction(p: Any, start: int, end: int) -> int:
    crc = _ONES
    word = 0
    i = start
    while end - i >= 8:
        memcpy(cython.address(word), p + i, 8)  # it need not be aligned
        crc = __builtin_ia32_crc32di(crc, word)
        i += 8
    while i < end:
        crc = __builtin_ia32_crc32qi(crc, p[i])
        i += 1
    return crc ^ _ONES
