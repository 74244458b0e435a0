"""The parked messages of a consumer with order by key, and which of them the journal has.

A parked message is still to be delivered, although the highest delivered message may be behind it.  Only the
first one of each key is here, with a mark of its key (``key_order``).

The journal takes every message up to the last delivery that it knows for delivered, unless a row says
otherwise.  So it gets the row of a parked message when it knows a delivery behind it, not before.
"""

from millstream.base.freeing import Container
from millstream.base.paged_map import PagedMap


class Parked:
    """The parked messages of one consumer, by sequence in the stream."""

    def __init__(self) -> None:
        self._marks = PagedMap()  # sseq: twice the mark, and one more if the journal has it
        self._untold: list[int] = []  # parked, and the journal does not know; some may be gone

    def add(self, sseq: int, mark: int) -> None:
        """Add a message that the journal does not know; the mark is below 2^62."""
        self._marks.put(sseq, mark << 1)
        self._untold.append(sseq)

    def restore(self, sseq: int, mark: int) -> None:
        """Add a message that comes from the journal."""
        self._marks.put(sseq, mark << 1 | 1)

    def take(self, sseq: int) -> bool:
        """Forget a message; return True if the journal has it."""
        value = self._marks.take(sseq)
        return value is not None and value & 1 == 1

    def first(self) -> int:
        """Return the lowest message, or 0."""
        return self._marks.first()

    def holds(self, sseq: int) -> bool:
        """Return True if a message is parked."""
        return self._marks.get(sseq) is not None

    def containers(self) -> list[Container]:
        """Return what holds the messages, for ``base.freeing``."""
        return [self._marks, self._untold]

    def marks(self) -> list[tuple[int, int]]:
        """Return the messages and their marks, rising."""
        return [(sseq, value >> 1) for sseq, value in self._marks.items()]

    def known_rows(self) -> list[tuple[int, int, int]]:
        """Return the rows that the journal has."""
        return [(sseq, 0, value >> 1) for sseq, value in self._marks.items() if value & 1]

    def tell(self, rows: list[tuple[int, int, int]], told: int) -> None:
        """Add to `rows` those up to `told` that the journal does not have, and record that it has them."""
        later = []
        for sseq in self._untold:
            value = self._marks.get(sseq)
            if value is None or value & 1:
                continue
            if sseq > told:
                later.append(sseq)
                continue
            self._marks.put(sseq, value | 1)
            rows.append((sseq, 0, value >> 1))
        self._untold = later
