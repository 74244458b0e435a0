"""Writing a sealed segment anew in compressed blocks, so that it takes less room on the disk.

    Log.begin_compaction ──▶ Compression.run (pack, sync; any thread) ──▶ Log.end_compaction (rename)

It is done and exchanged like a compaction (``compaction``), and less changes: the new file holds the
same bytes at the same offsets for whoever reads it (``block_file``), so tables and summary stay right.
The active segment is never compressed: publishing costs what it costs without.

Not here: which segment is next (``Log.compaction_candidate``).
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from millrace.store.block_file import BlockWriter, finished_file
from millrace.store.commit import segment_path
from millrace.store.errors import StoreError

if TYPE_CHECKING:
    from millrace.store.fs import File, FileSystem
    from millrace.store.segment import Segment

_CHUNK = 64 * 1024  # then other threads may go on: the interpreter would let them wait for 5 ms


class Compression:
    """One segment on its way into blocks."""

    def __init__(self, fs: FileSystem, folder: str, segment: Segment, file: File, block_size: int) -> None:
        self._fs = fs
        self._path = segment_path(folder, segment.number)
        self._new_path = self._path + ".new"
        self._old = file
        self._block_size = block_size
        self.segment = segment
        self.cancelled = False  # the segment went, or content was erased in the old file
        self.compressed = True  # the new file will be
        self.file: File | None = None  # the new one, once it is written
        self.fresh: Segment | None = None  # the tables are the same
        self.damaged: list[int] = []  # what is damaged stays so, and is found by reading

    def run(self) -> None:
        """Write and sync the new file; StoreError if that fails."""
        self._fs.remove(self._new_path)
        file = self._fs.open(self._new_path, create=True)
        try:
            writer = BlockWriter(file, self._block_size)
            for start in range(0, self.segment.size, _CHUNK):
                if self.cancelled:
                    break
                time.sleep(0)
                writer.append(self._old.read(start, min(_CHUNK, self.segment.size - start)))
            else:
                writer.finish()
                self.file = finished_file(self._fs, self._path, file)
        finally:
            if self.file is None:
                file.close()

    def put_in_place(self) -> None:
        """The new file takes the name of the old one."""
        self._fs.rename(self._new_path, self._path)

    def discard(self) -> None:
        """Forget the new file; if it cannot be removed now, opening the log does it."""
        if self.file is not None:
            self.file.close()
        with contextlib.suppress(StoreError):
            self._fs.remove(self._new_path)
