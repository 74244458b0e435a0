"""Writing a sealed segment anew without its dead records, so that scattered removals free disk space.

    Log.begin_compaction ──▶ Compaction.run (copy, sync; any thread) ──▶ Log.end_compaction (rename)

Readers use the old file until the new one, under the same name, has taken its place between two
calls on the log's thread.  Messages that were removed meanwhile are removed in the new file as well.
What the old file says about messages in other files is kept; what it says about its own is not needed,
because those are not in the new one.  Both files mean the same, so a crash may leave either.  In a log
that is compressed, the new file is written in blocks at once.

Not here: which segment is worth it (``Log.compaction_candidate``), and the new summary: the next
commit writes it.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from millrace.store.block_file import BlockWriter, finished_file
from millrace.store.commit import segment_path
from millrace.store.errors import StoreError
from millrace.store.numbers import pack_rising
from millrace.store.record import WHOLE, Kind, Record, RecordBuffer, moved_record
from millrace.store.segment import Segment, file_header

if TYPE_CHECKING:
    from millrace.store.fs import File, FileSystem

_CHUNK = 256 * 1024
_RECORDS_AT_ONCE = 64  # then other threads may go on: the interpreter would let them wait for 5 ms


class Compaction:
    """One segment on its way into a smaller file."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        segment: Segment,
        file: File,
        kept_removals: list[int],
        block_size: int = 0,
    ) -> None:
        self._fs = fs
        self._path = segment_path(folder, segment.number)
        self._new_path = self._path + ".new"
        self.segment = segment
        self.cancelled = False  # the segment went, or content was erased in the old file
        self.compressed = block_size > 0  # the new file will be
        self.file: File | None = None  # the new one, once it is written
        self.fresh: Segment | None = None  # what that holds
        self.damaged: list[int] = []  # sequences of messages that could not be copied
        self._old = file
        self._block_size = block_size
        self._removals = sorted(kept_removals)
        self._removed = bytes(segment.removed or b"")  # the other tables do not change any more
        self._chunk = b""
        self._chunk_at = 0

    def run(self) -> None:
        """Write and sync the new file; StoreError if that fails."""
        segment = self.segment
        fresh = Segment(segment.number, segment.start_seq)
        fresh.marks = segment.marks
        fresh.floor = segment.floor
        self._fs.remove(self._new_path)
        file = self._fs.open(self._new_path, create=True)
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
        removed = self._removed
        return ordinal >> 3 < len(removed) and (removed[ordinal >> 3] >> (ordinal & 7)) & 1 != 0

    def _write_others(self, fresh: Segment, file: File | BlockWriter) -> None:
        """What is to be known besides the messages: which sequences are used, and what was removed."""
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

    def put_in_place(self) -> None:
        """The new file takes the name of the old one."""
        self._fs.rename(self._new_path, self._path)

    def discard(self) -> None:
        """Forget the new file; if it cannot be removed now, opening the log does it."""
        if self.file is not None:
            self.file.close()
        with contextlib.suppress(StoreError):
            self._fs.remove(self._new_path)
