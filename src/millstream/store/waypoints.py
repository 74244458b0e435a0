"""Positions of a sealed segment's messages in little memory: a waypoint for about every 4 KiB of its file.

The tables of a segment take eight bytes or more for each message, so they are in memory for a few segments
only (``tables``).  A single message is found without them: take the last waypoint at or before it, read the
file from there to the next waypoint, and walk from record to record (``stretches``).  Every record has its
sequence and size, with a checksum, so nothing is trusted that the file does not confirm.

    offset    where the record of a message begins
    ordinal   of that message
    sequence  of that message; only if there are gaps, otherwise it is `base_seq` + ordinal
    time      of that message: a segment records the times of its waypoints as it grows, and its summary has
              them; not known if the summary is of format 1
"""

from millstream.base.numbers import Numbers

STRIDE = 4096


class Waypoints:
    """The waypoints of one segment."""

    def __init__(self, offsets: Numbers, seqs: Numbers | None, base_seq: int, size: int, stride: int) -> None:
        """Choose the waypoints from the tables of a segment whose file has `size` bytes."""
        self.base_seq = base_seq
        self.offsets = Numbers(4)
        self.ordinals = Numbers(4)
        self.seqs: Numbers | None = None if seqs is None else Numbers(8)
        self.times: Numbers | None = None  # in nanoseconds, if known
        self._size = size
        self._choose(offsets, seqs, size, stride)

    def _choose(self, offsets: Numbers, seqs: Numbers | None, size: int, stride: int) -> None:
        """Choose waypoints; a record longer than the stride gets its own, which its neighbours skip."""
        count = offsets.count
        behind = 0  # the first offset that needs another waypoint
        for ordinal in range(count):
            offset = offsets.at(ordinal)
            end = offsets.at(ordinal + 1) if ordinal + 1 < count else size
            if offset >= behind or end - offset > stride:
                self.offsets.push(offset)
                self.ordinals.push(ordinal)
                if self.seqs is not None and seqs is not None:
                    self.seqs.push(seqs.at(ordinal))
                behind = offset + stride
        self.offsets = _fitted(self.offsets)
        self.ordinals = _fitted(self.ordinals)
        if self.seqs is not None:
            self.seqs = _fitted(self.seqs)

    def before(self, seq: int) -> int:
        """Return the last waypoint whose sequence is not above `seq`; -1 if there is none."""
        if self.seqs is not None:
            return self.seqs.first_not_below(seq + 1) - 1
        if seq < self.base_seq:
            return -1
        return self.ordinals.first_not_below(seq - self.base_seq + 1) - 1

    def take_times(self, ordinals: Numbers, times: Numbers) -> None:
        """Take over the times recorded for messages, if those are the ones with waypoints."""
        if ordinals.peek() == self.ordinals.peek():
            self.times = _fitted(times)

    def ordinal_end(self, index: int, count: int) -> int:
        """Return the ordinal of the next waypoint, or `count` after the last one."""
        return self.ordinals.at(index + 1) if index + 1 < self.ordinals.count else count

    def start(self, index: int) -> int:
        """Return the start of a waypoint's stretch in the file."""
        return self.offsets.at(index)

    def end(self, index: int) -> int:
        """Return the end of a waypoint's stretch: the next waypoint, or the end of the file."""
        return self.offsets.at(index + 1) if index + 1 < self.offsets.count else self._size


def _fitted(numbers: Numbers) -> Numbers:
    """Return a copy without room to grow: a large log has thousands of these lists."""
    return Numbers(numbers.width, numbers.peek())
