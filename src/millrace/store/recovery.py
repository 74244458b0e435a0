"""Opening a log: from summaries where they are sound, from the files where they are not.

The last segment is always read from its file, because it was growing.  A tail that was torn by a crash
is cut off behind the last whole record; damage anywhere else is stepped over and reported.  Then
what was removed is removed again.
"""

from __future__ import annotations

import logging

from millrace.store.commit import segment_path, summary_path
from millrace.store.errors import StoreError
from millrace.store.fs import FileSystem
from millrace.store.log import DEFAULT_SEGMENT_SIZE, Damage, Log
from millrace.store.record import DAMAGED, HEADER_SIZE, Record
from millrace.store.scan import Scan, scan
from millrace.store.segment import MAGIC, Segment, file_header
from millrace.store.summary import SubjectCounts, Summary, decode

_log = logging.getLogger("millrace.store")


def open_log(
    fs: FileSystem, folder: str, *, segment_size: int = DEFAULT_SEGMENT_SIZE, first_seq: int = 1
) -> Log:
    """The log in `folder`, made if there is none; `first_seq` is for one that is made."""
    log = Log(fs, folder, segment_size)
    fs.make_folder(folder)
    numbers = sorted(int(name[:-4]) for name in fs.list(folder) if name.endswith(".log"))
    for number in numbers[:-1]:
        summary = _sound_summary(fs, folder, number)
        if summary is not None:
            log.adopt(_from_summary(log, summary))
        else:
            log.adopt(_from_file(log, number, is_last=False))
    if numbers:
        log.adopt(_from_file(log, numbers[-1], is_last=True))
    else:
        log.last_seq = first_seq - 1
        log.first_seq = first_seq
    log.settle()
    return log


def _sound_summary(fs: FileSystem, folder: str, number: int) -> Summary | None:
    try:
        summary = decode(fs.read_all(summary_path(folder, number)))
    except (StoreError, ValueError):
        return None
    if summary is None or summary.number != number:
        return None
    file = fs.open(segment_path(folder, number), create=False)
    fits = file.size() == summary.log_size
    file.close()
    return summary if fits else None


def _from_summary(log: Log, summary: Summary) -> Segment:
    segment = Segment(summary.number, summary.base_seq)
    segment.last_seq = summary.last_seq
    segment.first_timestamp = summary.first_timestamp
    segment.last_timestamp = summary.last_timestamp
    segment.size = summary.log_size
    segment.count = segment.live = summary.count
    segment.live_bytes = segment.all_bytes = summary.live_bytes
    segment.marks = summary.marks
    segment.removals = summary.removals
    segment.floor = summary.floor
    segment.sealed = segment.summarized = True
    segment.unload()
    for each in summary.subjects:
        log.index.add_many(each.subject, each.count, each.first, each.last)
    log.with_headers += summary.with_headers
    return segment


def _from_file(log: Log, number: int, *, is_last: bool) -> Segment:
    path = segment_path(log.folder, number)
    file = log.fs.open(path, create=False)
    data = file.read(0, file.size())
    if not data.startswith(MAGIC) or len(data) < len(file_header(0)):
        if is_last and len(data) < len(file_header(0)):  # created, and then the power went
            file.truncate(0)
            data = file_header(log.last_seq + 1)
            file.append(data)
        else:
            raise StoreError("open", path, "this is not a segment", hint="restore it from a backup")
    segment = Segment(number, int.from_bytes(data[8:16], "little"))
    found = scan(segment, data)
    _report(log, path, found)
    if found.end < len(data):
        _end_of_file(log, segment, path, data, found.end, is_last=is_last)
        if is_last:
            file.truncate(found.end)
    segment.size = found.end if is_last else len(data)
    segment.file = file
    segment.sealed = not is_last
    counts = SubjectCounts(segment)
    for index, subject in enumerate(segment.subjects):
        log.index.add_many(subject, counts.counts[index], counts.firsts[index], counts.lasts[index])
    log.with_headers += sum(segment.has_headers(ordinal) for ordinal in range(segment.count))
    return segment


def _report(log: Log, path: str, found: Scan) -> None:
    for offset, size, messages in found.gaps:
        log.losses.add(Damage(path, offset, size, "damaged record"), messages)
        _log.error("%s: %d bytes at %d are damaged, %d messages lost", path, size, offset, messages)


def _end_of_file(log: Log, segment: Segment, path: str, data: bytes, at: int, *, is_last: bool) -> None:
    """Bytes behind the last sound record: a torn write, or a damaged last record."""
    record = Record()
    rest = len(data) - at
    whole_but_damaged = record.read(data, at, len(data), True) == DAMAGED and rest >= HEADER_SIZE
    expected = segment.last_seq + 1
    seq = int.from_bytes(data[at + 8 : at + 16], "little") if rest >= HEADER_SIZE else 0
    if whole_but_damaged and seq == expected:
        segment.last_seq = seq  # it was acknowledged: its number is not given out again
        log.losses.add(Damage(path, at, rest, "damaged record"), 1)
        _log.error("%s: the last record, sequence %d, is damaged and lost", path, seq)
    elif is_last:
        _log.warning("%s: cut %d bytes of a write that did not finish", path, rest)
    else:
        log.losses.add(Damage(path, at, rest, "damaged end"), 0)
        _log.error("%s: the last %d bytes are damaged", path, rest)
