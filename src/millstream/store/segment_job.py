"""Long work on the file of one segment, done in another thread.

    Log.next_job ──▶ (a commit, until it is `ready`) ──▶ SegmentJob.run (any thread) ──▶ Log.end_job

A job deletes removed messages from a file.  That must not happen before their removal is durable: the message
that replaced one of them may not be on disk yet.

Not here: which segment is next (``LogUpkeep.candidate``), running the job
(``jetstream.stream.compactor``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.store.commit import segment_path

if TYPE_CHECKING:
    from millstream.store.fs import File, FileSystem
    from millstream.store.segment import Segment


class SegmentJob:
    """One segment, and the work on it."""

    replaces_file = True  # so nobody may begin to read the present one meanwhile

    def __init__(self, fs: FileSystem, folder: str, segment: Segment) -> None:
        self._fs = fs
        self._folder = folder
        self._path = segment_path(folder, segment.number)
        self.segment = segment
        self.old: File | None = None  # the segment's file; given when the job is ready
        self.ready = False  # everything that was removed before it began is durable
        self.cancelled = False  # the segment went, or content was erased in its file

    def run(self) -> None:
        """Do the work; raise StoreError if that fails."""
        raise NotImplementedError
