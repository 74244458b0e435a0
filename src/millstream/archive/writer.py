"""Write an archive: entries in, frames out, of which no more than a block waits in memory.

writer = ArchiveWriter()
writer.add("state.json", now_ns, text)
writer.entries.add(…) …                  # messages
data = writer.take() …                   # whenever enough was added
data = writer.finish()
"""

from __future__ import annotations

from millstream.archive.entries import MAGIC, EntryBuffer
from millstream.archive.frames import BLOCK_SIZE, START, frame


class ArchiveWriter:
    """Writes one archive; see the module.  Messages are added to `entries`."""

    def __init__(self) -> None:
        self.entries = EntryBuffer()
        self.entries.append(MAGIC)
        self._begun = False

    def add(self, name: str, timestamp: int, text: bytes) -> None:
        """Add an entry that is not a message."""
        self.entries.add(name.encode(), timestamp, 0, text, 0, 0, len(text))

    def take(self) -> bytes:
        """Return the entries as frames; less than a block waits for the next call."""
        data = self.entries.take()
        whole = len(data) - len(data) % BLOCK_SIZE
        self.entries.append(data[whole:])
        return self._frames(data, whole)

    def finish(self) -> bytes:
        """End the archive and return its last frames."""
        self.entries.add(b"", 0, 0, b"", 0, 0, 0)
        data = self.entries.take()
        return self._frames(data, len(data))

    def _frames(self, data: bytes, end: int) -> bytes:
        start = b"" if self._begun else START
        self._begun = True
        return start + b"".join(
            frame(data[at : min(at + BLOCK_SIZE, end)]) for at in range(0, end, BLOCK_SIZE)
        )
