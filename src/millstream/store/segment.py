"""One segment: a file of records, and its tables in memory.

    +-----------+---------+---------------+--------+--------+---- …
    | "MSL\\x01" | crc u32 | start seq u64 | record | record |
    +-----------+---------+---------------+--------+--------+---- …

The last segment of a log is *active*: it grows.  The others are *sealed*: their files never change, except
for erasures and replacement by a rewritten file (``compaction``, ``compression``); each has a summary beside
it (``summary``); and the tables below are dropped and loaded again as needed, while `waypoints` stay, by
which single messages are found.

Messages of a segment are numbered from 0 (their *ordinal*), the index of the tables:

    offsets   where the record begins
    subjects  which of the segment's subjects it has; the top bit marks headers
    seqs      its sequence; only if there are gaps, otherwise it is `base_seq` + ordinal

For each subject, `counts`, `firsts` and `lasts` sum up its messages, including removed ones, until the
segment has a summary.  Removed messages are bits in `removed`.  Everything here belongs to the thread that
appends; a commit in another thread uses the buffer it took over and, of a sealed segment, reads the tables.
"""

from millstream.base.checksum import crc32c
from millstream.base.numbers import Numbers
from millstream.store.fs import File
from millstream.store.record import RecordBuffer
from millstream.store.subject_links import SubjectLinks
from millstream.store.subject_list import SubjectList
from millstream.store.waypoints import STRIDE, Waypoints

MAGIC = b"MSL\x01"
FILE_HEADER_SIZE = 16
ALL_MARKS = 0x7FFFFFFF  # of a segment whose marks are not known any more
_FILE_HEADER_SIZE = FILE_HEADER_SIZE
_STRIDE = STRIDE
_HEADER_BIT = 0x80000000
_SUBJECT_MASK = 0x7FFFFFFF
_PASSES = 4  # over a segment in search of subjects, before it gets links
_MANY_PASSED = 4096  # messages


def file_header(start_seq: int) -> bytes:
    start = start_seq.to_bytes(8, "little")
    return MAGIC + crc32c(start).to_bytes(4, "little") + start


def start_in_header(data: bytes) -> int | None:
    """Return the first sequence in a segment file's header; None if the header is damaged."""
    start_seq = int.from_bytes(data[8:16], "little")
    return start_seq if data[:_FILE_HEADER_SIZE] == file_header(start_seq) else None


class Segment:
    """The tables of one file."""

    def __init__(self, number: int, base_seq: int) -> None:
        self.number = number
        self.start_seq = base_seq  # everything below was used up by the segments before
        self.base_seq = base_seq  # of its first message, or of the one that would be
        self.last_seq = base_seq - 1  # the highest it uses up
        self.first_timestamp = 0
        self.last_timestamp = 0  # the highest
        self.times_fall = False  # some message has an earlier time than one before it
        self.size = _FILE_HEADER_SIZE  # bytes, with those not yet written
        self.synced = 0  # bytes that a power cut leaves alone
        self.doubtful = False  # a sync failed: the system may have dropped what was written since `synced`
        self.noted = False  # there is a note that it may have to be written again (``unsynced``)
        self.file: File | None = None
        self.pending = RecordBuffer()
        self.writing: RecordBuffer | None = None  # taken by the commit that is under way
        self.sealed = False
        self.summarized = False  # its summary is on disk
        self.compressed = False  # its file is in blocks
        self.count = 0  # messages, with removed ones
        self.live = 0
        self.live_bytes = 0  # of records that are live
        self.erased = 0  # removed messages whose content was overwritten in the file; their subject is empty
        self.overdue = False  # it held removed content at the last look (``Log.age_removals``)
        self.due = False  # and at the one before: that content is to be erased now
        self.all_bytes = 0  # of all its messages' records
        self.with_headers = 0  # messages that have headers, with removed ones
        self.marks = 0  # or-ed flags of its messages; the log's user knows what they mean
        self.removed: bytearray | None = None
        self.removals = Numbers(8)  # sequences that REMOVED and ERASE records in this file name
        self.floor = 0  # the highest FLOOR record in this file
        self.pins = 0  # while not 0, somebody uses tables or file between steps of the loop: they must stay
        self.held = 0  # while not 0, somebody will read it as it was: it must stay (see ``frozen``)
        self.epoch = 0  # changes when offsets and ordinals do
        self.loaded = True  # the tables are there
        self.touched = False  # and somebody needed them since ``Tables.rest`` looked
        self.offsets = Numbers(4)
        self.subject_of = Numbers(4)
        self.seqs: Numbers | None = None
        self.others = Numbers(4)  # where records lie that are no messages
        self.subjects = SubjectList()
        self._links: SubjectLinks | None = None  # made when searches have passed over many messages
        self._passed = 0  # so far
        self.waypoints: Waypoints | None = None  # made when the tables are dropped for the first time
        self.timed = Numbers(4)  # ordinals of messages, about one for 4 KiB, of which
        self.times = Numbers(8)  # the time is known; both empty if the tables came from a summary of format 1
        self._timed_end = 0  # the first offset that needs another one
        self.counts = Numbers(4)
        self.firsts = Numbers(8)
        self.lasts = Numbers(8)

    # -- growing ----------------------------------------------------------------------------------

    def write(
        self,
        kind: int,
        seq: int,
        timestamp: int,
        subject: bytes,
        source: bytes,
        start: int,
        header_size: int,
        size: int,
    ) -> int:
        """Collect a record (see ``RecordBuffer.add``); ``note`` or ``note_other`` must follow."""
        if self.pending.size == 0:
            self.pending.base = self.size
        return self.pending.add(kind, seq, timestamp, subject, source, start, header_size, size)

    def note(self, seq: int, timestamp: int, subject: bytes, has_headers: bool, size: int) -> int:
        """Add a message, whose record has `size` bytes, to the tables; return its ordinal."""
        ordinal = self.count
        if self.seqs is not None:
            self.seqs.push(seq)
        elif seq != self.base_seq + ordinal:
            if ordinal == 0:
                self.base_seq = seq
            else:
                self._make_sparse(seq)
        known = self.subjects.count
        number = self.subjects.add(subject)
        if self.subjects.count > known:
            self.counts.push(0)
            self.firsts.push(seq)
            self.lasts.push(0)
        self.counts.set(number, self.counts.at(number) + 1)
        self.lasts.set(number, seq)
        self.offsets.push(self.size)
        if self.size >= self._timed_end or size > _STRIDE:
            self._note_time(ordinal, timestamp)
        if has_headers:
            number |= _HEADER_BIT
            self.with_headers += 1
        self.subject_of.push(number)
        if ordinal == 0:
            self.first_timestamp = timestamp
            self.last_timestamp = timestamp
        elif timestamp < self.last_timestamp:
            self.times_fall = True
        else:
            self.last_timestamp = timestamp
        self.last_seq = seq
        self.count += 1
        self.live += 1
        self.live_bytes += size
        self.all_bytes += size
        self.size += size
        return ordinal

    def _note_time(self, ordinal: int, timestamp: int) -> None:
        """Keep the time of a message that will have a waypoint (``Waypoints``)."""
        self.timed.push(ordinal)
        self.times.push(timestamp if timestamp > 0 else 0)
        self._timed_end = self.size + _STRIDE

    def note_other(self, size: int) -> None:
        """Account for a record that is not a message."""
        self.others.push(self.size)
        self.size += size

    def note_gap(self, end: int) -> None:
        """Account for damaged bytes up to `end`, which belong to no record."""
        self.others.push(self.size)
        self.size = end

    def _make_sparse(self, seq: int) -> None:
        """List sequences from here on, because `seq`, the next, leaves a gap."""
        seqs = Numbers(8)
        for index in range(self.count):
            seqs.push(self.base_seq + index)
        seqs.push(seq)
        self.seqs = seqs

    def close(self) -> None:
        """Close the file, which can be opened again."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def take_pending(self) -> RecordBuffer:
        """Return the collected records to be written; new ones are collected in another buffer."""
        taken = self.pending
        self.pending = RecordBuffer()
        self.writing = taken
        return taken

    def drop_pending(self) -> None:
        """Drop the collected records of a segment that is no longer needed."""
        self.pending = RecordBuffer()

    def return_pending(self, taken: RecordBuffer) -> None:
        """Put records that could not be written before those collected since."""
        taken.append(self.pending.peek())
        self.pending = taken
        self.writing = None

    # -- looking up -------------------------------------------------------------------------------

    def seq_at(self, ordinal: int) -> int:
        if self.seqs is not None:
            return self.seqs.at(ordinal)
        return self.base_seq + ordinal

    def knows_seqs(self) -> bool:
        """Return True if the sequence of each ordinal is known; with gaps, that needs tables."""
        return self.loaded or (self.waypoints is not None and self.waypoints.seqs is None)

    def first_not_below(self, seq: int) -> int:
        """Return the ordinal of the first message not below `seq`; `count` if there is none."""
        if self.seqs is not None:
            return self.seqs.first_not_below(seq)
        if seq <= self.base_seq:
            return 0
        if seq - self.base_seq >= self.count:
            return self.count
        return seq - self.base_seq

    def ordinal_of(self, seq: int) -> int:
        """Return the ordinal of a live message, or -1."""
        ordinal = self.first_not_below(seq)
        if ordinal >= self.count or self.seq_at(ordinal) != seq or self.is_removed(ordinal):
            return -1
        return ordinal

    def is_removed(self, ordinal: int) -> bool:
        removed = self.removed
        if removed is None or ordinal >> 3 >= len(removed):  # it grows only with removals
            return False
        return (removed[ordinal >> 3] >> (ordinal & 7)) & 1 != 0

    def holds(self, seq: int) -> bool:
        """Return True if the file contains a record of the message, removed or not."""
        ordinal = self.first_not_below(seq)
        return ordinal < self.count and self.seq_at(ordinal) == seq

    def next_live(self, ordinal: int) -> int:
        """Return the first live ordinal from `ordinal` on; `count` if there is none."""
        if self.removed is None:
            return ordinal if ordinal < self.count else self.count
        while ordinal < self.count and self.is_removed(ordinal):
            ordinal += 1
            while ordinal & 7 == 0 and self._all_removed(ordinal):
                ordinal += 8
        return ordinal if ordinal < self.count else self.count

    def _all_removed(self, ordinal: int) -> bool:
        """Return True if the eight messages from `ordinal` on, a multiple of eight, are removed."""
        removed = self.removed
        return removed is not None and ordinal >> 3 < len(removed) and removed[ordinal >> 3] == 0xFF

    def subject_at(self, ordinal: int) -> bytes:
        return self.subjects.at(self.subject_of.at(ordinal) & _SUBJECT_MASK)

    def subject_number(self, ordinal: int) -> int:
        return self.subject_of.at(ordinal) & _SUBJECT_MASK

    def has_headers(self, ordinal: int) -> bool:
        return self.subject_of.at(ordinal) & _HEADER_BIT != 0

    def offset_at(self, ordinal: int) -> int:
        return self.offsets.at(ordinal)

    def end_of(self, ordinal: int) -> int:
        """Return the offset after the record."""
        end = self.offsets.at(ordinal + 1) if ordinal + 1 < self.count else self.size
        if self.others.count:
            between = self.others.first_not_below(self.offsets.at(ordinal))
            if between < self.others.count and self.others.at(between) < end:
                return self.others.at(between)
        return end

    def size_of(self, ordinal: int) -> int:
        return self.end_of(ordinal) - self.offset_at(ordinal)

    def next_match(self, ordinal: int, wanted: bytes) -> int:
        """Return the first live ordinal from `ordinal` on whose subject's flag in `wanted` is set."""
        ordinal = self.subject_of.next_flagged(ordinal, self.count, wanted, _SUBJECT_MASK)
        while ordinal < self.count and self.is_removed(ordinal):
            ordinal = self.subject_of.next_flagged(ordinal + 1, self.count, wanted, _SUBJECT_MASK)
        return ordinal

    def next_of(self, number: int, ordinal: int) -> int:
        """Return the first live ordinal from `ordinal` on with the subject of this number; else `count`."""
        ordinal = self._find_of(number, ordinal)
        while ordinal < self.count and self.is_removed(ordinal):
            ordinal = self._find_of(number, ordinal + 1)
        return ordinal

    def _find_of(self, number: int, ordinal: int) -> int:
        """Do the same as ``next_of`` with removed messages."""
        links = self._links
        if links is not None:
            links.extend(self.subject_of, _SUBJECT_MASK, self.subjects.count)
            if links.last(number) <= ordinal:
                return self.count
            if links.first(number) > ordinal:
                return links.first(number) - 1
            if self.subject_of.at(ordinal - 1) & _SUBJECT_MASK == number:
                return links.next(ordinal - 1) - 1
        found = self.subject_of.next_equal(ordinal, self.count, number, _SUBJECT_MASK)
        self._passed += found - ordinal
        if links is None and self._passed > _PASSES * self.count + _MANY_PASSED:
            self._links = SubjectLinks()
        return found

    def previous_match(self, ordinal: int, wanted: bytes) -> int:
        """Return the last live ordinal up to `ordinal` whose subject is wanted; -1 if there is none."""
        flags = wanted
        known = len(wanted)
        subject_of = self.subject_of
        while ordinal >= 0:
            number = subject_of.at(ordinal) & _SUBJECT_MASK
            if number < known and flags[number] and not self.is_removed(ordinal):
                return ordinal
            ordinal -= 1
        return ordinal

    def count_live(self, start: int, end: int, wanted: bytes | None) -> int:
        """Count the live ordinals from `start` to before `end`, of wanted subjects."""
        found = 0
        if wanted is None:
            if self.removed is None:
                return end - start if end > start else 0
            for ordinal in range(start, end):
                if not self.is_removed(ordinal):
                    found += 1
            return found
        if self.removed is None:
            return self.subject_of.count_flagged(start, end, wanted, _SUBJECT_MASK)
        ordinal = self.subject_of.next_flagged(start, end, wanted, _SUBJECT_MASK)
        while ordinal < end:
            if not self.is_removed(ordinal):
                found += 1
            ordinal = self.subject_of.next_flagged(ordinal + 1, end, wanted, _SUBJECT_MASK)
        return found

    def subjects_between(self, start: int, end: int) -> list[bytes]:
        """Return the different subjects of the ordinals from `start` to before `end`."""
        seen = set()
        last = -1
        for ordinal in range(start, end):
            number = self.subject_of.at(ordinal) & _SUBJECT_MASK
            if number != last:
                last = number
                seen.add(number)
        return [self.subjects.at(number) for number in seen]

    def subject_id(self, subject: bytes) -> int:
        return self.subjects.find(subject)

    # -- removing ---------------------------------------------------------------------------------

    def mark_removed(self, ordinal: int, size: int) -> None:
        """Mark a live message as removed; `size` is that of its record."""
        needed = (self.count >> 3) + 1
        if self.removed is None:
            self.removed = bytearray(needed)
        elif len(self.removed) < needed:
            self.removed.extend(bytes(needed - len(self.removed)))
        self.removed[ordinal >> 3] |= 1 << (ordinal & 7)
        self.live -= 1
        self.live_bytes -= size

    def remove_range(self, start: int, end: int, wanted: bytes | None, counts: Numbers) -> int:
        """Mark the live ordinals from `start` to before `end` as removed if their subjects are wanted.

        Adds their numbers to each subject's entry in `counts`; returns how many of them have headers.
        """
        with_headers = 0
        subject_of = self.subject_of
        flags = b"" if wanted is None else wanted
        known = self.subjects.count if wanted is None else len(wanted)
        for ordinal in range(start, end):
            value = subject_of.at(ordinal)
            number = value & _SUBJECT_MASK
            if number >= known or (wanted is not None and not flags[number]) or self.is_removed(ordinal):
                continue
            self.mark_removed(ordinal, self.size_of(ordinal))
            counts.set(number, counts.at(number) + 1)
            if value & _HEADER_BIT:
                with_headers += 1
        return with_headers

    def nth_live(self, start: int, count: int) -> int:
        """Return the ordinal of the live message that has `count` live ones from `start` on before it."""
        ordinal = self.next_live(start)
        if self.removed is None:
            return min(ordinal + count, self.count)
        while count > 0 and ordinal < self.count:
            ordinal = self.next_live(ordinal + 1)
            count -= 1
        return ordinal

    def mark_all_removed(self) -> None:
        if self.live:
            whole, rest = self.count >> 3, self.count & 7
            self.removed = bytearray(b"\xff" * whole + bytes([(1 << rest) - 1]))
            self.live = 0
            self.live_bytes = 0

    def exposed(self) -> int:
        """Return the number of removed messages whose content is still in the file."""
        return self.count - self.live - self.erased

    def exposed_ordinals(self) -> list[int]:
        """Return the ordinals of removed messages whose content is still in the file."""
        found: list[int] = []
        if self.removed is None:
            return found
        blank = self.subjects.blank() if self.erased else -1
        for ordinal in range(self.count):
            if self.is_removed(ordinal) and self.subject_of.at(ordinal) & _SUBJECT_MASK != blank:
                found.append(ordinal)
        return found

    def removed_since(self, before: bytes) -> list[int]:
        """Return the sequences of messages removed since `removed` was `before`."""
        found: list[int] = []
        removed = self.removed
        known = len(before)
        was = before
        if removed is None:
            return found
        for index in range(len(removed)):
            bits = removed[index]
            if index < known:
                bits &= ~was[index]
            if bits:
                for bit in range(8):
                    if bits >> bit & 1:
                        found.append(self.seq_at(8 * index + bit))
        return found

    def relabelled(self, ordinals: list[int]) -> "Segment":
        """Return a segment for the same file with the content of `ordinals` overwritten.

        They have the empty subject, as a scan of the file would find.  Subjects without messages are left
        out.
        """
        fresh = Segment(self.number, self.start_seq)
        fresh.base_seq = self.base_seq
        fresh.last_seq = self.last_seq
        fresh.first_timestamp = self.first_timestamp
        fresh.last_timestamp = self.last_timestamp
        fresh.times_fall = self.times_fall
        fresh.size = self.size
        fresh.count = self.count
        fresh.all_bytes = self.all_bytes
        fresh.marks = self.marks
        fresh.removals = self.removals
        fresh.floor = self.floor
        fresh.erased = self.erased + len(ordinals)
        subjects = SubjectList()
        table = Numbers(4)
        numbers = Numbers(4, bytes(4 * (self.subjects.count + 1)))  # the new number of each old one, plus 1
        nameless = self.subjects.count
        following = 0
        for ordinal in range(self.count):
            value = self.subject_of.at(ordinal)
            if following < len(ordinals) and ordinals[following] == ordinal:
                following += 1
                value = nameless
            number = value & _SUBJECT_MASK
            known = numbers.at(number)
            if known == 0:
                known = subjects.add(self.subjects.at(number) if number < nameless else b"") + 1
                numbers.set(number, known)
                if known > fresh.counts.count:
                    fresh.counts.push(0)
                    fresh.firsts.push(self.seq_at(ordinal))
                    fresh.lasts.push(0)
            number = known - 1
            fresh.counts.set(number, fresh.counts.at(number) + 1)
            fresh.lasts.set(number, self.seq_at(ordinal))
            if value & _HEADER_BIT:
                fresh.with_headers += 1
            table.push(number | (value & _HEADER_BIT))
        fresh.load(self.offsets, table, self.seqs, self.others, subjects)
        fresh.take_times(self.timed, self.times)
        return fresh

    # -- tables come and go -----------------------------------------------------------------------

    def load(
        self,
        offsets: Numbers,
        subject_of: Numbers,
        seqs: Numbers | None,
        others: Numbers,
        subjects: SubjectList,
    ) -> None:
        self.loaded = True
        self.epoch += 1
        self.offsets = offsets
        self.others = others
        self.subject_of = subject_of
        self.seqs = seqs
        self.subjects = subjects
        self._drop_links()
        self.timed = Numbers(4)
        self.times = Numbers(8)

    def take_times(self, timed: Numbers, times: Numbers) -> None:
        """Take over the times of the messages `timed`."""
        self.timed = timed
        self.times = times

    def adopt_tables(self, other: "Segment") -> None:
        """Take over the tables of another segment object for the same file."""
        self.waypoints = None
        self.load(other.offsets, other.subject_of, other.seqs, other.others, other.subjects)
        self.take_times(other.timed, other.times)
        self.erased = other.erased
        self.with_headers = other.with_headers
        self.counts = other.counts
        self.firsts = other.firsts
        self.lasts = other.lasts

    def become(self, other: "Segment") -> None:
        """Take over everything from `other`, without removals: the file was replaced, or lost records."""
        self.adopt_tables(other)
        self.start_seq = other.start_seq
        self.base_seq = other.base_seq
        self.first_timestamp = other.first_timestamp
        self.last_timestamp = other.last_timestamp
        self.times_fall = other.times_fall
        self.size = other.size
        self.synced = other.synced
        self.count = self.live = other.count
        self.live_bytes = self.all_bytes = other.all_bytes
        self.overdue = self.due = False
        self.removals = other.removals
        self.floor = other.floor
        self.removed = None
        self.summarized = False

    def unload(self, stride: int = STRIDE) -> None:
        """Drop the tables of a sealed segment, which are in its summary, except for the waypoints."""
        if self.waypoints is None:
            self.waypoints = Waypoints(self.offsets, self.seqs, self.base_seq, self.size, stride)
            self.waypoints.take_times(self.timed, self.times)
        self.loaded = False
        self.epoch += 1
        self.offsets = Numbers(4)
        self.subject_of = Numbers(4)
        self.seqs = None
        self.others = Numbers(4)
        self.subjects = SubjectList()
        self._drop_links()
        self.timed = Numbers(4)
        self.times = Numbers(8)
        self.forget_sums()

    def _drop_links(self) -> None:
        self._links = None
        self._passed = 0

    def table_bytes(self) -> int:
        """Return the approximate memory of the tables; lists that grew may have as much again to spare."""
        tables = 2 * self.offsets.size + self.others.size + self.subjects.memory()
        if self._links is not None:
            tables += self._links.memory()
        return tables + (self.seqs.size if self.seqs is not None else 0)

    def forget_sums(self) -> None:
        """Drop the sums, which are now in a summary."""
        self.counts = Numbers(4)
        self.firsts = Numbers(8)
        self.lasts = Numbers(8)
