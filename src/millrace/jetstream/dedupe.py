"""Which message ids were seen within the duplicate window."""

from collections import OrderedDict


class Dedupe:
    """Ids in the order in which they came; times are wall-clock nanoseconds."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._seen: OrderedDict[bytes, tuple[int, int]] = OrderedDict()  # id -> (sequence, time)
        self._last = (b"", 0)  # the latest id, and the message that has it

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, message_id: bytes, now_ns: int) -> int:
        """The sequence of the message with this id, or 0."""
        self._forget_old(now_ns)
        known = self._seen.get(message_id)
        return known[0] if known is not None else 0

    def add(self, message_id: bytes, seq: int, now_ns: int) -> None:
        self._seen[message_id] = (seq, now_ns)
        self._seen.move_to_end(message_id)
        self._last = (message_id, seq)

    def id_of(self, last_seq: int) -> bytes:
        """The id of the last message of the stream; empty if it has none."""
        message_id, seq = self._last
        return message_id if seq == last_seq else b""

    def clear(self) -> None:
        self._seen.clear()

    def _forget_old(self, now_ns: int) -> None:
        oldest = now_ns - self.window_ns
        while self._seen:
            first = next(iter(self._seen))
            if self._seen[first][1] > oldest:
                return
            del self._seen[first]
