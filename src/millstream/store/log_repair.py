"""Opening a log, and damage: what a log does about files that hold less than they should.

Reading finds damaged and erased records (``log_reader``).  Their messages are given up, the rest of the log
stays, and ``Losses`` records what is gone.  Not here: reading files at a restart (``recovery``).
"""

from __future__ import annotations

import itertools
import logging
from typing import Final

from millstream.store.commit import segment_path
from millstream.store.index import SubjectIndex
from millstream.store.log_reader import LogReader
from millstream.store.log_removal import LogRemoval
from millstream.store.log_state import LogState
from millstream.store.log_writer import LogAppender
from millstream.store.losses import MOST_LISTED, Damage, Losses
from millstream.store.next_commit import NextCommit
from millstream.store.segment import Segment
from millstream.store.segment_chain import SegmentChain

_log = logging.getLogger("millstream.store")


class LogRepair:
    """Opens one log, and gives up what is damaged in it."""

    def __init__(
        self,
        state: LogState,
        chain: SegmentChain,
        index: SubjectIndex,
        gathered: NextCommit,
        reader: LogReader,
        writer: LogAppender,
        removal: LogRemoval,
        losses: Losses,
    ) -> None:
        self._losses = losses
        self._state = state
        self._chain = chain
        self._index = index
        self._gathered = gathered
        self._reader = reader
        self._writer = writer
        self._removal = removal

    # -- opening (see ``recovery``) ---------------------------------------------------------------

    def adopt(self, segment: Segment) -> None:
        """Add the next segment found on disk; its subjects are already in the index."""
        state = self._state
        self._writer.seal_active()
        self._chain.append(segment)
        state.messages += segment.count
        state.record_bytes += segment.all_bytes
        state.with_headers += segment.with_headers
        if segment.last_seq > state.last_seq:
            state.last_seq = segment.last_seq
        if segment.last_timestamp > state.last_timestamp:
            state.last_timestamp = segment.last_timestamp

    def settle(self) -> None:
        """Apply the removals recorded in the segments, after all of them were added."""
        segments = self._chain.segments
        if segments:
            self._state.first_seq = segments[0].base_seq
        floor = max([segment.floor for segment in segments], default=0)
        if floor:
            self._removal.remove_below(floor)
        removed: list[int] = []
        for segment in segments:
            removed += segment.removals.to_list()
        removed.sort()  # so that the tables of each segment are loaded once
        for seq in removed:
            target = self._chain.segment_of(seq)
            if target is None or not target.base_seq <= seq <= target.last_seq:
                continue
            self._reader.load(target)
            ordinal = target.ordinal_of(seq)
            if ordinal >= 0:
                self._removal.forget(target, ordinal)
        for segment in list(segments):
            self._removal.retire(segment)
        self._gathered.floor = 0 if self._is_recorded(floor) else floor
        self._removal.advance_first(self._state.first_seq)
        self._state.committed = self._state.last_seq

    def _is_recorded(self, floor: int) -> bool:
        """Return True if a file says, or needs not say, that everything below `floor` is removed."""
        segments = self._chain.segments
        return not segments or floor <= max(segments[0].base_seq, *(each.floor for each in segments))

    def had(self, seq: int) -> bool:
        """Return True if a used sequence has a record, or its removal was recorded.

        A file without the message of a sequence in its range shows that it was skipped or lost, unless the
        file was compacted after the removal.  A sequence in no file was in one that was dropped.
        """
        holder: Segment | None = None
        for segment in self._chain.segments:
            if holder is None and segment.start_seq <= seq <= segment.last_seq:
                holder = segment
                self._reader.load(segment)
                if segment.holds(seq):
                    return True
            # A removal is recorded behind its message.
            if holder is not None and (seq < segment.floor or seq in segment.removals.to_list()):
                return True
        return holder is None

    # -- what reading finds out -------------------------------------------------------------------

    def came_back(self, segment: Segment, found: Segment | None) -> None:
        """Handle loaded tables; `found` is the content of the file if it is less and there is no summary."""
        if found is not None:
            self._relearn(segment, found)
        if not segment.summarized and segment not in self._gathered.work.unsummarized:
            self._gathered.work.unsummarized.append(segment)

    def was_erased(self, seq: int) -> None:
        """Give up a message whose content was erased, and whose removal is not known: damage took its record.

        The segment's tables still have its subject, which the erased record does not.
        """
        segment = self._chain.segment_of(seq)
        if segment is not None:
            self._reader.load(segment)
        self._removal.remove(seq)

    def report_damage(self, segment: Segment, ordinal: int) -> None:
        """Report a damaged record and give up its message."""
        seq = segment.seq_at(ordinal)
        if self._removal.remove(seq):
            path = segment_path(self._chain.folder, segment.number)
            offset, size = segment.offset_at(ordinal), segment.size_of(ordinal)
            self._losses.add(Damage(path, offset, size, "damaged record", [seq]), 1)
            _log.error("%s: damaged record, %d bytes at %d, sequence %d is lost", path, size, offset, seq)

    def _relearn(self, segment: Segment, found: Segment) -> None:
        """Count again: summary and file are damaged, and the file contains less than was known."""
        gone = {*self._gathered.removing, *found.removals.to_list()}
        for each in self._chain.segments:
            gone.update(each.removals.to_list())
        path = segment_path(self._chain.folder, segment.number)
        first, last = max(segment.base_seq, self._state.first_seq), segment.last_seq
        sequences = _missing(found, first, last, gone)
        most = max(segment.live - found.count, len(sequences))
        self._losses.add(Damage(path, 0, segment.size, "damaged segment", sequences), most)
        _log.error("%s: damaged segment without a summary, at most %d messages lost", path, most)
        segment.become(found)
        self._chain.times_changed()
        for ordinal in range(segment.count):
            seq = segment.seq_at(ordinal)
            if seq in gone or seq < self._state.first_seq:
                segment.mark_removed(ordinal, segment.size_of(ordinal))
        self._count_again()

    def _count_again(self) -> None:
        """Rebuild the index and all counts from the segments."""
        state = self._state
        self._index.clear()
        state.messages = state.record_bytes = state.with_headers = 0
        for segment in list(self._chain.segments):
            self._reader.load(segment)
            ordinal = segment.next_live(0)
            while ordinal < segment.count:
                self._index.add(segment.subject_at(ordinal), segment.seq_at(ordinal))
                state.messages += 1
                state.record_bytes += segment.size_of(ordinal)
                state.with_headers += segment.has_headers(ordinal)
                ordinal = segment.next_live(ordinal + 1)
        self._removal.advance_first(state.first_seq)


class NoRepair:
    """The repair of a log that is closed: damage that a late reader finds in it concerns nobody.

    Reader and repair refer to each other; in this way, a closed log needs no garbage collector.
    """

    def came_back(self, segment: Segment, found: Segment | None) -> None: ...

    def was_erased(self, seq: int) -> None: ...

    def report_damage(self, segment: Segment, ordinal: int) -> None: ...


NO_REPAIR: Final = NoRepair()


def _missing(found: Segment, first: int, last: int, gone: set[int]) -> list[int]:
    """Return the first sequences that should be in the segment and are not."""
    missing = (seq for seq in range(first, last + 1) if seq not in gone and not found.holds(seq))
    return list(itertools.islice(missing, MOST_LISTED))
