"""The memory of Arrow columns: filled without the interpreter lock, lent to the sender.

    Strings    the end of each value, and all bytes in one piece; also for binaries
    Lists      the end of each list in the column of its items
    Numbers64, Numbers32

Reserve first, then add: only ``reserve`` makes them grow, and adding does not check.  Memory is kept for the
next batch, unless a batch needed unusually much.
"""

from __future__ import annotations

from array import array
from typing import Any

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

_KEEP = 16 * 1024 * 1024  # bytes of a column that are kept


class Strings:
    """A column of strings or binaries."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0  # bytes of all values
        self._ends: Any = array("i", [0])
        self._bytes: Any = array("B")
        self._point()

    def _point(self) -> None:
        self._e: Any = self._ends.data.as_ints if cython.compiled else self._ends
        self._b: Any = self._bytes.data.as_uchars if cython.compiled else self._bytes

    def reserve(self, count: int, size: int) -> None:
        grow(self._ends, self.count + 1 + count)
        grow(self._bytes, self.size + size)
        self._point()

    def add(self, p: Any, start: int, size: int) -> None:
        copy(self._b, self.size, p, start, size)
        self.size += size
        self.count += 1
        self._e[self.count] = self.size

    def lend(self) -> list[memoryview]:
        """Return ends and bytes; release them before anything is added or cleared."""
        return [memoryview(self._ends)[: self.count + 1], memoryview(self._bytes)[: self.size]]

    def clear(self) -> None:
        self.count = 0
        self.size = 0
        if len(self._bytes) > _KEEP:
            self._bytes = array("B")
            self._point()


class Lists:
    """The ends of the lists in a column."""

    def __init__(self) -> None:
        self.count = 0
        self._ends: Any = array("i", [0])
        self._point()

    def _point(self) -> None:
        self._e: Any = self._ends.data.as_ints if cython.compiled else self._ends

    def reserve(self, count: int) -> None:
        grow(self._ends, self.count + 1 + count)
        self._point()

    def end(self, items: int) -> None:
        """End the next list after this many items of the column."""
        self.count += 1
        self._e[self.count] = items

    def lend(self) -> memoryview:
        return memoryview(self._ends)[: self.count + 1]

    def clear(self) -> None:
        self.count = 0


class Numbers64:
    """A column of 64-bit integers."""

    def __init__(self) -> None:
        self.count = 0
        self._values: Any = array("q")
        self._point()

    def _point(self) -> None:
        self._v: Any = self._values.data.as_longlongs if cython.compiled else self._values

    def reserve(self, count: int) -> None:
        grow(self._values, self.count + count)
        self._point()

    def add(self, value: int) -> None:
        self._v[self.count] = value
        self.count += 1

    def lend(self) -> memoryview:
        return memoryview(self._values)[: self.count]

    def clear(self) -> None:
        self.count = 0


class Numbers32:
    """A column of 32-bit integers."""

    def __init__(self) -> None:
        self.count = 0
        self._values: Any = array("i")
        self._point()

    def _point(self) -> None:
        self._v: Any = self._values.data.as_ints if cython.compiled else self._values

    def reserve(self, count: int) -> None:
        grow(self._values, self.count + count)
        self._point()

    def add(self, value: int) -> None:
        self._v[self.count] = value
        self.count += 1

    def lend(self) -> memoryview:
        return memoryview(self._values)[: self.count]

    def clear(self) -> None:
        self.count = 0


def grow(values: array[int], count: int) -> None:
    """Make room for `count` values, and more so that this is rarely needed."""
    have = len(values)
    if have < count:
        values.frombytes(bytes(values.itemsize * (max(count, 2 * have) - have)))


def copy(target: Any, at: int, source: Any, start: int, count: int) -> None:
    """Do ``target[at:at + count] = source[start:start + count]``; compiled, both are pointers."""
    if cython.compiled:
        if count > 0:  # memory of no bytes has no address
            memcpy(target + at, source + start, count)
    else:
        target[at : at + count] = array("B", source[start : start + count])
