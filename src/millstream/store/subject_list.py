"""The subjects of a segment, numbered in order of appearance, with names packed in one buffer.

A stream can have a million subjects, so none is an object: a name takes its bytes, four for its end, and a
few in the hash table for its number (open addressing, at least a third of it empty).  A slot contains half of
the subject's hash and its number:

    slot   hash (32 bits) | number + 1 (32 bits); 0: empty
    home   where the search begins: the lower bits of the hash

So most searches compare one name, and the table grows without comparing any.  Hashes are Python's, keyed per
process, so whoever chooses subjects cannot predict their slots.  Names read from a file (`append_name`) get
their slots when numbers are looked up, which most readers never do: each time some thousands, so that nobody
waits for all of them.  The others are compared one by one.
"""

from collections.abc import Iterator

from millstream.base.buffer import GrowingBuffer, equal_parts
from millstream.base.numbers import Numbers

_HALF = 32
_LOW = 0xFFFFFFFF
_SMALLEST_TABLE = 16  # slots; always a power of two
_HASHED_AT_ONCE = 8192  # names that get their slots with one search


class SubjectList(GrowingBuffer):
    """Subjects by number, numbers by subject."""

    def __init__(self) -> None:
        GrowingBuffer.__init__(self)
        self.count = 0
        self._ends = Numbers(4)
        self._hashed = 0  # so many have their slots
        self._twins = False  # a name is there twice
        self._slots = _empty_table(_SMALLEST_TABLE)  # see above

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.count):
            yield self.at(number)

    def at(self, number: int) -> bytes:
        """Return the subject with this number, which must exist."""
        start = self._start(number)
        return self.cut(start, self._ends.at(number) - start)

    def size_at(self, number: int) -> int:
        """Return the length of the subject with this number."""
        return self._ends.at(number) - self._start(number)

    def put_name(self, number: int, out: GrowingBuffer) -> None:
        """Append the subject with this number to `out`, which has reserved the room."""
        start = self._start(number)
        out.put_part(self, start, self._ends.at(number) - start)

    def blank(self) -> int:
        """Return the number of the empty subject, or -1."""
        for number in range(self.count):
            if self._ends.at(number) == self._start(number):
                return number
        return -1

    def find(self, subject: bytes) -> int:
        """Return the number of `subject`, or -1."""
        number = (self._slots.at(self._slot(subject, _hash_of(subject))) & _LOW) - 1
        if number >= 0 or self._hashed == self.count:
            return number
        first = self._hashed
        self._hash_some(_HASHED_AT_ONCE)
        for number in range(first, self.count):
            if self._is_subject(subject, number):
                return number
        return -1

    def add(self, subject: bytes) -> int:
        """Return the number of `subject`; assign one if it has none."""
        if self._hashed < self.count:
            self._hash_some(self.count)
        hashed = _hash_of(subject)
        slot = self._slot(subject, hashed)
        known = self._slots.at(slot) & _LOW
        if known:
            return known - 1
        self.append(subject)
        self._ends.push(self.size)
        self.count += 1
        self._slots.set(slot, hashed << _HALF | self.count)
        self._hashed = self.count
        if self.count * 3 > self._slots.count * 2:
            self._grow_table()
        return self.count - 1

    def append_name(self, data: bytes, start: int, size: int) -> None:
        """Assign the next number to ``data[start : start + size]``, which must be new."""
        if start < 0 or size < 0 or start + size > len(data):
            raise ValueError("a name does not lie within its source")
        self.reserve(size)
        self.put(data, start, size)
        self._ends.push(self.size)
        self.count += 1

    def append_names(self, data: bytes, at: int, count: int, head: int) -> int:
        """Assign the next numbers to the names of `count` entries at `at`; return the end of the entries.

        An entry has `head` bytes, the first two of which are the size of its name, and then the name, which
        must be new.  Raises ValueError if an entry is cut.
        """
        p = data
        known = len(data)
        end = at
        for _ in range(count):
            if end < 0 or known - end < head:
                raise ValueError("names are cut short")
            end += head + (p[end] | p[end + 1] << 8)
        if end > known:
            raise ValueError("names are cut short")
        self.reserve(end - at - count * head)
        ends = self._ends
        ends.reserve(4 * count)
        out = ends._store
        position = ends.size
        for _ in range(count):
            size = p[at] | p[at + 1] << 8
            self.put(data, at + head, size)
            at += head + size
            total = self.size
            out[position] = total & 0xFF
            out[position + 1] = (total >> 8) & 0xFF
            out[position + 2] = (total >> 16) & 0xFF
            out[position + 3] = (total >> 24) & 0xFF
            position += 4
        ends.size = position
        ends.count += count
        self.count += count
        return end

    def memory(self) -> int:
        """Return the memory of names and tables."""
        return self.size + self._ends.size + self._slots.size

    def is_unique(self) -> bool:
        """Return True if no name occurs twice."""
        self._hash_some(self.count)
        return not self._twins

    def _hash_some(self, most: int) -> None:
        """Give at most so many names their slots."""
        if self.count * 3 > self._slots.count * 2:
            self._grow_table()
        first = self._hashed
        self._hashed = min(first + most, self.count)
        for number in range(first, self._hashed):
            name = self.at(number)
            hashed = _hash_of(name)
            slot = self._slot(name, hashed)
            if self._slots.at(slot):
                self._twins = True
            else:
                self._slots.set(slot, hashed << _HALF | (number + 1))

    def _start(self, number: int) -> int:
        return self._ends.at(number - 1) if number else 0

    def _slot(self, subject: bytes, hashed: int) -> int:
        """Return the slot that has, or would have, the number of `subject`."""
        mask = self._slots.count - 1
        slot = hashed & mask
        while True:
            word = self._slots.at(slot)
            if word == 0:
                return slot
            if word >> _HALF == hashed and self._is_subject(subject, (word & _LOW) - 1):
                return slot
            slot = (slot + 1) & mask

    def _is_subject(self, subject: bytes, number: int) -> bool:
        start = self._start(number)
        size = self._ends.at(number) - start
        return size == len(subject) and equal_parts(self._store, start, subject, size)

    def _grow_table(self) -> None:
        """Make room for all names, also for those without a slot."""
        size = 2 * self._slots.count
        while self.count * 3 > size * 2:
            size *= 2
        slots = _empty_table(size)
        mask = slots.count - 1
        for index in range(self._slots.count):
            word = self._slots.at(index)
            if word == 0:
                continue
            slot = (word >> _HALF) & mask
            while slots.at(slot):
                slot = (slot + 1) & mask
            slots.set(slot, word)
        self._slots = slots


def _empty_table(slots: int) -> Numbers:
    return Numbers(8, bytes(8 * slots))


def _hash_of(subject: bytes) -> int:
    value = hash(subject)
    return (value >> _HALF) & _LOW
