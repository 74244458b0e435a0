"""Append records to a log: to its active segment, or to a new one when that is full.

Appending changes memory at once and collects bytes in the segment; commits write them (``log_commits``).
"""

from __future__ import annotations

from millstream.base.numbers import pack_rising
from millstream.store.index import SubjectIndex
from millstream.store.log_state import LogState
from millstream.store.next_commit import NextCommit
from millstream.store.record import COMMIT_START, Kind
from millstream.store.scan import FARTHEST_JUMP
from millstream.store.segment import FILE_HEADER_SIZE, Segment
from millstream.store.segment_chain import SegmentChain

_REMOVED = int(Kind.REMOVED)
_FLOOR = int(Kind.FLOOR)
_SKIP = int(Kind.SKIP)
_MESSAGE = int(Kind.MESSAGE)
_ERASE = int(Kind.ERASE)
_FARTHEST_JUMP = FARTHEST_JUMP
_COMMIT_START = COMMIT_START
_LARGE_MESSAGE = 64 * 1024  # bytes; the end of a segment costs as much as writing twenty of them
_LONGER = 2  # usual sizes: a restart reads the last segment as a whole
_MOST_MESSAGES = 65_536  # of a segment: the event loop waits while the tables of one are loaded


class LogAppender:
    """Appends to one log."""

    def __init__(
        self,
        state: LogState,
        chain: SegmentChain,
        index: SubjectIndex,
        gathered: NextCommit,
        segment_size: int,
    ) -> None:
        self.segment_size = segment_size
        self._state = state
        self._chain = chain
        self._index = index
        self._gathered = gathered

    def append(
        self,
        subject: bytes,
        source: bytes,
        start: int,
        header_size: int,
        size: int,
        timestamp: int,
        marks: int,
    ) -> int:
        """Store ``source[start:start + size]``, which begins with headers; return its sequence."""
        state = self._state
        segment = self._chain.active
        if (
            segment is None
            or segment.count >= _MOST_MESSAGES
            or (segment.size >= self.segment_size and self._is_full(segment))
        ):
            segment = self.roll()
        seq = state.last_seq + 1
        total = segment.write(_MESSAGE, seq, timestamp, subject, source, start, header_size, size)
        segment.note(seq, timestamp, subject, header_size > 0, total)
        if marks:
            segment.marks |= marks
        self._index.append(subject, seq)
        if state.messages == 0:
            state.first_seq = seq
        state.last_seq = seq
        state.last_timestamp = timestamp
        state.messages += 1
        state.record_bytes += total
        if header_size > 0:
            state.with_headers += 1
        return seq

    def _is_full(self, segment: Segment) -> bool:
        """Return True if a segment of at least the usual size must end; large messages get a longer one."""
        return segment.size >= _LONGER * self.segment_size or segment.count * _LARGE_MESSAGE > segment.size

    def skip_to(self, seq: int, timestamp: int) -> None:
        """Use up all sequences up to and including `seq` without storing anything."""
        state = self._state
        if seq <= state.last_seq:
            raise ValueError(f"sequence {seq} is used up already")
        if seq - state.last_seq > _FARTHEST_JUMP:
            state.last_seq = seq
            # The new file says where it begins, the number left out that this is no loss.
            segment = self.begin_segment(self._next_number() + 1)
        else:
            segment = self._writable()
        state.last_seq = seq
        state.last_timestamp = timestamp
        self.write_used(segment)
        segment.last_seq = seq
        if state.messages == 0:
            state.first_seq = seq + 1

    def write_used(self, segment: Segment) -> None:
        """Write to a segment which sequences were used."""
        state = self._state
        segment.note_other(segment.write(_SKIP, state.last_seq, state.last_timestamp, b"", b"", 0, 0, 0))

    def write_end(self, segment: Segment) -> None:
        """Write that the collected records end a commit, and up to where all before it is durable."""
        state = self._state
        durable = max(min(segment.pending.base, segment.synced), FILE_HEADER_SIZE)
        body = durable.to_bytes(_COMMIT_START, "little")
        segment.note_other(
            segment.write(_SKIP, state.last_seq, state.last_timestamp, b"", body, 0, 0, _COMMIT_START)
        )

    # -- segments ---------------------------------------------------------------------------------

    def _writable(self) -> Segment:
        segment = self._chain.active
        if segment is None or (segment.size >= self.segment_size and self._is_full(segment)):
            segment = self.roll()
        return segment

    def roll(self) -> Segment:
        """Seal the active segment and begin the next."""
        return self.begin_segment(self._next_number())

    def _next_number(self) -> int:
        return self._chain.active.number + 1 if self._chain.active is not None else 1

    def begin_segment(self, number: int) -> Segment:
        """Seal the active segment and begin one with this number."""
        self.seal_active()
        segment = Segment(number, self._state.last_seq + 1)
        self._chain.append(segment)
        return segment

    def seal_active(self) -> None:
        """Seal the active segment, if there is one; another follows."""
        segment = self._chain.active
        if segment is None:
            return
        segment.sealed = True
        if segment.loaded:
            self._chain.tables.keep(segment)
        if not segment.summarized:
            self._gathered.work.unsummarized.append(segment)

    # -- removals ---------------------------------------------------------------------------------

    def write_removals(self) -> None:
        """Write which messages were removed since the last commit."""
        gathered, state = self._gathered, self._state
        if gathered.removing and min(gathered.removing) < state.first_seq:
            gathered.raise_floor(state.first_seq)
        if gathered.floor:
            segment = self._writable()
            segment.note_other(segment.write(_FLOOR, gathered.floor, state.last_timestamp, b"", b"", 0, 0, 0))
            segment.floor = max(segment.floor, gathered.floor)
        self._write_list(_REMOVED, sorted({seq for seq in gathered.removing if seq >= gathered.floor}))
        self._write_list(_ERASE, sorted(gathered.erasing))
        gathered.removing = []
        gathered.erasing = []
        gathered.floor = 0

    def _write_list(self, kind: int, seqs: list[int]) -> None:
        if not seqs:
            return
        segment = self._writable()
        body = pack_rising(seqs)
        total = segment.write(kind, len(seqs), self._state.last_timestamp, b"", body, 0, 0, len(body))
        segment.note_other(total)
        segment.removals.extend(seqs)
