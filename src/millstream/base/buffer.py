"""One growable piece of memory that bytes are copied into.

The base of the buffers for sockets (``protocol.outbuf``) and files (``store.record``).  The primitives have
a C and a Python form.  They check nothing: call ``reserve`` first.
"""

import sys
from typing import Any

import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
    from cython.cimports.libc.string import memchr, memcmp, memcpy

_SMALLEST = 512  # bytes of the first allocation; an empty buffer has none
_LARGE = 4 * 1024 * 1024  # bytes; a buffer of this size no longer doubles when it grows
_LINE_END = ord("\n")
_RETURN = ord("\r")
_SMALL = 0x20  # OR-ed with a letter, makes it lower case; "-" is unchanged
_LITTLE_HOST = sys.byteorder == "little"
_PAIRS = b"".join(b"%02d" % number for number in range(100))  # two digits at a time take half as long
_KEEP = 1024 * 1024  # bytes; a buffer larger than this frees its memory when emptied


class GrowingBuffer:
    """The bytes appended so far; `size` counts them."""

    def __init__(self) -> None:
        self._store = bytearray()
        self._capacity = 0
        self.size = 0

    def append(self, data: bytes) -> None:
        count = len(data)
        self.reserve(count)
        self.put(data, 0, count)

    def take(self) -> bytes:
        """Return all bytes and empty the buffer."""
        data = self.peek()
        self.size = 0
        if self._capacity > _KEEP:
            self._store = bytearray()
            self._capacity = 0
        return data

    def peek(self) -> bytes:
        """Return a copy of all bytes."""
        if cython.compiled:
            store: Any = self._store
            data: bytes = store[: self.size]
        else:
            data = bytes(memoryview(self._store)[: self.size])
        return data

    def view(self) -> memoryview:
        """Return all bytes without a copy; the buffer must not grow until the view is released."""
        return memoryview(self._store)[: self.size]

    def cut(self, start: int, count: int) -> bytes:
        """Return a copy of `count` bytes at `start`, which must exist."""
        if cython.compiled:
            store: Any = self._store
            data: bytes = store[start : start + count]
        else:
            data = bytes(memoryview(self._store)[start : start + count])
        return data

    def reserve(self, extra: int) -> None:
        if self.size + extra > self._capacity:
            self._grow(extra)

    def _grow(self, extra: int) -> None:
        if self._capacity < _LARGE:
            capacity = max(2 * self._capacity, self.size + extra, _SMALLEST)
        else:
            capacity = max(self._capacity + self._capacity // 4, self.size + extra)
        if cython.compiled:
            PyByteArray_Resize(self._store, capacity)
        else:
            self._store.extend(bytes(capacity - self._capacity))
        self._capacity = capacity

    # -- primitives: the room has been reserved ---------------------------------------------------

    def put(self, source: bytes, start: int, count: int) -> None:
        if cython.compiled:
            target: Any = self._store
            origin: Any = source
            memcpy(target + self.size, origin + start, count)
        else:
            self._store[self.size : self.size + count] = source[start : start + count]
        self.size += count

    def put_byte(self, value: int) -> None:
        if cython.compiled:
            target = self._store
            target[self.size] = value
        else:
            self._store[self.size : self.size + 1] = bytes((value,))
        self.size += 1

    def put_part(self, other: "GrowingBuffer", start: int, count: int) -> None:
        """Append `count` bytes of another buffer, which must exist there."""
        if cython.compiled:
            target: Any = self._store
            origin: Any = other._store
            memcpy(target + self.size, origin + start, count)
        else:
            self._store[self.size : self.size + count] = other._store[start : start + count]
        self.size += count

    def put_number(self, value: int) -> None:
        """Append decimal digits."""
        if cython.compiled:
            target = self._store
            pairs = _PAIRS
            position = self.size + digits_of(value)
            self.size = position
            rest = value
            while rest >= 100:
                pair = 2 * (rest % 100)
                rest //= 100
                position -= 2
                target[position] = pairs[pair]
                target[position + 1] = pairs[pair + 1]
            target[position - 1] = pairs[2 * rest + 1]
            if rest >= 10:
                target[position - 2] = pairs[2 * rest]
        else:
            text = b"%d" % value
            self.put(text, 0, len(text))

    def put_little(self, value: int, count: int) -> None:
        """Append an unsigned number in `count` bytes, least significant first."""
        if cython.compiled:
            target: Any = self._store
            rest = value
            if _LITTLE_HOST:
                # With a constant count the compiler turns the copy into one store.
                if count == 8:
                    memcpy(target + self.size, cython.address(rest), 8)
                elif count == 4:
                    memcpy(target + self.size, cython.address(rest), 4)
                else:
                    memcpy(target + self.size, cython.address(rest), count)
            else:
                for index in range(count):
                    target[self.size + index] = rest & 0xFF
                    rest >>= 8
        else:
            self._store[self.size : self.size + count] = (value & ((1 << (8 * count)) - 1)).to_bytes(
                count, "little"
            )
        self.size += count


def digits_of(value: int) -> int:
    """Return the number of decimal digits of `value`."""
    digits = 1
    while value >= 10_000:
        value //= 10_000
        digits += 4
    if value >= 100:
        return digits + 3 if value >= 1_000 else digits + 2
    return digits + 1 if value >= 10 else digits


def read_little(p: bytes | bytearray, at: int, count: int) -> int:
    """Read an unsigned little-endian number; compiled, `p` is a pointer and nothing is checked."""
    if cython.compiled:
        value = 0
        if _LITTLE_HOST:
            source: Any = p
            if count == 8:  # as in `put_little`
                memcpy(cython.address(value), source + at, 8)
            elif count == 4:
                memcpy(cython.address(value), source + at, 4)
            else:
                memcpy(cython.address(value), source + at, count)
        else:
            for index in range(count):
                byte = p[at + index]
                value |= byte << (8 * index)
        return value
    return int.from_bytes(p[at : at + count], "little")


def same_bytes(p: bytes | bytearray, first: int, second: int, count: int) -> bool:
    """Return True if `count` bytes at two positions are equal; unchecked in the compiled build."""
    if cython.compiled:
        source: Any = p
        return bool(memcmp(source + first, source + second, count) == 0)
    return p[first : first + count] == p[second : second + count]


def equal_bytes(source: bytes, at: int, other: bytes) -> bool:
    """Return True if `other` is at position `at` of `source`; False if `source` ends before that."""
    if cython.compiled:
        if at < 0 or at + len(other) > len(source):
            return False
        first: Any = source
        second: Any = other
        return bool(memcmp(first + at, second, len(other)) == 0)
    return source.startswith(other, at)


def has_line(source: bytes, start: int, end: int, beginning: bytes) -> bool:
    """Return True if a line between `start` and `end`, other than the first, begins with `beginning`."""
    if cython.compiled:
        p: Any = source
        first: Any = beginning
        count = len(beginning)
        last = p + min(end, len(source)) - count  # no line can begin after it
        at: Any = p + max(start, 0)
        while at < last:
            at = cython.cast("const char*", memchr(at, _LINE_END, last - at))
            if not at:
                return False
            at += 1
            if at[0] == first[0] and memcmp(at, first, count) == 0:
                return True
        return False
    return source.find(b"\n" + beginning, start, end) >= 0


def has_line_like(source: bytes, start: int, end: int, beginning: bytes) -> bool:
    """Return True if a line other than the first begins with `beginning`, in any case.

    `beginning` is in lower case.  Lines end with LF or CR.
    """
    p = source
    first = beginning
    count = len(beginning)
    last = min(end, len(source)) - count
    at = max(start, 0)
    while at < last:
        if p[at] == _LINE_END or p[at] == _RETURN:
            i = 0
            while i < count and (p[at + 1 + i] | _SMALL) == first[i]:
                i += 1
            if i == count:
                return True
        at += 1
    return False


def equal_parts(p: bytes | bytearray, at: int, other: bytes, count: int) -> bool:
    """Return True if the first `count` bytes of `other` are at `at`; unchecked in the compiled build."""
    if cython.compiled:
        first: Any = p
        second: Any = other
        return bool(memcmp(first + at, second, count) == 0)
    return p[at : at + count] == other[:count]
