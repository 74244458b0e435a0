"""Rewrite a sealed segment in compressed blocks, so that it takes less space on disk.

It changes less than a compaction: readers see the same bytes at the same offsets (``block_file``), so tables
and summary stay valid, and damage stays and is found by reading.  The active segment is never compressed, so
publishing costs the same.

Not here: exchanging the files (``segment_rewrite``), choosing the segment (``LogUpkeep.candidate``).
"""

from __future__ import annotations

import time

from millstream.store.block_file import BlockWriter, finished_file
from millstream.store.segment_rewrite import Rewriting

_CHUNK = 64 * 1024  # then other threads may go on: the interpreter would let them wait for 5 ms


class Compression(Rewriting):
    """One segment that is rewritten in blocks."""

    def run(self) -> None:
        file = self.create()
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
