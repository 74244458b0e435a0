"""The way of a plain message into a stream: appended to the log, its publisher noted for an answer.

On the path of a message, so compiled.  A message is plain if it has no headers and the stream has no rule
that needs a second look; all others are copied and go to `slow`.
"""

from collections.abc import Callable
from typing import Any

from millrace.jsapi.publish_types import PUB_ACK_END
from millrace.protocol.parser import Frame

_END = PUB_ACK_END
_FAST_BATCH = b".$FI"  # a reply that ends like this drives a batch (see ``fast_batch``)
_LAST_LETTER = 73


class Ingest:
    """One per stream."""

    def __init__(
        self,
        log: Any,
        now_ns: Callable[[], int],
        dirty: Callable[[], None],
        slow: Callable[[bytes, bytes, bytes, bytes], None],
    ) -> None:
        self.plain = False  # messages without headers may take the short way
        self._log = log
        self._now_ns = now_ns
        self._dirty = dirty
        self._slow = slow
        self._acks: list[tuple[bytes, int, bytes]] = []  # (reply, sequence, end), for the next commit
        self._told = False  # that there is something to commit

    def take(self, subject: bytes, frame: Frame) -> None:
        """A message on one of the stream's subjects; the frame is only lent."""
        if not self.plain or frame.header_size > 0 or self._is_batched(frame):
            self._slow(subject, frame.reply(), frame.headers(), frame.payload())
            return
        seq = self._log.append(subject, frame.buf, frame.body_start, 0, frame.body_size, self.timestamp(), 0)
        if frame.reply_size > 0:
            self._acks.append((frame.reply(), seq, _END))
        self.tell()

    def _is_batched(self, frame: Frame) -> bool:
        if frame.reply_size < 4 or frame.buf[frame.reply_start + frame.reply_size - 1] != _LAST_LETTER:
            return False
        return frame.reply().endswith(_FAST_BATCH)

    def timestamp(self) -> int:
        """Now, but never before the last message: a clock that is set back does not reorder a stream."""
        now: int = self._now_ns()
        last: int = self._log.last_timestamp
        return now if now > last else last

    def acknowledge(self, reply: bytes, seq: int, end: bytes) -> None:
        """Answer once everything up to `seq` is durable."""
        self._acks.append((reply, seq, end))
        self.tell()

    def tell(self) -> None:
        """There is something to commit."""
        if not self._told:
            self._told = True
            self._dirty()

    def hand_over(self) -> list[tuple[bytes, int, bytes]]:
        """A commit begins: whose answers go with it."""
        acks = self._acks
        self._acks = []
        self._told = False
        return acks
