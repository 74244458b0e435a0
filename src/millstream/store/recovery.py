"""Open a log: from summaries where they are valid, from the files where they are not.

The last segment is always read from its file, because it was growing.  A tail torn by a crash is cut off
after the last whole record; damage anywhere else is skipped and reported.  Then recorded removals are applied
again.

A sequence that may have been used is never used again: if the end of the last file is damaged, as many
sequences are skipped as it can have contained.  (A file that somebody truncated looks like one whose last
write did not finish; the two cannot be distinguished.)  A log that is filled from an origin, with the
origin's sequences, skips none: it gets the same messages again (``store.reach``).

``docs/formats/log.md`` explains the rules and their purpose.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from collections.abc import Sequence

import msgspec

from millstream.store import reach, unsynced
from millstream.store.block_file import BlockFile, open_segment_file, overwrite_all
from millstream.store.commit import segment_path, summary_path
from millstream.store.damaged_end import count_records, is_torn, last_mark, may_be_torn
from millstream.store.errors import StoreError
from millstream.store.fill import has_lost_sector, is_filled, is_unfinished, may_be_filled
from millstream.store.fs import File, FileSystem
from millstream.store.log import DEFAULT_SEGMENT_SIZE, Log
from millstream.store.losses import MOST_LISTED, Damage
from millstream.store.mending import mend_header, mend_length
from millstream.store.record import (
    HEADER_SIZE,
    WHOLE,
    Kind,
    Record,
    RecordBuffer,
    erased_record,
    seq_in_mark,
)
from millstream.store.scan import SMALLEST_MESSAGE, Gap, Scan, commit_start, scan
from millstream.store.segment import FILE_HEADER_SIZE, Segment, file_header, start_in_header
from millstream.store.summary import Summary, decode, erased_in
from millstream.store.waypoints import Waypoints

_log = logging.getLogger("millstream.store")

_SKIP = int(Kind.SKIP)
_NAME = re.compile(r"(\d{10})\.(log|sum|unsynced)$")
_UNFINISHED = re.compile(r"(\d{10}\.(log|log\.erase|sum)|reach)\.new$")


def open_log(
    fs: FileSystem,
    folder: str,
    *,
    segment_size: int = DEFAULT_SEGMENT_SIZE,
    first_seq: int = 1,
    block_size: int = 0,
    synced: bool = False,
    refills: bool = False,
    names: Sequence[str] | None = None,
    opened: dict[str, File] | None = None,
) -> Log:
    """Open the log in `folder`; create it, starting at `first_seq`, if there is none.

    `block_size` as in ``LogUpkeep``; compressed segments can be read whatever it is.  `synced`: existing
    files and names are durable.  `refills`: an origin sends lost messages again, with their sequences.
    `names`: those in the folder, if the caller knows them.  `opened`: files that are open already, by their
    paths; the log takes its own out.
    """
    if not names:
        fs.make_folder(folder)
    log = Log(fs, folder, segment_size)
    log.upkeep.block_size = block_size
    log.state.start_at(first_seq)
    recovery = Recovery(log, segment_size, synced=synced, refills=refills, opened=opened)
    recovery.run(fs.list(folder) if names is None else names)
    return log


def new_log(
    fs: FileSystem, folder: str, *, segment_size: int = DEFAULT_SEGMENT_SIZE, first_seq: int = 1
) -> Log:
    """Return an empty log whose folder the caller creates before the first commit."""
    log = Log(fs, folder, segment_size)
    log.state.start_at(first_seq)
    log.repair.settle()
    return log


class Recovery:
    """One opening of a log."""

    def __init__(
        self,
        log: Log,
        segment_size: int,
        *,
        synced: bool = False,
        refills: bool = False,
        opened: dict[str, File] | None = None,
    ) -> None:
        self._log = log
        self._opened = {} if opened is None else opened
        self._synced = synced
        self._refills = refills
        self._fs = log.chain.fs
        self._folder = log.folder
        self._segment_size = segment_size
        self._gaps: list[tuple[Segment, Gap, str]] = []
        self._torn: list[tuple[Gap, int]] = []  # with a lost sector, and the last sequence
        self._erase: list[int] = []
        self._half_erased: list[tuple[Segment, Gap]] = []
        self._latest = 0  # the highest time that a record which is no message tells
        self._unsynced = False  # the names of files may not be durable
        self._has_appended = False  # to the last file, since it was synced
        self._before: Gap | None = None  # at the end of the segment before
        self._tail: Gap | None = None  # at the end of the segment before the one that is looked at
        self._has_reach = False
        self._numbers: Sequence[int] = ()
        self._unfinished = 0  # a segment that was given up when a write failed
        self._noted: set[int] = set()  # numbers of segments whose sync failed

    def run(self, names: Sequence[str]) -> None:
        """Open the log from the files in its folder."""
        self._has_reach = reach.NAME in names
        logs, summaries = self._list(names)
        try:
            self._open_all(logs, summaries)
        except StoreError:
            for segment, gap, reason in self._gaps:  # what is mended already is not found again
                _tell(segment_path(self._folder, segment.number), gap, reason, gap.most)
            raise
        self._log.state.last_timestamp = max(self._log.state.last_timestamp, self._latest)
        if self._log.chain.segments and self._log.chain.segments[-1].sealed:
            self._begin_after_missing(max([*logs, *summaries]) + 1)
        orphans = sorted(summaries - set(logs))
        known = self._known_removals() if orphans or self._gaps else _Removed(0, set())
        self._log.repair.settle()
        for segment, gap, reason in self._gaps:
            lost = known.count_alive(gap)
            if known.has_all_of(gap):
                self._half_erased.append((segment, gap))
            elif gap.size or lost:
                self._report(segment.number, gap, reason, lost, known.first_alive(gap))
        for number in orphans:
            self._check_orphan(number, known)
        self._erase_again()
        if self._unsynced:
            self._fs.sync_folder(self._folder)
        for segment, gap in self._half_erased:
            self._fill(segment, gap)
        self._log.losses.torn = [
            (gap.first_seq, max(gap.last_seq, gap.reach, last)) for gap, last in self._torn
        ]
        self._apply_reach()

    def _list(self, names: Sequence[str]) -> tuple[list[int], set[int]]:
        """Return the numbers of all segments and of all summaries; remove unfinished files of a crash."""
        logs: list[int] = []
        summaries: set[int] = set()
        for name in names:
            match = _NAME.match(name)
            if match is not None:
                number = int(match[1])
                if match[2] == "log":
                    logs.append(number)
                elif match[2] == "sum":
                    summaries.add(number)
                else:
                    self._noted.add(number)
            elif _UNFINISHED.match(name):
                with contextlib.suppress(StoreError):
                    self._fs.remove(f"{self._folder}/{name}")
        for number in self._noted.difference(logs):
            unsynced.clear(self._fs, self._folder, number)
        return sorted(logs), summaries

    # -- one segment ------------------------------------------------------------------------------

    def _open_all(self, logs: Sequence[int], summaries: set[int]) -> None:
        self._numbers = logs
        for number in logs:
            may_grow = number == logs[-1] and number not in summaries
            tail = self._before = self._tail
            self._tail = None
            segment = self._open(number, may_grow=may_grow)
            self._check_end(tail, segment)
            self._log.repair.adopt(segment)

    def _is_before_empty(self, number: int) -> bool:
        """Return True if the next segment is the last, and nothing was written to it yet."""
        if number not in self._numbers[-2:-1]:
            return False
        path = segment_path(self._folder, self._numbers[-1])
        file = self._opened.get(path) or self._fs.open(path, create=False)
        size = file.size()
        if path not in self._opened:
            file.close()
        return size <= FILE_HEADER_SIZE

    def _open(self, number: int, *, may_grow: bool) -> Segment:
        """Open a segment; `may_grow`: it is the last one, and nothing shows that it was sealed."""
        path = segment_path(self._folder, number)
        file = open_segment_file(self._fs, path, self._opened.pop(path, None))
        compressed = isinstance(file, BlockFile)
        is_last = may_grow and not compressed  # what is compressed was sealed, and the last one is lost
        summary = self._sound_summary(number, file) if not is_last else None
        if summary is not None:
            file.close()
            segment = self._from_summary(summary)
            if number in self._noted:
                unsynced.clear(self._fs, self._folder, number)
        else:
            segment = self._from_file(number, file, is_last=is_last)
        segment.compressed = compressed
        return segment

    def _sound_summary(self, number: int, file: File) -> Summary | None:
        try:
            summary = decode(self._fs.read_all(summary_path(self._folder, number)))
        except StoreError:
            return None
        if summary is None or summary.number != number:
            return None
        return summary if file.size() == summary.log_size else None

    def _from_summary(self, summary: Summary) -> Segment:
        segment = _empty_segment(summary)
        segment.last_seq = summary.last_seq
        segment.first_timestamp = summary.first_timestamp
        segment.last_timestamp = summary.last_timestamp
        segment.times_fall = summary.times_fall
        segment.size = segment.synced = summary.log_size
        segment.count = segment.live = summary.count
        segment.live_bytes = segment.all_bytes = summary.live_bytes
        segment.with_headers = summary.with_headers
        segment.erased = erased_in(summary)
        segment.marks = summary.marks
        segment.removals.extend(summary.removals)
        segment.floor = summary.floor
        segment.sealed = segment.summarized = True
        tables, stride = summary.tables, self._log.chain.tables.stride
        segment.waypoints = Waypoints(tables.offsets, tables.seqs, segment.base_seq, segment.size, stride)
        segment.waypoints.take_times(tables.timed, tables.times)
        segment.unload()
        sums = summary.subjects
        self._log.index.add_sums(sums.names, sums.counts, sums.firsts, sums.lasts)
        return segment

    def _from_file(self, number: int, file: File, *, is_last: bool) -> Segment:
        data = file.read(0, file.size())
        path = segment_path(self._folder, number)
        start_seq = start_in_header(data)
        if start_seq is None:
            start_seq = mend_header(file, path, data, least=self._log.last_seq + 1)
        segment = Segment(number, start_seq or self._log.last_seq + 1)
        segment.file = file
        found = scan(segment, data, start_seq is not None)
        if start_seq is not None and mend_length(file, path, data, found):
            return self._from_file(number, file, is_last=is_last)
        if is_last and found.gaps and (start_seq is not None or self._refills):
            end = self._end_before_torn(segment, data, found)
            if end:
                if self._refills:
                    _log.warning("%s: cut %d bytes, which the origin sends again", path, len(data) - end)
                file.truncate(end)
                data = data[:end]
                segment = Segment(number, start_seq or self._log.last_seq + 1)
                segment.file = file
                found = scan(segment, data, start_seq is not None)
                if not self._refills:
                    data += self._append_used(segment)
                    found.end = len(data)
        if start_seq is None:
            if not segment.count:
                _begin_behind_removed(segment)
                self._begin_behind_damaged(segment)
            self._mend_header(segment, data, is_last=is_last)
        for gap in found.gaps:
            self._gaps.append((segment, gap, "damaged record"))
            if is_last and may_be_torn(gap, data, found):
                self._torn.append((gap, 0))
        self._latest = max(self._latest, found.timestamp)
        self._erase += found.erase
        if is_last:
            self._cut_tail(segment, data, found)
            if self._torn and not self._refills and not self._was_looked_at(segment, data):
                self._append_used(segment)  # else removals of later commits seem to be of the torn one
        else:
            self._tail = found.open_gap
            rest = len(data) - found.end
            if found.marked:
                file.truncate(found.end)  # it was sealed, and power went before the zeros were cut off
            elif rest <= 0:
                pass
            elif self._is_before_empty(number) and is_torn(data, found.end, segment.last_seq + 1):
                self._unfinished = number
                _log.warning("%s: cut %d bytes of a write that did not finish", path, rest)
                file.truncate(found.end)
            else:
                segment.note_gap(len(data))
                most = count_records(data, found.end, segment.last_seq + 1) or rest // SMALLEST_MESSAGE
                gap = Gap(found.end, rest, segment.last_seq + 1, segment.last_seq, max(most, 1))
                self._gaps.append((segment, gap, "damaged end"))
                self._tail = self._tail or gap
            segment.sealed = True
        self._make_durable(segment)
        self._log.index.add_sums(segment.subjects, segment.counts, segment.firsts, segment.lasts)
        return segment

    def _end_before_torn(self, segment: Segment, data: bytes, found: Scan) -> int:
        """Return the end of what counts in the last file if power went during its last commit; 0: all counts.

        Removals are written behind the messages of their commit.  Where a sector of the messages was lost,
        they do not count: what displaced other messages is lost.  An origin sends everything behind a lost
        sector again, and what is damaged behind the last message.
        """
        last = segment.offset_at(segment.count - 1) if segment.count else 0
        torn = [
            gap
            for gap in found.gaps
            if may_be_torn(gap, data, found) or (self._refills and gap.offset > last and found.durable)
        ]
        if not torn:
            return 0
        at = torn[0].offset
        if self._refills:
            return at if self._leave_to_origin(segment.last_seq) else 0
        record = Record()
        removals = []
        for offset in [offset for offset in segment.others.to_list() if offset > at]:
            if record.read(data, offset, len(data), True) != WHOLE:
                return 0
            if record.kind != _SKIP:
                removals.append(offset)
            elif not commit_start(record):
                return 0
        if not removals or last > removals[0]:
            return 0  # other commits follow
        return removals[0]

    def _was_looked_at(self, segment: Segment, data: bytes) -> bool:
        """Return True if a record behind the torn commit tells that a start has looked at it."""
        at, record = self._torn[0][0].offset, Record()
        behind = [offset for offset in segment.others.to_list() if offset > at]
        return any(
            offset >= len(data)
            or (
                record.read(data, offset, len(data), True) == WHOLE
                and record.kind == _SKIP
                and not commit_start(record)
            )
            for offset in behind
        )

    def _append_used(self, segment: Segment) -> bytes:
        """Write which sequences are used, which also shows that the torn commit was looked at."""
        segment.note_other(segment.write(_SKIP, segment.last_seq, segment.last_timestamp, b"", b"", 0, 0, 0))
        skip = segment.take_pending()
        skip.seal()
        text = bytes(skip.peek())
        segment.writing = None
        assert segment.file is not None
        segment.file.append(text)
        self._has_appended = True
        return text

    def _begin_behind_damaged(self, segment: Segment) -> None:
        """Skip the sequences that the end of the segment before may have used; no header tells how many."""
        before = self._before
        if before is not None and not self._refills:
            segment.start_seq = segment.base_seq = max(
                segment.start_seq, self._log.last_seq + before.most + 1
            )
            segment.last_seq = segment.start_seq - 1

    def _make_durable(self, segment: Segment) -> None:
        """Sync what a killed process may not have synced, because from now on it counts.

        After a failed sync, of that process or of this one, it must be written again.  Raises StoreError if
        it cannot be synced: clients must not get messages that a power loss would take.
        """
        file, number = segment.file, segment.number
        assert file is not None
        start = 0
        if self._synced and not self._has_appended:
            if number not in self._noted:
                segment.synced = segment.size
                return
            start = unsynced.start_of(self._fs, self._folder, number)
        try:
            _write_and_sync(file, start)
        except StoreError:
            unsynced.try_to_note(self._fs, self._folder, number)
            self._noted.add(number)
            _write_and_sync(file, 0)  # the system may have told of a failure from before this start
        segment.synced = segment.size
        if number in self._noted:
            unsynced.clear(self._fs, self._folder, number)
        self._unsynced = True

    def _mend_header(self, segment: Segment, data: bytes, *, is_last: bool) -> None:
        """Rewrite the header; a last file with nothing else was just created when power failed."""
        file = segment.file
        assert file is not None
        if len(data) > FILE_HEADER_SIZE or not is_last:
            self._gaps.append((segment, Gap(0, FILE_HEADER_SIZE, 1, 0, 0), "damaged header"))
        try:
            file.overwrite(0, file_header(segment.start_seq))
        except StoreError as error:
            _log.error("the header of a segment cannot be mended: %s", error)

    def _cut_tail(self, segment: Segment, data: bytes, found: Scan) -> None:
        """Cut off everything after the last valid record, but keep the sequences it may have used."""
        rest = len(data) - found.end
        file = segment.file
        assert file is not None
        if found.open_gap is not None:
            used = segment.last_seq + found.open_gap.most
            found.open_gap.last_seq = used
            if not self._leave_to_origin(used):
                segment.last_seq = used
        elif found.marked and found.gaps and found.gaps[-1].reach == segment.last_seq:
            first = min(gap.first_seq for gap in found.gaps if gap.reach == segment.last_seq)
            if self._leave_to_origin(segment.last_seq):
                segment.last_seq = first - 1
        if rest <= 0:
            return
        expected = segment.last_seq + 1
        with_zeros = may_be_filled(len(data), self._segment_size)
        if found.marked or (with_zeros and is_filled(data, found.end, expected)):
            file.truncate(found.end)
            return
        mark = last_mark(data, found.end)
        next_seq = seq_in_mark(data, mark) if mark >= 0 else 0
        if not next_seq and (
            is_torn(data, found.end, expected) or (with_zeros and is_unfinished(data, found.end, expected))
        ):
            path = segment_path(self._folder, segment.number)
            _log.warning("%s: cut %d bytes of a write that did not finish", path, rest)
            file.truncate(found.end)
            return
        if next_seq >= expected:
            most = next_seq - expected
            last = next_seq - 1
        else:
            most = max(rest // SMALLEST_MESSAGE, 1)
            last = segment.last_seq + (count_records(data, found.end, expected) or most)
        gap = Gap(found.end, rest, expected, last, most)
        self._gaps.append((segment, gap, "damaged end"))
        if has_lost_sector(data, found.end, len(data)):
            self._torn.append((gap, segment.last_seq + most))
        if self._leave_to_origin(segment.last_seq + most):
            file.truncate(found.end)
            return
        segment.last_seq += most
        total = segment.write(_SKIP, segment.last_seq, segment.last_timestamp, b"", b"", 0, 0, 0)
        segment.note_other(total)
        skip = segment.take_pending()
        skip.seal()
        try:  # in this order: a crash in between must not forget the sequences
            file.overwrite(skip.base, skip.peek())
            file.truncate(segment.size)
        except StoreError as error:
            _log.error("the end of a segment cannot be mended yet: %s", error)
            segment.return_pending(skip)
        segment.writing = None

    # -- what is missing --------------------------------------------------------------------------

    def _check_end(self, tail: Gap | None, following: Segment) -> None:
        """Check that the last segment is complete: adjacent numbers must have adjacent sequences."""
        if not self._log.chain.segments:
            return
        segment = self._log.chain.segments[-1]
        last = following.start_seq - 1
        if following.number != segment.number + 1 or segment.last_seq >= last:
            return
        if segment.number == self._unfinished:
            segment.last_seq = last
            return
        if tail is None:
            tail = Gap(segment.size, 0, segment.last_seq + 1, last, 0)
            self._gaps.append((segment, tail, "records are missing"))
        tail.last_seq = last
        segment.last_seq = last

    def _begin_after_missing(self, number: int) -> None:
        """Begin a new segment after a missing one, which had an unknown number of messages."""
        most = max(self._segment_size, DEFAULT_SEGMENT_SIZE) // SMALLEST_MESSAGE
        self._report(number, Gap(0, 0, 1, 0, 0), "the segment is missing", 0, [])
        if not self._leave_to_origin(self._log.last_seq + most):
            self._log.state.last_seq += most
        self._log.writer.begin_segment(number)

    def _leave_to_origin(self, used: int) -> bool:
        """Return True if an origin fills the log again; remember that sequences up to `used` may be known.

        Raises StoreError if the disk refuses that: a log that is opened without would keep its hole.
        """
        if not self._refills:
            return False
        reach.write(self._fs, self._folder, max(used, reach.read(self._fs, self._folder)))
        self._has_reach = True
        return True

    def _apply_reach(self) -> None:
        """Skip the sequences of a log that became independent before it was filled again."""
        if not self._has_reach:
            return
        log = self._log
        log.losses.reach = reach.read(self._fs, self._folder)
        if log.losses.reach > log.last_seq:
            if not self._refills:
                log.skip_to(log.losses.reach, log.last_timestamp)
        elif log.losses.reach:
            with contextlib.suppress(StoreError):  # the next start tries again
                reach.clear(self._fs, self._folder)

    def _check_orphan(self, number: int, known: _Removed) -> None:
        """Report the messages of a summary without its segment as lost, unless all were removed."""
        path = summary_path(self._folder, number)
        summary = None
        with contextlib.suppress(StoreError):
            summary = decode(self._fs.read_all(path))
        if summary is not None:
            tables = summary.tables
            alive = [seq for ordinal in range(summary.count) if known.is_alive(seq := tables.seq_at(ordinal))]
            if alive:
                gap = Gap(0, summary.log_size, 1, 0, 0)
                self._report(number, gap, "the segment is missing", len(alive), alive[:MOST_LISTED])
        with contextlib.suppress(StoreError):
            self._fs.remove(path)

    def _known_removals(self) -> _Removed:
        removed: set[int] = set()
        for segment in self._log.chain.segments:
            removed.update(segment.removals.to_list())
        return _Removed(max((each.floor for each in self._log.chain.segments), default=0), removed)

    def _report(self, number: int, gap: Gap, reason: str, messages: int, sequences: list[int]) -> None:
        path = segment_path(self._folder, number)
        self._log.losses.add(Damage(path, gap.offset, gap.size, reason, sequences), messages)
        _tell(path, gap, reason, messages)

    # -- what was to be erased --------------------------------------------------------------------

    def _erase_again(self) -> None:
        """Repeat erasures that a crash may have interrupted after they were recorded."""
        record = Record()
        places: dict[Segment, list[tuple[int, bytes]]] = {}
        for seq in sorted(self._erase):
            segment = self._log.chain.segment_of(seq)
            if segment is None or seq > segment.last_seq:
                continue
            self._log.reader.load(segment)
            if not segment.holds(seq):
                continue
            ordinal = segment.first_not_below(seq)
            offset, size = segment.offset_at(ordinal), segment.size_of(ordinal)
            file = self._log.chain.tables.file(segment)
            data = file.read(offset, size)
            if record.read(data, 0, len(data), True, offset) == WHOLE and record.is_message():
                noise = erased_record(seq, record.timestamp, size, offset)
                places.setdefault(segment, []).append((offset, noise))
        for segment, parts in places.items():
            self._overwrite(segment, parts)

    def _fill(self, segment: Segment, gap: Gap) -> None:
        """Complete an erasure that a power loss interrupted: replace its remains by one record.

        It means the same as the gap, so the segment's tables stay valid.
        """
        path = segment_path(self._folder, segment.number)
        _log.info("%s: %d bytes of removed messages at %d are erased", path, gap.size, gap.offset)
        buffer = RecordBuffer()
        buffer.base = gap.offset
        rest = gap.size - HEADER_SIZE
        if rest >= 0:
            buffer.add(
                _SKIP, max(gap.last_seq, gap.reach), segment.last_timestamp, b"", bytes(rest), 0, 0, rest
            )
            buffer.seal()
            self._overwrite(segment, [(gap.offset, buffer.take())])

    def _overwrite(self, segment: Segment, parts: list[tuple[int, bytes]]) -> None:
        if segment not in self._log.chain.segments:
            return  # nothing in it was live
        try:
            overwrite_all(self._log.chain.tables.file(segment), parts)
        except StoreError as error:
            _log.error("removed messages in %d places are erased with the next commit: %s", len(parts), error)
            for offset, data in parts:
                self._log.removal.overwrite(segment, offset, data)


class _Removed(msgspec.Struct):
    """The known removals."""

    floor: int
    seqs: set[int]

    def is_alive(self, seq: int) -> bool:
        return seq >= self.floor and seq not in self.seqs

    def has_all_of(self, gap: Gap) -> bool:
        """Return True if the gap can only have contained removed messages, whose erasure was interrupted."""
        last = max(gap.last_seq, gap.reach)
        if last < gap.first_seq or gap.size == 0:
            return False
        first = max(gap.first_seq, self.floor)
        return all(seq in self.seqs for seq in range(first, last + 1))

    def count_alive(self, gap: Gap) -> int:
        first = max(gap.first_seq, self.floor)
        if first > gap.last_seq:
            return 0
        return gap.last_seq + 1 - first - sum(first <= seq <= gap.last_seq for seq in self.seqs)

    def first_alive(self, gap: Gap) -> list[int]:
        alive = (seq for seq in range(max(gap.first_seq, self.floor), gap.last_seq + 1) if self.is_alive(seq))
        return list(itertools.islice(alive, MOST_LISTED))


def _write_and_sync(file: File, start: int) -> None:
    """Sync a file, with its bytes from `start` on written again: a failed sync may have dropped them.

    Raises StoreError.
    """
    if not isinstance(file, BlockFile):  # such a file was durable before it had its name
        unsynced.write_again(file, start)
    file.sync()


def _empty_segment(summary: Summary) -> Segment:
    segment = Segment(summary.number, summary.start_seq)
    segment.base_seq = summary.base_seq
    return segment


def _begin_behind_removed(segment: Segment) -> None:
    """Set the first sequence of a segment whose header is lost, and which has no message to tell it.

    In a stream that is empty, no other file knows how far it was.
    """
    used = max([segment.last_seq, segment.floor - 1, *segment.removals.to_list()])
    segment.start_seq = segment.base_seq = used + 1
    segment.last_seq = used


def _tell(path: str, gap: Gap, reason: str, messages: int) -> None:
    _log.error(
        "%s: %s, %d bytes at %d, at most %d messages lost", path, reason, gap.size, gap.offset, messages
    )
