"""Compact lists of unsigned numbers: a C array in memory, differences on disk."""

import cython

from millstream.base.buffer import GrowingBuffer, read_little

_MOST = 0xFFFF_FFFF_FFFF_FFFF


class Numbers(GrowingBuffer):
    """A list that grows at its end; its bytes are its file format (little-endian)."""

    def __init__(self, width: int, data: bytes = b"") -> None:
        GrowingBuffer.__init__(self)
        self.width = width
        self.count = len(data) // width
        self.append(data)

    def push(self, value: int) -> None:
        self.reserve(self.width)
        self.put_little(value, self.width)
        self.count += 1

    def set(self, index: int, value: int) -> None:
        """Replace the number at `index`, which must exist."""
        size = self.size
        self.size = index * self.width
        self.put_little(value, self.width)
        self.size = size

    def extend(self, values: list[int]) -> None:
        for value in values:
            self.push(value)

    def push_sums(self, first: int, data: bytes, at: int, width: int, count: int) -> None:
        """Append `count` numbers: `first`, then the sums of `first` and the numbers in `data` so far.

        Those are little-endian, of `width` bytes, from `at` on.  For numbers of four bytes.
        """
        self._check_source(data, at, width, count)
        self.reserve(4 * count)
        p = data
        out = self._store
        value = first
        for index in range(count):
            _put(out, self.size + 4 * index, value)
            value += _little(p, at + index * width, width)
        self.size += 4 * count
        self.count += count

    def push_shifted(self, data: bytes, at: int, width: int, count: int, top_bit: int) -> None:
        """Append `count` numbers from `data`, shifted right by one; the bit shifted out becomes `top_bit`.

        If `width` is 0 they are all equal, four bytes at `at`.  For numbers of four bytes.
        """
        self._check_source(data, at, width or 4, count if width else 1)
        self.reserve(4 * count)
        p = data
        out = self._store
        for index in range(count):
            value = _little(p, at + index * width, width) if width else _little(p, at, 4)
            _put(out, self.size + 4 * index, (value >> 1) | (top_bit if value & 1 else 0))
        self.size += 4 * count
        self.count += count

    def _check_source(self, data: bytes, at: int, width: int, count: int) -> None:
        if self.width != 4 or not 0 < width <= 4 or at < 0 or count < 0 or at + width * count > len(data):
            raise ValueError("there are not so many numbers")

    def to_list(self) -> list[int]:
        return [self.at(index) for index in range(self.count)]

    def at(self, index: int) -> int:
        """Return the number at `index`, which must exist."""
        if self.width == 4:
            return _little(self._store, 4 * index, 4)
        return read_little(self._store, index * self.width, self.width)

    def first_not_below(self, value: int) -> int:
        """Return the index of the first number not below `value`; numbers must be ascending."""
        low = 0
        high = self.count
        while low < high:
            middle = (low + high) // 2
            if self.at(middle) < value:
                low = middle + 1
            else:
                high = middle
        return low

    def rise_between(self, first: int, end: int) -> bool:
        """Return True if the numbers strictly ascend, from `first` to below `end`."""
        p = self._store
        width = self.width
        least = first
        for index in range(self.count):
            value = _little(p, 4 * index, 4) if width == 4 else self.at(index)
            if value < least or value >= end:
                return False
            least = value + 1
        return True

    def tally(self, mask: int, counts: "Numbers", firsts: "Numbers", lasts: "Numbers") -> int:
        """Count how often each number, masked, occurs, and record where it occurs first and last.

        Returns how many have other bits set; -1 if a number is not below ``counts.count``.  All numbers have
        four bytes, and the other lists must contain zeros.
        """
        p = self._store
        c = counts._store
        f = firsts._store
        n = lasts._store
        known = counts.count
        marked = 0
        for index in range(self.count):
            value = _little(p, 4 * index, 4)
            number = value & mask
            if number >= known:
                return -1
            if number != value:
                marked += 1
            at = 4 * number
            found = _little(c, at, 4)
            if found == 0:
                _put(f, at, index)
            _put(c, at, found + 1)
            _put(n, at, index)
        return marked

    def next_flagged(self, start: int, end: int, flags: bytes, mask: int) -> int:
        """Return the first index from `start` on whose number, masked, has its flag set; else `end`.

        For numbers of four bytes; the inner loop of every filter.
        """
        p = self._store
        f = flags
        known = len(flags)
        for index in range(start, end):
            at = 4 * index
            number = p[at + 3]
            number = number << 8 | p[at + 2]
            number = number << 8 | p[at + 1]
            number = (number << 8 | p[at]) & mask
            if number < known and f[number]:
                return index
        return end

    def next_equal(self, start: int, end: int, value: int, mask: int) -> int:
        """Return the first index from `start` on whose number, masked, is `value`; else `end`.

        For numbers of four bytes.
        """
        p = self._store
        for index in range(start, end):
            at = 4 * index
            number = p[at + 3]
            number = number << 8 | p[at + 2]
            number = number << 8 | p[at + 1]
            if (number << 8 | p[at]) & mask == value:
                return index
        return end

    def count_flagged(self, start: int, end: int, flags: bytes, mask: int) -> int:
        """Return how many numbers from `start` to before `end` have their flag set."""
        p = self._store
        f = flags
        known = len(flags)
        found = 0
        for index in range(start, end):
            at = 4 * index
            number = p[at + 3]
            number = number << 8 | p[at + 2]
            number = number << 8 | p[at + 1]
            number = (number << 8 | p[at]) & mask
            if number < known and f[number]:
                found += 1
        return found


def _put(p: bytearray, at: int, value: int) -> None:
    """Write four bytes directly, without the overhead of the buffer."""
    p[at] = value & 0xFF
    p[at + 1] = (value >> 8) & 0xFF
    p[at + 2] = (value >> 16) & 0xFF
    p[at + 3] = (value >> 24) & 0xFF


def _little(p: bytes | bytearray, at: int, width: int) -> int:
    if cython.compiled:
        value = p[at]
        if width == 2:
            value |= p[at + 1] << 8
        elif width == 4:
            value |= (p[at + 1] << 8) | (p[at + 2] << 16)
            value |= p[at + 3] << 24
        elif width == 3:
            value |= (p[at + 1] << 8) | (p[at + 2] << 16)
        return value
    return int.from_bytes(p[at : at + width], "little")


def pack_rising(values: list[int]) -> bytes:
    """Encode ascending numbers as differences, seven bits per byte."""
    out = bytearray()
    last = 0
    for value in values:
        rest = value - last
        last = value
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def unpack_rising(data: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Decode numbers of ``pack_rising`` and return their end; raise ValueError if they are cut."""
    values = []
    last = 0
    for _ in range(count):
        shift = 0
        rest = 0
        while True:
            if position >= len(data) or shift > 63:
                raise ValueError("these are not packed numbers")
            byte = data[position]
            position += 1
            if shift == 63 and byte > 1:
                raise ValueError("these are not packed numbers")
            rest |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if rest > _MOST - last:
            raise ValueError("these are not packed numbers of 64 bits")
        last += rest
        values.append(last)
    return values, position
