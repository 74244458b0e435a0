"""A list of unsigned numbers of four or eight bytes, packed: what an array of C would be."""

import cython

from millrace.base.buffer import GrowingBuffer


class Numbers(GrowingBuffer):
    """Grows at its end; its bytes are its file format (little-endian)."""

    def __init__(self, width: int, data: bytes = b"") -> None:
        GrowingBuffer.__init__(self)
        self.width = width
        self.count = len(data) // width
        self.append(data)

    def push(self, value: int) -> None:
        self.reserve(self.width)
        self.put_little(value, self.width)
        self.count += 1

    def at(self, index: int) -> int:
        """The number at `index`, which must be there."""
        p = self._store
        start = index * self.width
        if cython.compiled:
            value = 0
            for step in range(self.width):
                byte = p[start + step]
                value |= byte << (8 * step)
            return value
        return int.from_bytes(p[start : start + self.width], "little")

    def first_not_below(self, value: int) -> int:
        """The index of the first number that is not below `value`; numbers must rise."""
        low = 0
        high = self.count
        while low < high:
            middle = (low + high) // 2
            if self.at(middle) < value:
                low = middle + 1
            else:
                high = middle
        return low
