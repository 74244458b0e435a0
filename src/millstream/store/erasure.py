"""Overwrite removed records of a segment in place, if too few are dead to rewrite it.

Each removed record becomes an ERASED record of the same size, with its sequence, its time and nothing else.
Only bytes of removed records change, so readers of others are not disturbed, and a power loss in between
damages nothing that is needed: the removal was durable before the job began (``segment_job``).

The summary of a sealed segment is rewritten, because it contains subjects: those that only erased messages
had are left out.  It also tells a restart what need not be erased again.  A growing segment has no summary; a
scan of its file gives the same.

Not here: segments that are mostly dead, or compressed (``compaction``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from millstream.store import summary, unsynced
from millstream.store.commit import summary_path
from millstream.store.errors import StoreError
from millstream.store.record import blank_record
from millstream.store.segment_job import SegmentJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.store.fs import File, FileSystem
    from millstream.store.segment import Segment

_SPAN: Final = 128 * 1024  # bytes that are read at once
_PLACES_A_SYNC: Final = 1024  # so that a commit that syncs the same disk does not wait for long
_BYTES_A_SYNC: Final = 4 * 1024 * 1024


class Erasure(SegmentJob):
    """One segment whose removed messages are overwritten."""

    replaces_file = False

    def __init__(self, fs: FileSystem, folder: str, segment: Segment, ordinals: list[int]) -> None:
        super().__init__(fs, folder, segment)
        self.ordinals = ordinals
        self.relabelled: Segment | None = None  # the tables of a sealed segment, as its new summary has them
        self.done = False
        self.sync_failed = False  # the system may have dropped also what others wrote to the file
        self._sealed = segment.sealed
        self._unsynced_places = self._unsynced_bytes = 0

    def run(self) -> None:
        assert self.old is not None or self.cancelled
        if self.old is None:
            return
        for span in self._spans():
            time.sleep(0)  # other threads may go on: the interpreter would let them wait for 5 ms
            if self.cancelled:
                break
            self._erase(self.old, span)
        self._sync(self.old)
        if self.cancelled:
            return
        if self._sealed:
            self._summarize()
        self.done = True

    def _spans(self) -> Iterator[list[int]]:
        """Yield the ordinals in groups that lie close together."""
        span: list[int] = []
        for ordinal in self.ordinals:
            if span and self.segment.end_of(ordinal) - self.segment.offset_at(span[0]) > _SPAN:
                yield span
                span = []
            span.append(ordinal)
        if span:
            yield span

    def _erase(self, file: File, span: list[int]) -> None:
        segment = self.segment
        start = segment.offset_at(span[0])
        data = bytearray(file.read(start, segment.end_of(span[-1]) - start))
        first = last = start  # of the records, one behind the other, that are written at once
        for ordinal in span:
            offset, end = segment.offset_at(ordinal), segment.end_of(ordinal)
            if end - start > len(data):
                break  # the file was cut: what is not there need not be erased
            if offset != last:
                self._write(file, first, data[first - start : last - start])
                first = offset
            seq = segment.seq_at(ordinal)
            blank_record(data, offset - start, end - offset, seq, segment.last_timestamp, offset)
            last = end
        self._write(file, first, data[first - start : last - start])

    def _write(self, file: File, offset: int, data: bytearray) -> None:
        if not data:
            return
        file.overwrite(offset, bytes(data), sync=False)
        self._unsynced_places += 1
        self._unsynced_bytes += len(data)
        if self._unsynced_places >= _PLACES_A_SYNC or self._unsynced_bytes >= _BYTES_A_SYNC:
            self._sync(file)

    def _sync(self, file: File) -> None:
        try:
            file.sync()
        except StoreError:
            self.sync_failed = True
            unsynced.try_to_note(self._fs, self._folder, self.segment.number)
            raise
        self._unsynced_places = self._unsynced_bytes = 0

    def _summarize(self) -> None:
        fresh = self.segment.relabelled(self.ordinals)
        path = summary_path(self._folder, self.segment.number)
        self._fs.replace(path, summary.encode(fresh, fresh.all_bytes))
        self.relabelled = fresh
