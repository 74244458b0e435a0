"""The log of one stream: segments in order, the index over them, and what is durable.

Appending and removing change memory at once and gather bytes; ``begin_commit`` hands those to a
``Commit``, whose ``run`` writes and syncs them in whatever thread it is called in, and ``end_commit``
makes it count.  Meanwhile the next batch gathers.  One commit is under way at a time.

    append, remove ──▶ pending ──begin_commit──▶ Commit.run (write, fdatasync) ──end_commit──▶ committed

Always true:  sequences only rise and are never used twice;  what is at or below `committed` survives a
crash;  a message that was removed does not come back;  only committed messages can be read.
Not here:     which messages to keep, and what their headers mean (``jetstream``).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from millrace.store.commit import Commit, segment_path, summary_path
from millrace.store.errors import StoreError
from millrace.store.fs import File, FileSystem
from millrace.store.index import SubjectIndex, SubjectNode
from millrace.store.record import WHOLE, Kind, Record, erased_record
from millrace.store.scan import scan
from millrace.store.segment import Segment
from millrace.store.summary import Summary, decode, load_tables, pack_rising
from millrace.subjects.match import matches

DEFAULT_SEGMENT_SIZE = 16 * 1024 * 1024
_LOADED_SEGMENTS = 16  # sealed segments whose tables are kept
_REMOVED = int(Kind.REMOVED)
_FLOOR = int(Kind.FLOOR)
_SKIP = int(Kind.SKIP)
_MESSAGE = int(Kind.MESSAGE)


@dataclass(slots=True)
class Damage:
    """What a restart or a read found broken; the rest of the log is untouched by it."""

    path: str
    offset: int
    bytes: int
    reason: str


@dataclass(slots=True)
class Losses:
    """All damage so far."""

    damages: list[Damage] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0

    def add(self, damage: Damage, messages: int) -> None:
        self.damages.append(damage)
        self.messages += messages
        self.bytes += damage.bytes


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
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self._segment_size = segment_size
        self._active: Segment | None = None
        self._removing: list[int] = []  # removals to be logged with the next commit
        self._floor = 0  # a floor to be logged with the next commit
        self._doomed: list[Segment] = []  # segments whose files go with the next commit
        self._loaded: list[Segment] = []  # sealed segments with tables, the latest used last
        self._last_subject: bytes | None = None
        self._last_node: SubjectNode | None = None
        self._commit: Commit | None = None

    # -- opening (see ``recovery``) ---------------------------------------------------------------

    def adopt(self, segment: Segment) -> None:
        """Take in the next segment found on disk; its subjects are in the index already."""
        if self._active is not None:
            self._active.sealed = True
        self.segments.append(segment)
        self._bases.append(segment.base_seq)
        self._active = segment
        if segment.loaded:
            self._loaded.append(segment)
        self.messages += segment.count
        self.record_bytes += segment.all_bytes
        if segment.last_seq > self.last_seq:
            self.last_seq = segment.last_seq
        self.last_timestamp = max(self.last_timestamp, segment.last_timestamp)

    def settle(self) -> None:
        """All segments are there: apply what they say about removals, and start from there."""
        if self._active is not None and self._active in self._loaded:
            self._loaded.remove(self._active)
        if self.segments:
            self.first_seq = self.segments[0].base_seq
        floor = max((segment.floor for segment in self.segments), default=0)
        if floor:
            self.remove_below(floor)
        for segment in list(self.segments):
            for seq in segment.removals:
                target = self.segment_of(seq)
                ordinal = target.ordinal_of(seq) if target is not None else -1
                if target is not None and ordinal >= 0:
                    self._forget(target, ordinal)
        for segment in list(self.segments):
            self._retire(segment)
        self._floor = 0
        self._advance_first(self.first_seq)
        self.committed = self.last_seq

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
        total = segment.pending.add(_MESSAGE, seq, timestamp, subject, source, start, header_size, size)
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
        segment = self._active or self._roll()
        total = segment.pending.add(_SKIP, seq, timestamp, b"", b"", 0, 0, 0)
        segment.note_other(total)
        segment.last_seq = seq
        self.last_seq = seq
        self.last_timestamp = timestamp
        if self.messages == 0:
            self.first_seq = seq + 1

    def _roll(self) -> Segment:
        """Seal the active segment and begin another."""
        number = 1
        if self._active is not None:
            self._active.sealed = True
            self._loaded.append(self._active)
            number = self._active.number + 1
        segment = Segment(number, self.last_seq + 1)
        self.segments.append(segment)
        self._bases.append(segment.base_seq)
        self._active = segment
        return segment

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
            or self._floor
            or self._doomed
            or any(segment.pending.size for segment in self.segments[-2:])
        )

    def begin_commit(self) -> Commit | None:
        """What there is to write; None if nothing, or if a commit is under way."""
        if self._commit is not None:
            return None
        self._log_removals()
        if not self._doomed and not any(each.pending.size for each in self.segments[-2:]):
            return None
        doomed, self._doomed = self._doomed, []
        changed = [each for each in self.segments if each.pending.size]
        self._commit = Commit(self.fs, self.folder, changed, doomed, self.last_seq)
        return self._commit

    def end_commit(self, commit: Commit) -> None:
        """The commit's ``run`` returned."""
        self._commit = None
        self.committed = commit.last_seq
        self._trim_loaded()

    def fail_commit(self, commit: Commit) -> None:
        """The commit's ``run`` raised: nothing of it counts; its bytes are kept for another try."""
        self._commit = None
        commit.give_back()
        self._doomed = commit.doomed + self._doomed

    def _log_removals(self) -> None:
        if not self._removing and not self._floor:
            return
        segment = self._active or self._roll()
        if self._floor:
            total = segment.pending.add(_FLOOR, self._floor, self.last_timestamp, b"", b"", 0, 0, 0)
            segment.note_other(total)
            segment.floor = max(segment.floor, self._floor)
        removed = sorted({seq for seq in self._removing if seq >= self._floor})
        if removed:
            body = pack_rising(removed)
            total = segment.pending.add(
                _REMOVED, len(removed), self.last_timestamp, b"", body, 0, 0, len(body)
            )
            segment.note_other(total)
            segment.removals.extend(removed)
        self._removing = []
        self._floor = 0

    # -- finding ----------------------------------------------------------------------------------

    def segment_of(self, seq: int) -> Segment | None:
        """The segment that has or had `seq`, its tables loaded."""
        position = bisect.bisect_right(self._bases, seq) - 1
        if position < 0:
            return None
        segment = self.segments[position]
        self._load(segment)
        return segment

    def has(self, seq: int) -> bool:
        segment = self.segment_of(seq)
        return segment is not None and segment.ordinal_of(seq) >= 0

    def next_seq(self, seq: int) -> int:
        """The first live sequence that is not below `seq`; 0 if there is none."""
        position = max(bisect.bisect_right(self._bases, seq) - 1, 0)
        for segment in self.segments[position:]:
            if segment.live == 0 or segment.last_seq < seq:
                continue
            self._load(segment)
            ordinal = segment.next_live(segment.first_not_below(seq))
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def next_match(self, seq: int, pattern: bytes) -> int:
        """The first live sequence not below `seq` whose subject falls under `pattern`; 0 if none."""
        position = max(bisect.bisect_right(self._bases, seq) - 1, 0)
        for segment in self.segments[position:]:
            if segment.live == 0 or segment.last_seq < seq:
                continue
            self._load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.next_match(segment.first_not_below(seq), wanted)
            if ordinal < segment.count:
                return segment.seq_at(ordinal)
        return 0

    def last_match(self, seq: int, pattern: bytes) -> int:
        """The last live sequence not above `seq` whose subject falls under `pattern`; 0 if none."""
        position = bisect.bisect_right(self._bases, seq)
        for segment in reversed(self.segments[:position]):
            if segment.live == 0:
                continue
            self._load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            start = segment.first_not_below(seq + 1) - 1
            ordinal = segment.previous_match(start, wanted)
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
        if not self.has(node.last):
            node.last = self.last_match(node.last, subject)
        return node.last

    def seq_at_time(self, timestamp: int) -> int:
        """The first live sequence stored at or after `timestamp`; 0 if there is none."""
        for segment in self.segments:
            if segment.live == 0 or segment.last_timestamp < timestamp:
                continue
            self._load(segment)
            low, high = 0, segment.count
            record = Record()
            while low < high:
                middle = (low + high) // 2
                self._read(segment, middle, record)
                if record.timestamp < timestamp:
                    low = middle + 1
                else:
                    high = middle
            found = segment.next_live(low)
            if found < segment.count:
                return segment.seq_at(found)
        return 0

    # -- reading ----------------------------------------------------------------------------------

    def get(self, seq: int, record: Record) -> bool:
        """Point `record` at a committed message; False if it is not there (any more)."""
        if seq > self.committed:
            return False
        segment = self.segment_of(seq)
        if segment is None:
            return False
        ordinal = segment.ordinal_of(seq)
        if ordinal < 0:
            return False
        return self._read(segment, ordinal, record)

    def _read(self, segment: Segment, ordinal: int, record: Record) -> bool:
        offset = segment.offset_at(ordinal)
        size = segment.size_of(ordinal)
        data = self._file(segment).read(offset, size)
        if record.read(data, 0, len(data), True) == WHOLE and record.seq == segment.seq_at(ordinal):
            return True
        path = segment_path(self.folder, segment.number)
        self.losses.add(Damage(path, offset, size, "damaged record"), 1)
        self.remove(segment.seq_at(ordinal))
        return False

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
        seq = min(seq, self.last_seq + 1)
        before = self.messages
        while self.segments and self.segments[0] is not self._active and self.segments[0].last_seq < seq:
            self._drop_whole(self.segments[0])
        if self.segments and self.first_seq < seq and self.messages:
            segment = self.segments[0]
            self._load(segment)
            ordinal = segment.next_live(0)
            while ordinal < segment.count and segment.seq_at(ordinal) < seq:
                self._forget(segment, ordinal)
                ordinal = segment.next_live(ordinal + 1)
        if self.messages != before:
            self._floor = max(self._floor, seq)
        self._advance_first(max(seq, self.first_seq))
        return before - self.messages

    def remove_matching(self, pattern: bytes, below: int) -> int:
        """Take away every message under `pattern` whose sequence is below `below`; how many."""
        before = self.messages
        for segment in list(self.segments):
            if segment.live == 0 or segment.base_seq >= below:
                continue
            self._load(segment)
            wanted = wanted_subjects(segment, pattern)
            if wanted is None:
                continue
            ordinal = segment.next_match(0, wanted)
            while ordinal < segment.count and segment.seq_at(ordinal) < below:
                self._removing.append(segment.seq_at(ordinal))
                self._forget(segment, ordinal)
                ordinal = segment.next_match(ordinal + 1, wanted)
            self._retire(segment)
        self._advance_first(self.first_seq)
        return before - self.messages

    def erase(self, seq: int) -> bool:
        """Remove a message and overwrite its content on disk; returns when that is durable."""
        segment = self.segment_of(seq)
        if segment is None or seq > self.committed:
            return False
        ordinal = segment.ordinal_of(seq)
        if ordinal < 0:
            return False
        offset, size = segment.offset_at(ordinal), segment.size_of(ordinal)
        self._file(segment).overwrite(offset, erased_record(seq, size))
        return self.remove(seq)

    def _forget(self, segment: Segment, ordinal: int) -> None:
        """Take a live message out of every count."""
        size = segment.size_of(ordinal)
        subject = segment.subject_at(ordinal)
        seq = segment.seq_at(ordinal)
        if segment.has_headers(ordinal):
            self.with_headers -= 1
        segment.mark_removed(ordinal, size)
        self.index.discount(subject, seq)
        self._last_node = None
        self.messages -= 1
        self.record_bytes -= size

    def _advance_first(self, seq: int) -> None:
        found = self.next_seq(seq) if self.messages else 0
        self.first_seq = found or self.last_seq + 1

    def _drop_whole(self, segment: Segment) -> None:
        if segment.live:
            self._load(segment)
            ordinal = segment.next_live(0)
            while ordinal < segment.count:
                self._forget(segment, ordinal)
                ordinal = segment.next_live(ordinal + 1)
        self._drop(segment)

    def _retire(self, segment: Segment) -> None:
        """A sealed segment without live messages is not needed."""
        if segment.sealed and segment.live == 0 and segment.pending.size == 0:
            self._drop(segment)

    def _drop(self, segment: Segment) -> None:
        position = self.segments.index(segment)
        del self.segments[position]
        del self._bases[position]
        if segment in self._loaded:
            self._loaded.remove(segment)
        # What its removals were about may still lie in older files: say it again.
        self._removing.extend(seq for seq in segment.removals if self._lies_in_a_file(seq))
        if segment.floor > self.segments[0].base_seq:
            self._floor = max(self._floor, segment.floor)
        self._doomed.append(segment)

    def _lies_in_a_file(self, seq: int) -> bool:
        position = bisect.bisect_right(self._bases, seq) - 1
        return position >= 0 and seq <= self.segments[position].last_seq

    def _file(self, segment: Segment) -> File:
        if segment.file is None:
            segment.file = self.fs.open(segment_path(self.folder, segment.number), create=False)
        return segment.file

    # -- tables of sealed segments ----------------------------------------------------------------

    def _load(self, segment: Segment) -> None:
        if segment.loaded:
            return
        summary = self._summary(segment)
        if summary is None:
            self._load_by_scan(segment)
        else:
            load_tables(segment, summary)
        self._loaded.append(segment)
        self._trim_loaded()

    def _load_by_scan(self, segment: Segment) -> None:
        """The summary is gone or broken: read the file itself."""
        file = self._file(segment)
        scanned = Segment(segment.number, segment.base_seq)
        scan(scanned, file.read(0, file.size()))
        segment.adopt_tables(scanned)

    def _summary(self, segment: Segment) -> Summary | None:
        try:
            return decode(self.fs.read_all(summary_path(self.folder, segment.number)))
        except (StoreError, ValueError):
            return None

    def _trim_loaded(self) -> None:
        while len(self._loaded) > _LOADED_SEGMENTS:
            oldest = self._loaded[0]
            if oldest.pending.size or not oldest.summarized:
                return  # its summary is not written yet
            del self._loaded[0]
            oldest.unload()
            if oldest.file is not None:
                oldest.file.close()
                oldest.file = None

    def close(self) -> None:
        for segment in self.segments:
            if segment.file is not None:
                segment.file.close()
                segment.file = None


def wanted_subjects(segment: Segment, pattern: bytes) -> bytes | None:
    """A flag for each subject of the segment that falls under `pattern`; None if none does."""
    if b"*" not in pattern and b">" not in pattern:
        number = segment.subject_id(pattern)
        if number < 0:
            return None
        flags = bytearray(len(segment.subjects))
        flags[number] = 1
        return bytes(flags)
    if pattern == b">":
        return b"\x01" * len(segment.subjects)
    flags = bytearray(matches(subject, pattern) for subject in segment.subjects)
    return bytes(flags) if 1 in flags else None
