"""The segments of a log in order: which of them has a sequence or a time, and their files and tables.

The last one is *active*: it grows.  Not here: messages (``log_reader``), and when segments begin and go
(``log_writer``, ``log_removal``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.base.numbers import Numbers
from millstream.store.segment import Segment
from millstream.store.tables import Tables

if TYPE_CHECKING:
    from millstream.store.fs import FileSystem
    from millstream.store.segment_job import SegmentJob


class SegmentChain:
    """All segments of one log."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self.fs = fs
        self.folder = folder
        self.segments: list[Segment] = []
        self.active: Segment | None = None
        self.tables = Tables(fs, folder)
        self.job: SegmentJob | None = None  # long work on one of them that is in progress
        self.closed = False
        self._bases = Numbers(8)
        self._outdated = False  # `_bases` lacks what was dropped
        self._latest: Numbers | None = None  # the highest time up to each sealed segment, if known

    def append(self, segment: Segment) -> None:
        """Add the next segment, which becomes the active one."""
        self.segments.append(segment)
        if not self._outdated:
            self._bases.push(segment.base_seq)
        self._latest = None
        self.active = segment

    def drop(self, segment: Segment) -> None:
        """Remove a segment that is no longer needed."""
        self.segments.remove(segment)
        self._outdated = True  # thousands may be dropped before anything is looked up
        self._latest = None
        segment.epoch += 1
        self.tables.drop(segment)

    def times_changed(self) -> None:
        """Record that a segment has other times than before."""
        self._latest = None

    def move(self, folder: str) -> None:
        """Use the new name of the folder."""
        self.folder = folder
        self.tables.move(folder)

    def cancel_job(self, segment: Segment) -> bool:
        """Cancel the work on the segment that is in progress; return False if there is none."""
        if self.job is None or self.job.segment is not segment:
            return False
        self.job.cancelled = True
        return True

    # -- finding ----------------------------------------------------------------------------------

    def position_of(self, seq: int) -> int:
        """Return the position of the segment that has or had `seq`, or of the first one after it."""
        position = self.count_up_to(seq) - 1
        return position if position > 0 else 0

    def count_up_to(self, seq: int) -> int:
        """Return how many segments begin at or below `seq`."""
        if self._outdated:
            self._outdated = False
            self._bases = Numbers(8)
            for segment in self.segments:
                self._bases.push(segment.base_seq)
        return self._bases.first_not_below(seq + 1)

    def segment_of(self, seq: int) -> Segment | None:
        """Return the segment that has or had `seq`."""
        position = self.count_up_to(seq) - 1
        return self.segments[position] if position >= 0 else None

    def position_at_time(self, timestamp: int) -> int:
        """Return the position of the first segment that may have a message stored at or after `timestamp`."""
        if self._latest is None:
            self._latest = Numbers(8)
            highest = 0
            for segment in self.segments[:-1]:
                highest = max(highest, segment.last_timestamp)
                self._latest.push(highest)
        return self._latest.first_not_below(timestamp if timestamp > 0 else 0)

    # -- bytes that are not in files ----------------------------------------------------------------

    def changed(self) -> list[Segment]:
        """Return the segments with bytes to write; these are always the last ones."""
        at = len(self.segments)
        while at > 0:
            segment = self.segments[at - 1]
            if segment.pending.size == 0:
                break
            at -= 1
        return self.segments[at:]

    def unwritten(self) -> int:
        """Return the number of bytes of records that are not completely in a file yet."""
        total = 0
        at = len(self.segments)
        while at > 0:
            at -= 1
            segment = self.segments[at]
            size = segment.pending.size
            if segment.writing is not None:
                size += segment.writing.size
            if size == 0 and segment is not self.active:
                break
            total += size
        return total

    def gathered(self) -> int:
        """Return the number of bytes of records that await the next commit."""
        total = 0
        at = len(self.segments)
        while at > 0:
            at -= 1
            segment = self.segments[at]
            if segment.pending.size == 0:
                break
            total += segment.pending.size
        return total
