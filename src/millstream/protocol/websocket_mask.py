"""XOR a websocket payload with its four-byte masking key (RFC 6455, section 5.3).

Clients mask every byte they send, so this runs over all inbound websocket traffic.  The compiled build works
on eight bytes at a time; the interpreted build uses two big integers, because a loop over bytes would be a
hundred times slower.  Masking and unmasking are the same operation.
"""

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcpy


def unmask(data: bytes, key: bytes, offset: int) -> bytes:
    """Return `data` XORed with `key`; the first byte of `data` is at `offset` in the frame's payload."""
    if len(key) != 4:
        raise ValueError(f"a masking key has 4 bytes, not {len(key)}")
    size = len(data)
    if size == 0:
        return b""
    start = offset & 3
    pattern = (key + key + key)[start : start + 8]
    if cython.compiled:
        result: bytes = PyBytes_FromStringAndSize(cython.NULL, size)
        _xor(result, data, pattern, size)
        return result
    mask = pattern * (size // 8 + 1)
    number = int.from_bytes(data, "little") ^ int.from_bytes(mask[:size], "little")
    return number.to_bytes(size, "little")


if cython.compiled:

    def _xor(target: Any, source: Any, pattern: Any, size: int) -> None:
        # A payload can start at any address, so words go through memcpy, which compilers turn into one
        # load.
        position = mask = word = 0
        memcpy(cython.address(mask), pattern, 8)
        while position + 8 <= size:
            memcpy(cython.address(word), source + position, 8)
            word ^= mask
            memcpy(target + position, cython.address(word), 8)
            position += 8
        while position < size:
            target[position] = source[position] ^ pattern[position & 7]
            position += 1
