"""The subjects of a segment, numbered in the order they came: names packed one behind the other.

A stream can have a million of them, so none is an object: a name takes its bytes, four for where it ends,
and a few in the table that finds its number (open addressing, at least a third of it empty).
"""

from collections.abc import Iterator

from millstream.base.buffer import GrowingBuffer, equal_parts
from millstream.store.numbers import Numbers

_BASIS = 14695981039346656037
_PRIME = 1099511628211
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_SMALLEST_TABLE = 16  # slots; always a power of two


class SubjectList(GrowingBuffer):
    """Subjects by number, numbers by subject."""

    def __init__(self) -> None:
        GrowingBuffer.__init__(self)
        self.count = 0
        self._ends = Numbers(4)
        self._slots = _empty_table(_SMALLEST_TABLE)  # number + 1, or 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.count):
            yield self.at(number)

    def at(self, number: int) -> bytes:
        """The subject with this number, which must be there."""
        start = self._start(number)
        return self.cut(start, self._ends.at(number) - start)

    def find(self, subject: bytes) -> int:
        """The number of `subject`, or -1."""
        return self._slots.at(self._slot(subject)) - 1

    def add(self, subject: bytes) -> int:
        """The number of `subject`, which is given one if it has none."""
        slot = self._slot(subject)
        known = self._slots.at(slot)
        if known:
            return known - 1
        self.append(subject)
        self._ends.push(self.size)
        self.count += 1
        self._slots.set(slot, self.count)
        if self.count * 3 > self._slots.count * 2:
            self._grow_table()
        return self.count - 1

    def _start(self, number: int) -> int:
        return self._ends.at(number - 1) if number else 0

    def _slot(self, subject: bytes) -> int:
        """Where the number of `subject` stands, or would stand."""
        mask = self._slots.count - 1
        slot = _hash_of(subject, 0, len(subject)) & mask
        while True:
            number = self._slots.at(slot)
            if number == 0:
                return slot
            start = self._start(number - 1)
            size = self._ends.at(number - 1) - start
            if size == len(subject) and equal_parts(self._store, start, subject, size):
                return slot
            slot = (slot + 1) & mask

    def _grow_table(self) -> None:
        slots = _empty_table(2 * self._slots.count)
        mask = slots.count - 1
        for number in range(self.count):
            start = self._start(number)
            slot = _hash_of(self._store, start, self._ends.at(number)) & mask
            while slots.at(slot):
                slot = (slot + 1) & mask
            slots.set(slot, number + 1)
        self._slots = slots


def _empty_table(slots: int) -> Numbers:
    return Numbers(4, bytes(4 * slots))


def _hash_of(p: bytes | bytearray, start: int, end: int) -> int:
    """FNV-1a, its upper half mixed in: neighbouring numbers at the end of a subject spread well."""
    value = _BASIS
    for index in range(start, end):
        value = ((value ^ p[index]) * _PRIME) & _ALL_BITS
    return (value ^ (value >> 32)) & 0x7FFFFFFF
