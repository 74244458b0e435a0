"""Rewrite a sealed segment without its dead records, so that scattered removals free disk space.

Messages removed meanwhile are marked as removed in the new file as well.  Removals that the old file records
for other files are kept; those for its own messages are not needed, because the new file does not contain
them.  In a compressed log, the new file is written in blocks at once.

Not here: exchanging the files (``segment_rewrite``), choosing the segment (``Log``), and the new summary,
which the next commit writes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from millstream.base.numbers import pack_rising
from millstream.store.block_file import BlockWriter, finished_file
from millstream.store.errors import StoreError
from millstream.store.record import WHOLE, Kind, Record, RecordBuffer, moved_record
from millstream.store.segment import Segment, file_header
from millstream.store.segment_rewrite import Rewriting

if TYPE_CHECKING:
    from millstream.store.fs import File, FileSystem

_CHUNK = 256 * 1024
_RECORDS_AT_ONCE = 64  # then other threads may go on: the interpreter would let them wait for 5 ms


class Compaction(Rewriting):
    """One segment that is rewritten to a smaller file."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        segment: Segment,
        file: File,
        kept_removals: list[int],
        block_size: int = 0,
    ) -> None:
        super().__init__(fs, folder, segment, file, block_size)
        self._removals = sorted(kept_removals)
        self.removed = bytes(segment.removed or b"")  # the other tables do not change any more
        self._chunk = b""
        self._chunk_at = 0

    def run(self) -> None:
        segment = self.segment
        fresh = Segment(segment.number, segment.start_seq)
        fresh.marks = segment.marks
        fresh.floor = segment.floor
        file = self.create()
        writer = BlockWriter(file, self._block_size) if self.compressed else None
        try:
            self._write_all(fresh, writer or file)
            if not self.cancelled and writer is not None:
                writer.finish()
                file = finished_file(self._fs, self._path, file)
            elif not self.cancelled:
                file.sync()
        except StoreError:
            file.close()
            raise
        fresh.synced = fresh.size
        self.fresh = fresh
        self.file = file

    def _write_all(self, fresh: Segment, file: File | BlockWriter) -> None:
        file.append(file_header(self.segment.start_seq))
        self._copy_messages(fresh, file)
        self._write_others(fresh, file)

    def _copy_messages(self, fresh: Segment, file: File | BlockWriter) -> None:
        record = Record()
        out = bytearray()
        for ordinal in range(self.segment.count):
            if ordinal % _RECORDS_AT_ONCE == 0:
                time.sleep(0)
                if self.cancelled:
                    return
            if self._was_removed(ordinal):
                continue
            if not self._read(ordinal, record):
                self.damaged.append(self.segment.seq_at(ordinal))
                continue
            data = record.buf[record.start : record.start + record.size]
            out += moved_record(data, self.segment.offset_at(ordinal), fresh.size)
            fresh.note(record.seq, record.timestamp, record.subject(), record.header_size > 0, record.size)
            if len(out) >= _CHUNK:
                file.append(bytes(out))
                out.clear()
        file.append(bytes(out))

    def _read(self, ordinal: int, record: Record) -> bool:
        offset, end = self.segment.offset_at(ordinal), self.segment.end_of(ordinal)
        if offset < self._chunk_at or end > self._chunk_at + len(self._chunk):
            self._chunk = self._old.read(offset, max(_CHUNK, end - offset))
            self._chunk_at = offset
        found = record.read(self._chunk, offset - self._chunk_at, len(self._chunk), True, self._chunk_at)
        return found == WHOLE and record.seq == self.segment.seq_at(ordinal) and record.is_message()

    def _was_removed(self, ordinal: int) -> bool:
        removed = self.removed
        return ordinal >> 3 < len(removed) and (removed[ordinal >> 3] >> (ordinal & 7)) & 1 != 0

    def _write_others(self, fresh: Segment, file: File | BlockWriter) -> None:
        """Write the records besides messages: used sequences and removals."""
        buffer = RecordBuffer()
        buffer.base = fresh.size
        timestamp = self.segment.last_timestamp
        if fresh.last_seq < self.segment.last_seq:
            fresh.last_seq = self.segment.last_seq
            fresh.note_other(buffer.add(int(Kind.SKIP), fresh.last_seq, timestamp, b"", b"", 0, 0, 0))
        if fresh.floor:
            fresh.note_other(buffer.add(int(Kind.FLOOR), fresh.floor, timestamp, b"", b"", 0, 0, 0))
        if self._removals:
            body = pack_rising(self._removals)
            count = len(self._removals)
            fresh.note_other(buffer.add(int(Kind.REMOVED), count, timestamp, b"", body, 0, 0, len(body)))
            fresh.removals.extend(self._removals)
        buffer.seal()
        file.append(buffer.peek())
