"""The message ids seen within the duplicate window.

Compiled, and without an object per id, because a stream may know millions.  Ids are packed in one buffer in
order of arrival, with the end, sequence and time of each; the oldest are forgotten from the front.  A hash
table finds them (open addressing, at least a third of it empty).  Its slots contain half of the id's hash and
the number of the entry:

    slot   hash (32 bits, never 0) | number (32 bits); 0: empty
    home   where the search for an id begins: the upper bits of its hash

So most searches read one slot and nothing else, and the table can grow without reading the ids.  Hashes are
Python's, which clients cannot predict.
"""

from millstream.base.buffer import GrowingBuffer, equal_parts
from millstream.base.numbers import Numbers

_FORGOTTEN_AT_ONCE = 16  # entries; more than come in the meantime, which is one
_SPARE = 4096  # forgotten entries at the front before they are cut off
_SMALLEST_BITS = 6  # of a table, which has two to their power slots
_HALF = 32
_LOW = 0xFFFFFFFF
_MOSTLY_EMPTY = 8  # a table with so many slots for each id is made smaller


class Dedupe(GrowingBuffer):
    """Ids in order of arrival; times are wall-clock nanoseconds."""

    def __init__(self, window_ns: int) -> None:
        GrowingBuffer.__init__(self)
        self.window_ns = window_ns
        self._known = 0  # ids in the table
        # An id that came again has two entries; the later one is in the table.
        self._ends = Numbers(8)
        self._seqs = Numbers(8)
        self._times = Numbers(8)
        self._head = 0  # the first entry that is not forgotten
        self._cut_entries = 0  # how many were cut off before the first one here
        self._cut_bytes = 0  # where its id began
        self._bits = _SMALLEST_BITS
        self._slots = _empty_table(_SMALLEST_BITS)
        self._last_id = b""
        self._last_seq = 0

    def __len__(self) -> int:
        """Return the number of ids that are not forgotten; some may be too old to be found."""
        return self._known

    def find(self, message_id: bytes, now_ns: int) -> int:
        """Return the sequence of the message with this id, or 0."""
        oldest_ns = now_ns - self.window_ns
        self._forget_old(oldest_ns)
        word = self._slots.at(self._slot_of(message_id, _hash_of(message_id)))
        if word == 0:
            return 0
        entry = self._entry_of(word)
        return self._seqs.at(entry) if self._time_at(entry) > oldest_ns else 0

    def add(self, message_id: bytes, seq: int, now_ns: int) -> None:
        hashed = _hash_of(message_id)
        slot = self._slot_of(message_id, hashed)
        if self._slots.at(slot) == 0:
            self._known += 1
        number = (self._cut_entries + self._ends.count) & _LOW
        self._slots.set(slot, hashed << _HALF | number)
        self.append(message_id)
        self._ends.push(self._cut_bytes + self.size)
        self._seqs.push(seq)
        self._times.push(now_ns)
        self._last_id = message_id
        self._last_seq = seq
        if self._known * 3 > self._slots.count * 2:
            self._resize(self._bits + 1)

    def id_of(self, last_seq: int) -> bytes:
        """Return the id of the stream's last message; empty if it has none."""
        return self._last_id if self._last_seq == last_seq else b""

    def clear(self) -> None:
        self._known = 0
        self._bits = _SMALLEST_BITS
        self._slots = _empty_table(_SMALLEST_BITS)
        self._cut_off(self._ends.count)

    # -- the table ----------------------------------------------------------------------------------

    def _slot_of(self, message_id: bytes, hashed: int) -> int:
        """Return the slot that has, or would have, the id."""
        mask = self._slots.count - 1
        slot = hashed >> (_HALF - self._bits)
        while True:
            word = self._slots.at(slot)
            if word == 0:
                return slot
            if word >> _HALF == hashed and self._is_id_of(self._entry_of(word), message_id):
                return slot
            slot = (slot + 1) & mask

    def _entry_of(self, word: int) -> int:
        return (word - self._cut_entries) & _LOW

    def _is_id_of(self, entry: int, message_id: bytes) -> bool:
        start = self._start(entry)
        size = len(message_id)
        if self._ends.at(entry) - self._cut_bytes - start != size:
            return False
        return equal_parts(self._store, start, message_id, size)

    def _start(self, entry: int) -> int:
        return self._ends.at(entry - 1) - self._cut_bytes if entry else 0

    def _vacate(self, hole: int) -> None:
        """Empty a slot, and move up those after it that would not be found any more."""
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

    # -- forgetting ---------------------------------------------------------------------------------

    def _forget_old(self, oldest_ns: int) -> None:
        """Forget some old ids, not all at once: a message must not wait for millions of others."""
        head = self._head
        count = self._times.count
        if head >= count or self._time_at(head) > oldest_ns:
            return
        if self._time_at(count - 1) <= oldest_ns:
            self.clear()
            return
        stop = min(head + _FORGOTTEN_AT_ONCE, count)
        while head < stop and self._time_at(head) <= oldest_ns:
            start = self._start(head)
            message_id = self.cut(start, self._ends.at(head) - self._cut_bytes - start)
            slot = self._slot_of(message_id, _hash_of(message_id))
            word = self._slots.at(slot)
            if word and self._entry_of(word) == head:
                self._vacate(slot)
                self._known -= 1
            head += 1
        self._head = head
        if head > _SPARE and head * 2 > count:
            self._cut_off(head)

    def _time_at(self, entry: int) -> int:
        return self._times.at(entry)  # signed, to be compared with a clock that stands near 0

    def _cut_off(self, count: int) -> None:
        """Drop the first `count` entries, none of which is in the table."""
        start = self._start(count)
        rest = self.cut(start, self.size - start)
        self._cut_bytes += start
        self._cut_entries += count
        self._ends = _from(self._ends, count)
        self._seqs = _from(self._seqs, count)
        self._times = _from(self._times, count)
        self._head = 0
        self._store = bytearray()
        self._capacity = 0
        self.size = 0
        self.append(rest)
        while self._bits > _SMALLEST_BITS and self._known * _MOSTLY_EMPTY < self._slots.count:
            self._resize(self._bits - 1)


def _empty_table(bits: int) -> Numbers:
    return Numbers(8, bytes(8 << bits))


def _from(numbers: Numbers, index: int) -> Numbers:
    """Return the numbers from `index` on."""
    at = index * numbers.width
    return Numbers(numbers.width, numbers.cut(at, numbers.size - at))


def _hash_of(message_id: bytes) -> int:
    value = hash(message_id)
    return ((value >> _HALF) & _LOW) | 1
