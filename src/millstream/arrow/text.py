"""Check without the interpreter lock that bytes are UTF-8.

Arrow's strings must be UTF-8; subjects and headers of NATS need not be.  For those that are not, ``repaired``
returns what ``bytes.decode(errors="replace")`` makes of them.
"""

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

_HIGH_BITS = 0x8080808080808080


def is_utf8(p: bytes, at: int, end: int) -> bool:
    """Return True if ``p[at:end]`` is UTF-8, as strictly as in Python; compiled, `p` is a pointer."""
    word = 0
    while at < end:
        if cython.compiled:
            while end - at >= 8:
                source: Any = p
                memcpy(cython.address(word), source + at, 8)
                if word & _HIGH_BITS:
                    break
                at += 8
            if at >= end:
                return True
        first = p[at]
        at += 1
        if first < 0x80:
            continue
        low = 0x80  # bounds of the second byte
        high = 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:  # surrogates
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if end - at < more or p[at] < low or p[at] > high:
            return False
        while more > 1:
            more -= 1
            at += 1
            if p[at] < 0x80 or p[at] > 0xBF:
                return False
        at += 1
    return True


def utf8(data: bytes) -> bool:
    """Return True if all of `data` is UTF-8."""
    return is_utf8(data, 0, len(data))


def repaired(data: bytes) -> bytes:
    """Return `data` as UTF-8, with invalid bytes replaced."""
    return data.decode("utf-8", "replace").encode()
