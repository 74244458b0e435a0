"""The bytes of the last commit, kept for a moment for readers that waited for it.

Reading the file costs each of them a system call and, with threads at work, the interpreter lock.  A log
keeps these bytes only while somebody waits; they are dropped after the waiters were notified.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from millstream.store.record import RecordBuffer
from millstream.store.segment import Segment


class Recent:
    """The end of one segment."""

    def __init__(self, segment: Segment, buffer: RecordBuffer) -> None:
        self.segment = segment
        self.start = buffer.base  # its place in the file
        self.end = buffer.base + buffer.size
        self._buffer = buffer
        self._data: bytes | None = None

    def data(self) -> bytes:
        """Return the sealed records."""
        if self._data is None:
            self._data = self._buffer.peek()
        return self._data
