"""Ids in memory, without an object per id, because a stream may know many.

Entries are in order of arrival and have four numbers each: the two halves of the id's hash, the sequence and
the time.  The oldest are forgotten from the front.  A hash table finds them (open addressing, at least a
third of it empty).  Its slots contain half of the hash's first half and the number of the entry:

    slot   hash (32 bits, never 0) | number (32 bits); 0: empty
    home   where the search for an id begins: the upper bits of its hash

So most searches read one slot and nothing else, and the table can grow without reading the entries.
"""

from millstream.base.budget import BUDGET
from millstream.base.numbers import Numbers

BYTES_OF_ONE = 48  # that an id takes at most: its entry, and its share of a table that is to be doubled

_FORGOTTEN_AT_ONCE = 16  # entries; more than come in the meantime, which is one
_SPARE = 4096  # forgotten entries at the front before they are cut off
_SMALLEST_BITS = 6  # of a table, which has two to their power slots
_COUNTED_BITS = 13  # smaller tables do not count in the budget
_HALF = 32
_LOW = 0xFFFFFFFF
_MOSTLY_EMPTY = 8  # a table with so many slots for each id is made smaller
_WORDS = 4  # numbers of an entry


class RecentIds:
    """Ids in order of arrival; times are wall-clock nanoseconds.

    `first_seq`: the ids of all messages from it on are here, up to the last one that was added.
    """

    def __init__(self, first_seq: int = 0) -> None:
        self.first_seq = first_seq
        self.known = 0  # ids in the table
        # An id that came again has two entries; the later one is in the table.
        self._entries = Numbers(8)
        self._head = 0  # the first entry that is not forgotten
        self._cut_entries = 0  # how many were cut off before the first one here
        self._bits = _SMALLEST_BITS
        self._slots = _empty_table(_SMALLEST_BITS)
        self._counted = 0  # bytes in the budget
        # The empty slot that ``find`` has found last, for an id with this hash; -1: none, or no longer.
        self._free = -1
        self._free_high = 0
        self._free_low = 0

    def __del__(self) -> None:
        self._weigh(0)

    def held(self) -> int:
        """Return the number of entries that are not forgotten; some may be too old to be found."""
        return self._count() - self._head

    @property
    def last_seq(self) -> int:
        """Return the sequence of the last entry; there must be one."""
        return self._entries.at(self._entries.count - 2)

    @property
    def last_ns(self) -> int:
        """Return the time of the last entry; there must be one."""
        return self._time_at(self._count() - 1)

    def find(self, high: int, low: int, oldest_ns: int) -> int:
        """Return the sequence of the message with this id if it is younger than `oldest_ns`; otherwise 0."""
        slot = self._slot_of(high, low)
        word = self._slots.at(slot)
        if word == 0:
            self._free = slot
            self._free_high = high
            self._free_low = low
            return 0
        at = self._entry_of(word)
        return self._entries.at(at * _WORDS + 2) if self._time_at(at) > oldest_ns else 0

    def add(self, high: int, low: int, seq: int, now_ns: int) -> bool:
        """Add an id; return True if the table has grown."""
        slot = self._free
        if slot < 0 or self._free_high != high or self._free_low != low:
            slot = self._slot_of(high, low)
        self._free = -1
        if self._slots.at(slot) == 0:
            self.known += 1
        entries = self._entries
        number = (self._cut_entries + self._count()) & _LOW
        self._slots.set(slot, ((high >> _HALF) | 1) << _HALF | number)
        entries.push(high)
        entries.push(low)
        entries.push(seq)
        entries.push(now_ns)
        if self.known * 3 > self._slots.count * 2:
            self._resize(self._bits + 1)
            return True
        return False

    def forget_old(self, oldest_ns: int) -> None:
        """Forget some old ids, not all at once: a message must not wait for millions of others."""
        head = self._head
        count = self._count()
        if head >= count or self._time_at(head) > oldest_ns:
            return
        if self._time_at(count - 1) <= oldest_ns:
            self.clear()
            return
        stop = min(head + _FORGOTTEN_AT_ONCE, count)
        while head < stop and self._time_at(head) <= oldest_ns:
            slot = self._slot_of(self._entries.at(head * _WORDS), self._entries.at(head * _WORDS + 1))
            word = self._slots.at(slot)
            if word and self._entry_of(word) == head:
                self._vacate(slot)
                self.known -= 1
            head += 1
        self._head = head
        self.first_seq = self._entries.at(head * _WORDS - 2) + 1
        if head > _SPARE and head * 2 > count:
            self._cut_off(head)

    def clear(self) -> None:
        """Forget all ids."""
        if self._entries.count:
            self.first_seq = self.last_seq + 1
        self.known = 0
        self._bits = _SMALLEST_BITS
        self._slots = _empty_table(_SMALLEST_BITS)
        self._free = -1
        self._cut_off(self._count())
        self._weigh(0)

    def entries(self) -> bytes:
        """Return all entries: four little-endian numbers of 64 bits for each."""
        at = self._head * _WORDS * 8
        return self._entries.cut(at, self._entries.size - at)

    # -- the table ----------------------------------------------------------------------------------

    def _slot_of(self, high: int, low: int) -> int:
        """Return the slot that has, or would have, the id."""
        mask = self._slots.count - 1
        hashed = (high >> _HALF) | 1
        slot = hashed >> (_HALF - self._bits)
        while True:
            word = self._slots.at(slot)
            if word == 0:
                return slot
            if word >> _HALF == hashed:
                at = self._entry_of(word) * _WORDS
                if self._entries.at(at) == high and self._entries.at(at + 1) == low:
                    return slot
            slot = (slot + 1) & mask

    def _entry_of(self, word: int) -> int:
        return (word - self._cut_entries) & _LOW

    def _vacate(self, hole: int) -> None:
        """Empty a slot, and move up those after it that would not be found any more."""
        self._free = -1
        mask = self._slots.count - 1
        slot = (hole + 1) & mask
        while True:
            word = self._slots.at(slot)
            if word == 0:
                break
            home = (word >> _HALF) >> (_HALF - self._bits)
            if ((slot - home) & mask) >= ((slot - hole) & mask):
                self._slots.set(hole, word)
                hole = slot
            slot = (slot + 1) & mask
        self._slots.set(hole, 0)

    def _resize(self, bits: int) -> None:
        slots = _empty_table(bits)
        mask = slots.count - 1
        for index in range(self._slots.count):
            word = self._slots.at(index)
            if word == 0:
                continue
            slot = (word >> _HALF) >> (_HALF - bits)
            while slots.at(slot):
                slot = (slot + 1) & mask
            slots.set(slot, word)
        self._slots = slots
        self._bits = bits
        self._free = -1
        self._weigh(slots.count * 2 // 3 * BYTES_OF_ONE if bits >= _COUNTED_BITS else 0)

    # -- the entries --------------------------------------------------------------------------------

    def _count(self) -> int:
        return self._entries.count // _WORDS

    def _time_at(self, entry: int) -> int:
        return self._entries.at(entry * _WORDS + 3)  # signed, to be compared with a clock that stands near 0

    def _cut_off(self, count: int) -> None:
        """Drop the first `count` entries, none of which is in the table."""
        at = count * _WORDS * 8
        self._entries = Numbers(8, self._entries.cut(at, self._entries.size - at))
        self._cut_entries += count
        self._head = 0
        while self._bits > _SMALLEST_BITS and self.known * _MOSTLY_EMPTY < self._slots.count:
            self._resize(self._bits - 1)

    def _weigh(self, size: int) -> None:
        """Count so many bytes in the budget."""
        if size != self._counted:
            BUDGET.ids.take(size - self._counted)
            self._counted = size


def _empty_table(bits: int) -> Numbers:
    return Numbers(8, bytes(8 << bits))
