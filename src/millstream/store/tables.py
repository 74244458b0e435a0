"""The tables of sealed segments: brought in when a message is looked for, dropped when there are many.

Open files come and go with them.  Used by the thread that appends, and by no other.
"""

from __future__ import annotations

from millstream.store.block_file import open_segment_file
from millstream.store.commit import segment_path, summary_path
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem
from millstream.store.scan import scan
from millstream.store.segment import Segment, start_in_header
from millstream.store.summary import Summary, decode, load_tables

MOST_LOADED = 16  # sealed segments


class Tables:
    """Which segments have theirs in memory."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._loaded: list[Segment] = []  # sealed ones, the latest used last

    def move(self, folder: str) -> None:
        """The folder was renamed."""
        self._folder = folder

    def file(self, segment: Segment) -> File:
        if segment.file is None:
            segment.file = open_segment_file(self._fs, segment_path(self._folder, segment.number))
        file: File = segment.file
        return file

    def keep(self, segment: Segment) -> None:
        """A segment that has its tables was sealed."""
        self._loaded.append(segment)

    def drop(self, segment: Segment) -> None:
        """A segment is gone."""
        if segment in self._loaded:
            self._loaded.remove(segment)

    def load(self, segment: Segment) -> Segment | None:
        """Give a segment its tables; if its file does not hold what was known of it, what it does hold."""
        summary = self._summary(segment)
        scanned = None
        if summary is not None:
            load_tables(segment, summary)
        else:
            scanned = self._scan(segment)
            segment.summarized = False
            if scanned.count == segment.count and scanned.all_bytes == segment.all_bytes:
                segment.adopt_tables(scanned)
                scanned = None
        self._loaded.append(segment)
        self.trim()
        return scanned

    def _summary(self, segment: Segment) -> Summary | None:
        """Its summary, if it is still the one that was there when the log was opened."""
        try:
            found = decode(self._fs.read_all(summary_path(self._folder, segment.number)))
        except StoreError:
            return None
        if found is None or found.number != segment.number or found.log_size != segment.size:
            return None
        return found if found.count == segment.count else None

    def _scan(self, segment: Segment) -> Segment:
        file = self.file(segment)
        data = file.read(0, segment.size)
        scanned = Segment(segment.number, segment.base_seq)
        found = scan(scanned, data, start_in_header(data) is not None)
        if found.end < segment.size:
            scanned.note_gap(segment.size)
        return scanned

    def trim(self) -> None:
        """Drop the tables that were brought in first, but for the last one."""
        spare = len(self._loaded) - MOST_LOADED
        for segment in self._loaded[:-1]:
            if spare <= 0:
                return
            if segment.pins or not segment.summarized or segment.pending.size:
                continue  # they are needed, and exist nowhere else
            self._loaded.remove(segment)
            segment.unload()
            if segment.file is not None:
                segment.file.close()
                segment.file = None
            spare -= 1
