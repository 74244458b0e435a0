"""What the last commit wrote, kept for a moment: whoever waited for it need not read the file.

Reading costs a system call, and with threads at work also the interpreter's lock, for each of those who
waited.  A log keeps this only while somebody waits, and whoever told them forgets it.
"""

from __future__ import annotations

from millstream.store.record import RecordBuffer
from millstream.store.segment import Segment


class Recent:
    """The end of one segment."""

    __slots__ = ("_buffer", "_data", "end", "segment", "start")

    def __init__(self, segment: Segment, buffer: RecordBuffer) -> None:
        self.segment = segment
        self.start = buffer.base  # its place in the file
        self.end = buffer.base + buffer.size
        self._buffer = buffer
        self._data: bytes | None = None

    def data(self) -> bytes:
        """The records, sealed."""
        if self._data is None:
            self._data = self._buffer.peek()
        return self._data
