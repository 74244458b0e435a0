"""Growing pieces of memory that become Arrow buffers without a copy.

`Memory` contains numbers or bytes in a row.  `Texts` is a variable-size column of Arrow: the end of each
value, and all values in one piece.  The compiled callers copy from the parser's buffer straight to here, so a
row costs no Python object.
"""

from typing import Any

import cython

from millstream.base.buffer import GrowingBuffer

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcpy

_HIGH = 0x80  # bytes from here on are not ASCII


class Memory(GrowingBuffer):
    """Bytes that can be handed over to a receiver."""

    def __init__(self) -> None:
        super().__init__()
        self._usual = 0

    def copy(self, p: bytes | bytearray, at: int, count: int) -> None:
        """Append `count` bytes of `p` at `at`; compiled, `p` is a pointer and nothing is checked."""
        self.reserve(count)
        if cython.compiled:
            target: Any = self._store
            origin: Any = p
            memcpy(target + self.size, origin + at, count)
        else:
            self._store[self.size : self.size + count] = p[at : at + count]
        self.size += count

    def add4(self, value: int) -> None:
        """Append a 32-bit number in the host's byte order."""
        self.reserve(4)
        if cython.compiled:
            target: Any = self._store
            memcpy(target + self.size, cython.address(value), 4)
            self.size += 4
        else:
            self.put_little(value, 4)

    def add8(self, value: int) -> None:
        """Append a 64-bit number in the host's byte order."""
        self.reserve(8)
        if cython.compiled:
            target: Any = self._store
            memcpy(target + self.size, cython.address(value), 8)
            self.size += 8
        else:
            self.put_little(value, 8)

    def hand_over(self) -> memoryview:
        """Return all bytes, which the receiver then owns, and become empty."""
        view = memoryview(self._store)[: self.size]
        self._usual = max(self.size, self._usual // 2)
        self._store = bytearray()
        self._capacity = 0
        self.size = 0
        self.reserve(self._usual)  # the next batch is about as big
        return view


class Texts:
    """A column of strings or bytes: `ends` begins with a 0, then has the end of each value in `values`."""

    def __init__(self) -> None:
        self.ends = Memory()
        self.values = Memory()
        self.ends.add4(0)

    def add(self, p: bytes | bytearray, at: int, count: int) -> None:
        """Append a value unchanged."""
        self.values.copy(p, at, count)
        self.ends.add4(self.values.size)

    def add_text(self, p: bytes | bytearray, at: int, count: int) -> None:
        """Append a value as UTF-8; invalid bytes are replaced."""
        if is_ascii(p, at, count):
            self.add(p, at, count)
        else:
            self._add_decoded(p[at : at + count])

    def _add_decoded(self, raw: bytes | bytearray) -> None:
        clean = raw.decode("utf-8", "replace").encode()
        self.values.append(clean)
        self.ends.add4(self.values.size)

    def hand_over(self) -> tuple[memoryview, memoryview]:
        """Return both pieces, which the receiver then owns, and become empty."""
        pieces = self.ends.hand_over(), self.values.hand_over()
        self.ends.add4(0)
        return pieces


def is_ascii(p: bytes | bytearray, at: int, count: int) -> bool:
    """Return True if no byte has its highest bit set; unchecked in the compiled build."""
    if cython.compiled:
        seen = 0
        for i in range(at, at + count):
            seen |= p[i]
        return seen < _HIGH
    return p[at : at + count].isascii()


def find_byte(p: bytes | bytearray, wanted: int, start: int, end: int) -> int:
    """Return the position of the byte in `[start, end)`, or -1; unchecked in the compiled build."""
    if cython.compiled:
        origin: Any = p
        found = cython.cast("const unsigned char*", memchr(origin + start, wanted, end - start))
        if found == cython.NULL:
            return -1
        return found - origin  # type: ignore[no-any-return]
    return p.find(wanted, start, end)
