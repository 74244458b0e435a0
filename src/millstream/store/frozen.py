"""A log at one moment, read while it continues to change.

    frozen = Frozen(log)                  # what is stored now, committed or not
    ... after the commit of everything up to ``frozen.last_seq``:
    while frozen.enter():                 # on the log's thread: one segment after the other
        while frozen.next(record): ...    # in any thread: the messages of that segment
    frozen.close()

Messages removed meanwhile are still read, and later ones are not: a copy has a state that the log really had.
For that, segments are *held*: they are neither dropped nor rewritten before they were read, so space freed
meanwhile is returned later.  Only messages erased on request are gone at once and left out.

Each record is verified.  A damaged one raises StoreError, because a copy must not be silently incomplete.
"""

import msgspec

from millstream.store.commit import segment_path
from millstream.store.errors import StoreError
from millstream.store.fs import File
from millstream.store.log import Log
from millstream.store.record import WHOLE, Kind, Record
from millstream.store.segment import Segment

_CHUNK = 256 * 1024
_WHOLE = WHOLE
_ERASED = int(Kind.ERASED)


class _Held(msgspec.Struct):
    """A segment, and the part of it that belongs to the frozen state."""

    segment: Segment
    count: int
    removed: bytes
    sealed: bool


class Frozen:
    """The frozen state of a log; see the module."""

    def __init__(self, log: Log) -> None:
        self.last_seq = log.last_seq
        self.damaged = 0  # a sequence whose record could not be read
        self._log = log
        self._held: list[_Held] = []
        for segment in log.chain.segments:
            if segment.live:
                log.removal.hold(segment)
                removed = bytes(segment.removed or b"")
                self._held.append(_Held(segment, segment.count, removed, segment.sealed))
        self._held.reverse()  # the next one is at the end
        self._segment: Segment | None = None
        self._file: File | None = None
        self._count = 0
        self._removed = b""
        self._ordinal = 0
        self._chunk = b""
        self._chunk_start = 0

    def enter(self) -> bool:
        """Enter the next segment; return False if there is none."""
        self._leave()
        if not self._held:
            return False
        held = self._held[-1]
        segment = held.segment
        self._log.reader.load(segment)
        if segment.count < held.count or (held.sealed and segment.count != held.count):
            raise StoreError("read", segment_path(self._log.folder, segment.number), "messages are lost")
        self._segment = segment
        self._file = self._log.chain.tables.file(segment)
        self._count = held.count
        self._removed = held.removed
        self._ordinal = 0
        self._chunk = b""
        return True

    def next(self, record: Record) -> bool:
        """Point `record` at the next message of the segment; return False if there is none."""
        segment = self._segment
        if segment is None:
            return False
        while self._ordinal < self._count:
            ordinal = self._ordinal
            self._ordinal += 1
            if self._was_removed(ordinal):
                continue
            if not self._read(segment, ordinal, record):
                self.damaged = segment.seq_at(ordinal)
                path = segment_path(self._log.folder, segment.number)
                raise StoreError("read", path, "damaged record", seq=self.damaged)
            if record.kind != _ERASED:
                return True
        return False

    def close(self) -> None:
        """Release the segments."""
        self._leave()
        while self._held:
            self._log.removal.release(self._held.pop().segment)

    def _leave(self) -> None:
        if self._segment is not None:
            self._segment = None
            self._file = None
            self._log.removal.release(self._held.pop().segment)

    def _was_removed(self, ordinal: int) -> bool:
        p = self._removed
        return ordinal >> 3 < len(self._removed) and (p[ordinal >> 3] >> (ordinal & 7)) & 1 != 0

    def _read(self, segment: Segment, ordinal: int, record: Record) -> bool:
        offset = segment.offset_at(ordinal)
        at = offset - self._chunk_start
        have = len(self._chunk)
        if at < 0 or at >= have or record.read(self._chunk, at, have, True, self._chunk_start) != _WHOLE:
            # Not all of it is at hand, or it is damaged: then it will be so again.
            size = segment.end_of(ordinal) - offset
            assert self._file is not None
            self._chunk = self._file.read(offset, size if size > _CHUNK else _CHUNK)
            self._chunk_start = offset
            if record.read(self._chunk, 0, len(self._chunk), True, offset) != _WHOLE:
                return False
        return record.seq == segment.seq_at(ordinal) and record.is_numbered()
