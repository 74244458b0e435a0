"""Responses to many publishers, collected without an object for each.

    +-----------------+---------------+------------+-------+-----+
    | reply size u16  | end size u16  | number u64 | reply | end |
    +-----------------+---------------+------------+-------+-----+

The response to `reply` is a fixed text, `number` in decimal digits, and `end`.  A reply subject is part of a
protocol line, so 16 bits hold its size.
"""

from collections.abc import Iterator

from millstream.base.buffer import GrowingBuffer

FIXED_SIZE = 12
_FIXED_SIZE = FIXED_SIZE
_MOST = 0xFFFF
_KEPT = 4096


class Replies(GrowingBuffer):
    """Pending responses, in order."""

    def __init__(self) -> None:
        GrowingBuffer.__init__(self)
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, source: bytes, start: int, size: int, number: int, end: bytes) -> None:
        """Add a response to the subject in ``source[start:start + size]``."""
        end_size = len(end)
        if start < 0 or size < 0 or size > _MOST or end_size > _MOST or start + size > len(source):
            raise ValueError("an answer does not fit")
        self.reserve(_FIXED_SIZE + size + end_size)
        self.put_little(size, 2)
        self.put_little(end_size, 2)
        self.put_little(number, 8)
        self.put(source, start, size)
        self.put(end, 0, end_size)
        self.count += 1

    def extend(self, others: "Replies") -> None:
        """Append the responses in `others`."""
        if others.count:
            self.append(others.peek())
            self.count += others.count

    def clear(self) -> None:
        """Forget all of them; the memory is kept for the next ones, unless it is large."""
        self.count = 0
        self.size = 0
        if self._capacity > _KEPT:
            self._store = bytearray()
            self._capacity = 0

    def __iter__(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield (reply, number, end) of each; slow."""
        data = self.peek()
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 2], "little")
            end_size = int.from_bytes(data[at + 2 : at + 4], "little")
            number = int.from_bytes(data[at + 4 : at + 12], "little")
            at += _FIXED_SIZE
            yield data[at : at + size], number, data[at + size : at + size + end_size]
            at += size + end_size
