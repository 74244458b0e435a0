"""The log of one stream: segments in order, the index over them, and what is durable.

Appending and removing change memory at once and gather bytes; ``begin_commit`` hands those to a
``Commit``, whose ``run`` writes and syncs them in whatever thread it is called in, and ``end_commit``
makes it count.  Meanwhile the next batch gathers.  One commit is under way at a time.

    append, remove ──▶ pending ──begin_commit──▶ Commit.run (write, fdatasync) ──end_commit──▶ committed

Always true:  sequences only rise and are never used twice;  what is at or below `committed` survives a
crash;  a message whose removal was committed does not come back;  ``get`` reads committed messages only.
Not here:     which messages to keep, and what their headers mean (``jetstream``);  reading many
(``cursor``);  opening (``recovery``).  Everything but ``Commit.run`` and ``Rewriting.run``
is called on one thread (docs/concurrency.md).
"""

from __future__ import annotations

import bisect
import itertools
import logging
from collections.abc import Iterator

from millrace.store.commit import Commit, Overwrite, Work, segment_path
from millrace.store.compaction import Compaction
from millrace.store.compression import Compression
from millrace.store.errors import StoreError
from millrace.store.filters import bounds, wanted_subjects
from millrace.store.fs import FileSystem
from millrace.store.index import SubjectIndex, SubjectNode
from millrace.store.losses import MOST_LISTED, Damage, Losses
from millrace.store.numbers import pack_rising
from millrace.store.recent import Recent
from millrace.store.record import WHOLE, Kind, Record, erased_record
from millrace.store.rewriting import Rewriting
from millrace.store.scan import FARTHEST_JUMP
from millrace.store.segment import Segment
from millrace.store.tables import Tables

_log = logging.getLogger("millrace.store")

DEFAULT_SEGMENT_SIZE = 16 * 1024 * 1024
_REMOVED = int(Kind.REMOVED)
_FLOOR = int(Kind.FLOOR)
_SKIP = int(Kind.SKIP)
_MESSAGE = int(Kind.MESSAGE)
_ERASE = int(Kind.ERASE)
_WHOLE = WHOLE
_FARTHEST_JUMP = FARTHEST_JUMP


class Log:
    """See the module.  Made by ``recovery.open_log``."""

    def __init__(self, fs: FileSystem, folder: str, segment_size: int = DEFAULT_SEGMENT_SIZE) -> None:
        self.fs = fs
        self.folder = folder
        self.index = SubjectIndex()
        self.losses = Losses()
        self.first_seq = 1  # of the first live message; `last_seq` + 1 if there is none
        self.last_seq = 0
        self.last_timestamp = 0
        self.messages = 0
        self.record_bytes = 0  # of live messages
        self.with_headers = 0  # live messages that have headers
        self.committed = 0  # last_seq as of the last commit
        self.block_size = 0  # of the blocks in which sealed segments are compressed; 0: they are not
        self.keeps_recent = False  # somebody waits for the next commit, to read what it wrote
        self.recent: Recent | None = None
        self.gone: list[int] | None = None  # if somebody wants to know: what was removed since it looked
        self.segments: list[Segment] = []
        self.tables = Tables(fs, folder)
        self._bases: list[int] = []
        self._segment_size = segment_size
        self._active: Segment | None = None
        self._last_subject: bytes | None = None
        self._last_node: SubjectNode | None = None
        self._commit: Commit | None = None
        self._compaction: Rewriting | None = None
        self._closed = False
        # For the next commit:
        self._removing: list[int] = []
        self._erasing: list[int] = []
        self._floor = 0
        self._doomed: list[Segment] = []
        self._doubt = False  # something that counts already may not survive a power cut
        self._renamed = False  # a compacted file took the place of another
        self._work = Work()  # and what the commits before it left

    # -- opening (see ``recovery``) ---------------------------------------------------------------

    def adopt(self, segment: Segment) -> None:
        """Take in the next segment found on disk; its subjects are in the index already."""
        if self._active is not None:
            self._seal(self._active)
        self.segments.append(segment)
        self._bases.append(segment.base_seq)
        self._active = segment
        self.messages += segment.count
        self.record_bytes += segment.all_bytes
        self.with_headers += segment.with_headers
        if segment.last_seq > self.last_seq:
            self.last_seq = segment.last_seq
        if segment.last_timestamp > self.last_timestamp:
            self.last_timestamp = segment.last_timestamp

    def settle(self) -> None:
        """All segments are there: apply what they say about removals, and start from there."""
        if self.segments:
            self.first_seq = self.segments[0].base_seq
        floor = max([segment.floor for segment in self.segments], default=0)
        if floor:
            self.remove_below(floor)
        for segment in list(self.segments):
            for seq in segment.removals.to_list():
                target = self.segment_of(seq)
                ordinal = target.ordinal_of(seq) if target is not None else -1
                if target is not None and ordinal >= 0:
                    self._forget(target, ordinal)
        for segment in list(self.segments):
            self._retire(segment)
        self._floor = 0
        self._advance_first(self.first_seq)
        self.committed = self.last_seq

    def doubt(self, segment: Segment) -> None:
        """What was found in the segment could not be synced: the next commit writes and syncs it."""
        segment.doubtful = True
        self._work.unsynced.append(segment)
        self._work.folder_changed = True
        self._doubt = True

    # -- appending --------------------------------------------------------------------------------

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
        """Store ``source[start:start + size]``, of which the first part are headers; its sequence."""
        segment = self._active
        if segment is None or segment.size >= self._segment_size:
            segment = self._roll()
        seq = self.last_seq + 1
        total = segment.write(_MESSAGE, seq, timestamp, subject, source, start, header_size, size)
        segment.note(seq, timestamp, subject, header_size > 0, total)
        if marks:
            segment.marks |= marks
        node = self._last_node
        if node is not None and subject == self._last_subject:
            self.index.count_one(node, seq)
        else:
            self._last_node = self.index.add(subject, seq)
            self._last_subject = subject
        if self.messages == 0:
            self.first_seq = seq
        self.last_seq = seq
        self.last_timestamp = timestamp
        self.messages += 1
        self.record_bytes += total
        if header_size > 0:
            self.with_headers += 1
        return seq

    def skip_to(self, seq: int, timestamp: int) -> None:
        """Use up all sequences up to and including `seq` without storing anything."""
        if seq <= self.last_seq:
            raise ValueError(f"sequence {seq} is used up already")
        if seq - self.last_seq > _FARTHEST_JUMP:
            self.last_seq = seq
            # The new file says where it begins, the number left out that this is no loss.
            segment = self.begin_segment(self._next_number() + 1)
        else:
            segment = self._writable()
        segment.note_other(segment.write(_SKIP, seq, timestamp, b"", b"", 0, 0, 0))
        segment.last_seq = seq
        self.last_seq = seq
        self.last_timestamp = timestamp
        if self.messages == 0:
            self.first_seq = seq + 1

    def _writable(self) -> Segment:
        segment = self._active
        if segment is None or segment.size >= self._segment_size:
            segment = self._roll()
        return segment

    def _roll(self) -> Segment:
        return self.begin_segment(self._next_number())

    def _next_number(self) -> int:
        return self._active.number + 1 if self._active is not None else 1

    def begin_segment(self, number: int) -> Segment:
        """Seal the active segment and begin another."""
        if self._active is not None:
            self._seal(self._active)
        segment = Segment(number, self.last_seq + 1)
        self.segments.append(segment)
        self._bases.append(segment.base_seq)
        self._active = segment
        return segment

    def _seal(self, segment: Segment) -> None:
        segment.sealed = True
        if segment.loaded:
            self.tables.keep(segment)
        if not segment.summarized:
            self._work.unsummarized.append(segment)

    # -- committing -------------------------------------------------------------------------------

    @property
    def committing(self) -> bool:
        """A commit is under way."""
        return self._commit is not None

    @property
    def uncommitted(self) -> bool:
        """There is something for the next commit."""
        return bool(
            self._removing
            or self._erasing
            or self._floor
            or self._doomed
            or self._renamed
            or self._doubt
            or (self._active is not None and self._active.pending.size)
        )

    def begin_commit(self, *, flush: bool = False) -> Commit | None:
        """What there is to write; None if nothing, or if a commit is under way.

        `flush`: what earlier commits only wrote, or could not tidy up, is reason enough.
        """
        if self._commit is not None or self._active is None:
            return None
        if not self.uncommitted and not (flush and (self._work.unsynced or self._work.needs_sync())):
            return None
        self._log_removals()
        changed = self._changed()
        work, self._work = self._work, Work()
        work.unsynced = [each for each in work.unsynced if each not in changed]
        work.doomed += self._doomed
        work.folder_changed = work.folder_changed or self._renamed
        self._doomed = []
        self._renamed = False
        self._doubt = False
        self._commit = Commit(self.fs, self.folder, changed, self._active, work, self.last_seq)
        return self._commit

    def _changed(self) -> list[Segment]:
        """Segments with something to write: always the last ones."""
        changed: list[Segment] = []
        for segment in reversed(self.segments):
            if segment.pending.size == 0:
                break
            changed.append(segment)
        changed.reverse()
        return changed

    def end_commit(self, commit: Commit) -> None:
        """The commit's ``run`` returned."""
        self.committed = commit.last_seq
        work = commit.work
        for segment, _ in commit.parts:
            segment.writing = None
        self.recent = Recent(*commit.parts[-1]) if self.keeps_recent and commit.parts else None
        if commit.synced:
            for each in work.overwrites:
                each.segment.pins -= 1
            for segment in commit.removed:
                _close(segment)
            for segment in work.unsummarized:
                if segment.summarized:
                    segment.forget_sums()
            work = Work(
                unsummarized=[each for each in work.unsummarized if not each.summarized],
                doomed=[] if commit.removed else work.doomed,
            )
        else:
            work.unsynced += [segment for segment, _ in commit.parts]
        self._finish(commit, work)
        for segment, _ in commit.parts:
            self._retire(segment)
        self.tables.trim()

    def fail_commit(self, commit: Commit) -> None:
        """The commit's ``run`` raised: nothing of it counts; its bytes are kept for another try."""
        commit.give_back()
        self._finish(commit, commit.work)

    def _finish(self, commit: Commit, left: Work) -> None:
        """Put what was left undone in front of what gathered since."""
        self._commit = None
        since = self._work
        gone = set(left.doomed) | set(self._doomed) | set(commit.removed)
        self._work = Work(
            [each for each in dict.fromkeys(left.unsynced + since.unsynced) if each not in gone],
            left.overwrites + since.overwrites,
            [each for each in dict.fromkeys(left.unsummarized + since.unsummarized) if each not in gone],
            left.doomed + since.doomed,
            commit.folder_changed or since.folder_changed,
        )
        if self._closed:
            self.close()

    def _log_removals(self) -> None:
        if self._removing and min(self._removing) < self.first_seq:
            self._floor = max(self._floor, self.first_seq)
        if self._floor:
            segment = self._writable()
            segment.note_other(segment.write(_FLOOR, self._floor, self.last_timestamp, b"", b"", 0, 0, 0))
            segment.floor = max(segment.floor, self._floor)
        self._log_list(_REMOVED, sorted({seq for seq in self._removing if seq >= self._floor}))
        self._log_list(_ERASE, sorted(self._erasing))
        self._removing = []
        self._erasing = []
        self._floor = 0

    def _log_list(self, kind: int, seqs: list[int]) -> None:
        if not seqs:
            return
        segment = self._writable()
        body = pack_rising(seqs)
        total = segment.write(kind, len(seqs), self.last_timestamp, b"", body, 0, 0, len(body))
        segment.note_other(total)
        segment.removals.extend(seqs)

    # -- finding ----------------------------------------------------------------------------------

    def position_of(self, seq: int) -> int:
        """Of the segment that has or had `seq`, or of the first one behind it."""
        position = bisect.bisect_right(self._bases, seq) - 1
        return position if position > 0 else 0

    def segment_of(self, seq: int) -> Segment | None:
        """The segment that has or had `seq`, its tables loaded."""
        position = bisect.bisect_right(self._bases, seq) - 1
        if position < 0:
            return None
        segment = self.segments[position]
        if not segment.loaded:
            self.load(segment)
        return segment

    def load(self, segment: Segment) -> None:
        """Make sure that the segment's tables are there."""
        if not segment.loaded:
            found = self.tables.load(segment)
            if found is not None:
                self._relearn(segment, found)
            if not segment.summarized and segment not in self._work.unsummarized:
                self._work.unsummarized.append(segment)

    def has(self, seq: int) -> bool:
        segment = self.segment_of(seq)
        return segment is not None and segment.ordinal_of(seq) >= 0

    def next_seq(self, seq: int) -> int:
        """The first live sequence that is not below `seq`; 0 if there is none."""
        position = self.position_of(seq)
        while position < len(self.segments):
            segment = self.segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < seq:
                continue
            self.load(segment)
            ordinal = segment.next_live(segment.first_not_below(seq))
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def next_match(self, seq: int, pattern: bytes) -> int:
        """The first live sequence not below `seq` whose subject falls under `pattern`; 0 if none."""
        lowest, highest = bounds(self.index, pattern, self.last_seq)
        if seq < lowest:
            seq = lowest
        position = self.position_of(seq)
        while position < len(self.segments) and seq <= highest:
            segment = self.segments[position]
            position += 1
            if segment.live == 0 or segment.last_seq < seq:
                continue
            if segment.base_seq > highest:
                return 0
            self.load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.next_match(segment.first_not_below(seq), wanted)
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def last_match(self, seq: int, pattern: bytes) -> int:
        """The last live sequence not above `seq` whose subject falls under `pattern`; 0 if none."""
        lowest, highest = bounds(self.index, pattern, self.last_seq)
        if seq > highest:
            seq = highest
        position = bisect.bisect_right(self._bases, seq)
        while position > 0 and seq > 0:
            position -= 1
            segment = self.segments[position]
            if segment.last_seq < lowest:
                return 0
            if segment.live == 0:
                continue
            self.load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.previous_match(segment.first_not_below(seq + 1) - 1, wanted)
            if ordinal >= 0:
                return segment.seq_at(ordinal)
        return 0

    def first_of(self, subject: bytes) -> int:
        """The first sequence of a literal subject; 0 if it has none."""
        node = self.index.find(subject)
        if node is None:
            return 0
        if not node.first_exact:
            node.first = self.next_match(node.first, subject)
            node.first_exact = True
        return node.first

    def last_of(self, subject: bytes) -> int:
        """The last sequence of a literal subject; 0 if it has none."""
        node = self.index.find(subject)
        if node is None:
            return 0
        if not node.last_exact:
            node.last = self.last_match(node.last, subject)
            node.last_exact = True
        return node.last

    def seq_at_time(self, timestamp: int) -> int:
        """The first live sequence stored at or after `timestamp`; 0 if there is none."""
        record = Record()
        for segment in list(self.segments):  # a damaged one may go while it is looked at
            if segment.live == 0 or segment.last_timestamp < timestamp:
                continue
            self.load(segment)
            ordinal = 0 if segment.times_fall else self._ordinal_at_time(segment, timestamp, record)
            ordinal = segment.next_live(ordinal)
            while ordinal < segment.count:
                if not segment.times_fall:
                    return segment.seq_at(ordinal)
                if self._look(segment, ordinal, record) and record.timestamp >= timestamp:
                    return segment.seq_at(ordinal)
                ordinal = segment.next_live(ordinal + 1)
        return 0

    def _ordinal_at_time(self, segment: Segment, timestamp: int, record: Record) -> int:
        low, high = 0, segment.count
        while low < high:
            middle = (low + high) // 2
            probe = middle
            while probe < high and not self._look(segment, probe, record):
                probe += 1
            if probe < high and record.timestamp < timestamp:
                low = probe + 1
            else:
                high = middle
        return low

    # -- reading ----------------------------------------------------------------------------------

    def get(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message; False if it is not there (any more)."""
        return seq <= self.committed and self.peek(seq, record)

    def peek(self, seq: int, record: Record) -> bool:
        """The same for messages that are not committed yet as well."""
        segment = self.segment_of(seq)
        if segment is None:
            return False
        ordinal = segment.ordinal_of(seq)
        if ordinal < 0:
            return False
        return self._look(segment, ordinal, record) and record.is_message()

    def _look(self, segment: Segment, ordinal: int, record: Record) -> bool:
        """Point `record` at what is or was a message; damage is reported and the message given up."""
        offset = segment.offset_at(ordinal)
        size = segment.size_of(ordinal)
        seq = segment.seq_at(ordinal)
        data = self._bytes(segment, offset, size)
        verify = seq <= self.committed  # checksums are filled in when it is written
        found = record.read(data, 0, len(data), verify, offset)
        if found == _WHOLE and record.seq == seq and record.is_numbered():
            if not record.is_message():
                self.remove(seq)  # it was erased
            return True
        self.report_damage(segment, ordinal)
        return False

    def _bytes(self, segment: Segment, offset: int, size: int) -> bytes:
        if segment.pending.size and offset >= segment.pending.base:
            return segment.pending.slice(offset - segment.pending.base, size)
        writing = segment.writing
        if writing is not None and offset >= writing.base:
            return writing.slice(offset - writing.base, size)
        data: bytes = self.tables.file(segment).read(offset, size)
        return data

    def report_damage(self, segment: Segment, ordinal: int) -> None:
        """A record is not what it should be: say so, and give the message up."""
        seq = segment.seq_at(ordinal)
        if self.remove(seq):
            path = segment_path(self.folder, segment.number)
            offset, size = segment.offset_at(ordinal), segment.size_of(ordinal)
            self.losses.add(Damage(path, offset, size, "damaged record", [seq]), 1)
            _log.error("%s: damaged record, %d bytes at %d, sequence %d is lost", path, size, offset, seq)

    def sequences(self, first: int, last: int) -> Iterator[int]:
        """Live sequences from `first` to `last`."""
        seq = self.next_seq(first)
        while seq and seq <= last:
            yield seq
            seq = self.next_seq(seq + 1)

    # -- removing ---------------------------------------------------------------------------------

    def remove(self, seq: int) -> bool:
        """Take one message away; False if it is not there."""
        segment = self.segment_of(seq)
        if segment is None:
            return False
        ordinal = segment.ordinal_of(seq)
        if ordinal < 0:
            return False
        self._forget(segment, ordinal)
        self._removing.append(seq)
        if seq == self.first_seq:
            self._advance_first(seq + 1)
        self._retire(segment)
        return True

    def remove_below(self, seq: int) -> int:
        """Take every message below `seq` away; how many there were."""
        if seq > self.last_seq:
            return self._remove_all()
        before = self.messages
        for segment in list(self.segments):
            if segment.base_seq >= seq:
                break
            if segment.live:
                self.load(segment)
                ordinal = segment.next_live(0)
                while ordinal < segment.count and segment.seq_at(ordinal) < seq:
                    self._forget(segment, ordinal)
                    ordinal = segment.next_live(ordinal + 1)
            self._retire(segment)
        if self.messages != before:
            self._floor = max(self._floor, seq)
        self._advance_first(max(seq, self.first_seq))
        return before - self.messages

    def _remove_all(self) -> int:
        """However many there are: no message is looked at."""
        before = self.messages
        if self.gone is not None:
            self.gone.extend(self.sequences(self.first_seq, self.last_seq))
        for segment in list(self.segments):
            segment.mark_all_removed()
            self._retire(segment)
        self.index.clear()
        self._last_node = None
        self.messages = self.record_bytes = self.with_headers = 0
        self.first_seq = self.last_seq + 1
        if before:
            self._floor = self.first_seq
        return before

    def remove_matching(self, pattern: bytes, below: int) -> int:
        """Take away every message under `pattern` whose sequence is below `below`; how many."""
        before = self.messages
        lowest, highest = bounds(self.index, pattern, self.last_seq)
        if below > highest + 1:
            below = highest + 1
        for segment in self.segments[self.position_of(lowest) :]:
            if segment.base_seq >= below:
                break
            if segment.live == 0:
                continue
            self.load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.next_match(0, wanted)
            while ordinal < segment.count and segment.seq_at(ordinal) < below:
                self._removing.append(segment.seq_at(ordinal))
                self._forget(segment, ordinal)
                ordinal = segment.next_match(ordinal + 1, wanted)
            self._retire(segment)
        if self.messages != before:
            self._advance_first(self.first_seq)
        return before - self.messages

    def erase(self, seq: int) -> bool:
        """Remove a message; the next commit also overwrites its content on disk."""
        segment = self.segment_of(seq)
        if segment is None:
            return False
        ordinal = segment.ordinal_of(seq)
        if ordinal < 0:
            return False
        record = Record()
        if not self._look(segment, ordinal, record):
            return False
        offset, size = segment.offset_at(ordinal), segment.size_of(ordinal)
        self.overwrite(segment, offset, erased_record(seq, record.timestamp, size, offset))
        self._erasing.append(seq)
        return self.remove(seq)

    def overwrite(self, segment: Segment, offset: int, data: bytes) -> None:
        """Have the next commit destroy what is there."""
        segment.pins += 1  # its file stays open for the thread that will do it
        if self._compaction is not None and self._compaction.segment is segment:
            self._compaction.cancelled = True
        self._work.overwrites.append(Overwrite(segment, offset, data))

    def _forget(self, segment: Segment, ordinal: int) -> None:
        """Take a live message out of every count."""
        size = segment.size_of(ordinal)
        if segment.has_headers(ordinal):
            self.with_headers -= 1
        self.index.discount(segment.subject_at(ordinal), segment.seq_at(ordinal))
        if self.gone is not None:
            self.gone.append(segment.seq_at(ordinal))
        segment.mark_removed(ordinal, size)
        self._last_node = None
        self.messages -= 1
        self.record_bytes -= size

    def _advance_first(self, seq: int) -> None:
        found = self.next_seq(seq) if self.messages else 0
        self.first_seq = found or self.last_seq + 1

    # -- segments go ------------------------------------------------------------------------------

    def _retire(self, segment: Segment) -> None:
        """A sealed segment without live messages is not needed, unless for what it says of others."""
        if not segment.sealed or segment.live or segment.held:
            return
        # Not before it is written: a file is complete when the next one is there.
        if segment.pending.size or segment.writing is not None or segment not in self.segments:
            return
        needed = self._needed_removals(segment)
        if len(needed) * 6 < segment.size:  # otherwise saying it again saves no room
            self._drop(segment)

    def hold(self, segment: Segment) -> None:
        """Keep the segment and its file as they are until ``release`` (see ``frozen``)."""
        segment.held += 1
        segment.pins += 1
        if self._compaction is not None and self._compaction.segment is segment:
            self._compaction.cancelled = True

    def release(self, segment: Segment) -> None:
        """Whoever held the segment does not need it any more."""
        segment.held -= 1
        segment.pins -= 1
        if self._closed and not segment.held:
            _close(segment)
            return
        self._retire(segment)

    def move(self, folder: str) -> None:
        """Its folder was renamed."""
        self.folder = folder
        self.tables.move(folder)

    def _needed_removals(self, segment: Segment) -> list[int]:
        """What it says was removed, and still lies in the file of another."""
        return [seq for seq in segment.removals.to_list() if self._lies_elsewhere(seq, segment)]

    def _drop(self, segment: Segment) -> None:
        position = self.segments.index(segment)
        del self.segments[position]
        del self._bases[position]
        segment.epoch += 1
        self.tables.drop(segment)
        self._last_node = None
        # What its removals were about may still lie in older files: say it again.
        self._removing.extend(self._needed_removals(segment))
        if segment.floor > self.segments[0].base_seq:
            self._floor = max(self._floor, segment.floor)
        if self._compaction is not None and self._compaction.segment is segment:
            self._compaction.cancelled = True  # its end dooms the segment
        else:
            self._doom(segment)
        for other in list(self.segments):
            if other.live == 0:  # it was kept for what it says of this one, perhaps
                self._retire(other)

    def _doom(self, segment: Segment) -> None:
        self._doomed.append(segment)
        for waiting in (self._work.unsynced, self._work.unsummarized):
            if segment in waiting:
                waiting.remove(segment)

    def _lies_elsewhere(self, seq: int, segment: Segment) -> bool:
        """Whether the file of another segment may have `seq`."""
        position = bisect.bisect_right(self._bases, seq) - 1
        if position < 0:
            return False
        other = self.segments[position]
        if other is segment or seq > other.last_seq:
            return False
        return other.holds(seq) if other.loaded else True

    def _relearn(self, segment: Segment, found: Segment) -> None:
        """Summary and file are damaged, and the file holds less than was known: count again."""
        gone = set(self._removing)
        for each in self.segments:
            gone.update(each.removals.to_list())
        path = segment_path(self.folder, segment.number)
        first, last = max(segment.base_seq, self.first_seq), segment.last_seq
        sequences = _missing(found, first, last, gone)
        most = max(segment.live - found.count, len(sequences))
        self.losses.add(Damage(path, 0, segment.size, "damaged segment", sequences), most)
        _log.error("%s: damaged segment without a summary, at most %d messages lost", path, most)
        segment.become(found)
        for ordinal in range(segment.count):
            seq = segment.seq_at(ordinal)
            if seq in gone or seq < self.first_seq:
                segment.mark_removed(ordinal, segment.size_of(ordinal))
        self.count_again()

    def count_again(self) -> None:
        """Make the index and all counts anew from what the segments hold."""
        self.index.clear()
        self._last_node = None
        self.messages = self.record_bytes = self.with_headers = 0
        for segment in list(self.segments):
            self.load(segment)
            ordinal = segment.next_live(0)
            while ordinal < segment.count:
                self.index.add(segment.subject_at(ordinal), segment.seq_at(ordinal))
                self.messages += 1
                self.record_bytes += segment.size_of(ordinal)
                self.with_headers += segment.has_headers(ordinal)
                ordinal = segment.next_live(ordinal + 1)
        self._advance_first(self.first_seq)

    # -- compaction (see ``compaction`` and ``compression``) --------------------------------------

    def compaction_candidate(self) -> Segment | None:
        """A sealed segment that is mostly dead, or to be compressed; None if none, or one is under way."""
        under_way = self._commit is not None and self._commit.work.folder_changed
        if self._compaction is not None or self._renamed or self._work.folder_changed or under_way:
            return None  # two files exchanged at once could not vouch for each other
        for segment in self.segments:
            if not _is_mostly_dead(segment) and (segment.compressed or not self.block_size):
                continue
            if segment.sealed and segment.summarized and not segment.pins and segment.pending.size == 0:
                return segment
        return None

    def begin_compaction(self, segment: Segment) -> Rewriting:
        """Prepare to write a segment anew; ``run`` it elsewhere, then call ``end_compaction``."""
        self.load(segment)
        file = self.tables.file(segment)
        segment.pins += 1
        if self.block_size and not segment.compressed and not _is_mostly_dead(segment):
            self._compaction = Compression(self.fs, self.folder, segment, file, self.block_size)
        else:
            kept = self._needed_removals(segment)
            self._compaction = Compaction(self.fs, self.folder, segment, file, kept, self.block_size)
        return self._compaction

    def end_compaction(self, compaction: Rewriting) -> bool:
        """``run`` returned or raised: put the new file in place; False if it is not to be used."""
        self._compaction = None
        segment = compaction.segment
        segment.pins -= 1
        if segment not in self.segments:
            self._doom(segment)
        for seq in compaction.damaged:
            ordinal = segment.ordinal_of(seq)
            if ordinal >= 0:
                self.report_damage(segment, ordinal)
        if compaction.cancelled or compaction.file is None or segment not in self.segments:
            compaction.discard()
            return False
        try:
            compaction.put_in_place()
        except StoreError:
            compaction.discard()
            return False
        _close(segment)
        segment.file = compaction.file
        if compaction.fresh is not None:
            self._exchange_tables(segment, compaction.fresh)
        segment.compressed = compaction.compressed
        self._renamed = True
        return True

    def _exchange_tables(self, segment: Segment, fresh: Segment) -> None:
        gone = [ordinal for ordinal in range(fresh.count) if segment.ordinal_of(fresh.seq_at(ordinal)) < 0]
        segment.become(fresh)
        for ordinal in gone:
            segment.mark_removed(ordinal, segment.size_of(ordinal))
        self._work.unsummarized.append(segment)

    def close(self) -> None:
        """Close all files; if a commit is running, when it has ended.

        Those of segments that are held are closed when they are released: a descriptor that is closed under
        a reader's hands may be another file's the next moment.
        """
        self._closed = True
        if self._commit is not None and self._commit.running:
            return
        for segment in [*self.segments, *self._doomed, *self._work.doomed]:
            if not segment.held:
                _close(segment)


def _is_mostly_dead(segment: Segment) -> bool:
    # With some dead messages at least: what else is needed may be more than one that is alive, for ever.
    return 0 < segment.live < segment.count and segment.live_bytes * 2 < segment.size


def _missing(found: Segment, first: int, last: int, gone: set[int]) -> list[int]:
    """What should be there and is not, the first ones of it."""
    missing = (seq for seq in range(first, last + 1) if seq not in gone and not found.holds(seq))
    return list(itertools.islice(missing, MOST_LISTED))


def _close(segment: Segment) -> None:
    if segment.file is not None:
        segment.file.close()
        segment.file = None
