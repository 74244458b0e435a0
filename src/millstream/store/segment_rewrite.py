"""Rewrite a sealed segment beside its file, then replace the file.

    Log.next_job ──▶ Rewriting.run (any thread) ──▶ Log.end_job (rename); see ``segment_job``

Readers use the old file until the new one, under the same name, replaces it between two calls on the log's
thread.  Both files mean the same, so a crash may leave either.

Not here: what differs in the new file (``compaction``, ``compression``), and which segment is next
(``LogUpkeep.candidate``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.store.errors import StoreError
from millstream.store.segment_job import SegmentJob

if TYPE_CHECKING:
    from millstream.store.fs import File, FileSystem
    from millstream.store.segment import Segment


class Rewriting(SegmentJob):
    """The rewriting of one segment."""

    def __init__(self, fs: FileSystem, folder: str, segment: Segment, file: File, block_size: int) -> None:
        super().__init__(fs, folder, segment)
        self._new_path = self._path + ".new"
        self._old = self.old = file
        self._block_size = block_size
        self.compressed = block_size > 0  # the new file will be
        self.file: File | None = None  # the new one, once it is written
        self.fresh: Segment | None = None  # what that holds, if the tables are not the same
        self.removed = (
            b""  # bits of the messages that were removed when it began; the new file has none of them
        )
        self.damaged: list[int] = []  # sequences of messages that could not be copied

    def create(self) -> File:
        """Create the new, empty file."""
        self._fs.remove(self._new_path)
        return self._fs.open(self._new_path, create=True)

    def put_in_place(self) -> None:
        """Rename the new file to the name of the old one."""
        self._fs.rename(self._new_path, self._path)

    def discard(self) -> bool:
        """Remove the new file; return False if it cannot be removed now and must be retried."""
        if self.file is not None:
            self.file.close()
            self.file = None
        try:
            self._fs.remove(self._new_path)
        except StoreError:
            return False
        return True
