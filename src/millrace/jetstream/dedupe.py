"""Which message ids were seen within the duplicate window.

On the path of messages that have one, so compiled: a table from id to sequence, and beside it the ids in
the order in which they came, with times, so that the oldest are forgotten one by one.
"""

from millrace.store.numbers import Numbers

_SPARE = 4096  # forgotten entries at the front before the order is written anew


class Dedupe:
    """Ids in the order in which they came; times are wall-clock nanoseconds."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._seen: dict[bytes, int] = {}  # id -> sequence
        # An id that came again stands here twice; the later sequence is the one in `_seen`.
        self._ids: list[bytes | None] = []
        self._seqs = Numbers(8)
        self._times = Numbers(8)
        self._head = 0  # the first that is not forgotten
        self._last_id = b""
        self._last_seq = 0

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, message_id: bytes, now_ns: int) -> int:
        """The sequence of the message with this id, or 0."""
        self._forget_old(now_ns - self.window_ns)
        known = self._seen.get(message_id)
        return known if known is not None else 0

    def add(self, message_id: bytes, seq: int, now_ns: int) -> None:
        self._seen[message_id] = seq
        self._ids.append(message_id)
        self._seqs.push(seq)
        self._times.push(now_ns)
        self._last_id = message_id
        self._last_seq = seq

    def id_of(self, last_seq: int) -> bytes:
        """The id of the last message of the stream; empty if it has none."""
        return self._last_id if self._last_seq == last_seq else b""

    def clear(self) -> None:
        self._seen.clear()
        self._drop(len(self._ids))

    def _forget_old(self, oldest_ns: int) -> None:
        head = self._head
        if head >= self._times.count or self._time_at(head) > oldest_ns:
            return
        while head < self._times.count and self._time_at(head) <= oldest_ns:
            message_id = self._ids[head]
            if message_id is not None and self._seen.get(message_id) == self._seqs.at(head):
                del self._seen[message_id]
            self._ids[head] = None
            head += 1
        self._head = head
        if head > _SPARE and head * 2 > self._times.count:
            self._drop(head)

    def _time_at(self, index: int) -> int:
        return self._times.at(index)  # signed, to be compared with a clock that stands near 0

    def _drop(self, count: int) -> None:
        """Cut the first `count` entries off."""
        seqs = Numbers(8)
        times = Numbers(8)
        for index in range(count, self._times.count):
            seqs.push(self._seqs.at(index))
            times.push(self._times.at(index))
        del self._ids[:count]
        self._seqs = seqs
        self._times = times
        self._head = 0
