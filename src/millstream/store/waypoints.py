"""Where the messages of a sealed segment lie, in little memory: a waypoint for about every 4 KiB of its file.

The tables of a segment take eight bytes and more for each message, so they are in memory for a few segments
only (``tables``).  A single message is found without them: take the last waypoint at or before it, read the
file from there to the next waypoint, and walk from record to record (``stretches``).  Every record says
which sequence it has and how long it is, with a checksum, so nothing is believed that the file does not say.

    offset    where the record of a message begins
    ordinal   of that message
    sequence  of that message; only if there are gaps, otherwise it is `base_seq` + ordinal
    time      of that message, if it is known: a segment notes the times of its waypoints as it grows, and
              after a restart whoever looks for a time does
"""

from millstream.store.numbers import Numbers

STRIDE = 4096


class Waypoints:
    """The waypoints of one segment."""

    def __init__(self, offsets: Numbers, seqs: Numbers | None, base_seq: int, size: int, stride: int) -> None:
        """Choose them from the tables of a segment whose file has `size` bytes."""
        self.base_seq = base_seq
        self.offsets = Numbers(4)
        self.ordinals = Numbers(4)
        self.seqs: Numbers | None = None if seqs is None else Numbers(8)
        self._times: Numbers | None = None  # in nanoseconds; 0: not known
        self._size = size
        self._choose(offsets, seqs, size, stride)

    def _choose(self, offsets: Numbers, seqs: Numbers | None, size: int, stride: int) -> None:
        """A record that is longer than the stride gets a waypoint of its own, which its neighbours skip."""
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

    def before(self, seq: int) -> int:
        """The last waypoint whose sequence is not above `seq`; -1 if there is none."""
        if self.seqs is not None:
            return self.seqs.first_not_below(seq + 1) - 1
        if seq < self.base_seq:
            return -1
        return self.ordinals.first_not_below(seq - self.base_seq + 1) - 1

    def time(self, index: int) -> int:
        """When the message at a waypoint was stored, if that is known; otherwise 0."""
        return self._times.at(index) if self._times is not None else 0

    def note_time(self, index: int, timestamp: int) -> None:
        """Remember when it was stored."""
        if self._times is None:
            self._times = Numbers(8, bytes(8 * self.offsets.count))
        self._times.set(index, max(timestamp, 0))

    def take_times(self, ordinals: Numbers, times: Numbers) -> None:
        """Take over the times that were noted for messages, if those are the ones that have waypoints."""
        if ordinals.peek() == self.ordinals.peek():
            self._times = times

    def ordinal_end(self, index: int, count: int) -> int:
        """The ordinal of the next waypoint, or `count` behind the last one."""
        return self.ordinals.at(index + 1) if index + 1 < self.ordinals.count else count

    def start(self, index: int) -> int:
        """Where the stretch of a waypoint begins in the file."""
        return self.offsets.at(index)

    def end(self, index: int) -> int:
        """Where it ends: at the next waypoint, or with the file."""
        return self.offsets.at(index + 1) if index + 1 < self.offsets.count else self._size
