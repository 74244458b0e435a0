"""The commit journal: small commits of many logs, made durable with one sync.

A commit that only appends to one file can go to the journal instead of syncing that file: its records are
written to the file without a sync, and again to the journal, with one sync for all logs of a batch.  After a
power loss, ``replay`` restores what the files lost.  Journals are files of a fixed size: a header, which
contains the journal's mark, and batches.  ``docs/formats/journal.md`` describes every field.

    +----------------+-------+-------+-----------+-------+-----+---------- …
    | header (4 KiB) | batch | zeros | batch     | zeros | …   | zeros
    +----------------+-------+-------+-----------+-------+-----+---------- …
                     4 KiB           a multiple of 4 KiB

What a batch consists of is in ``journal_batch``.  It begins at a multiple of 4 KiB, so that writing one never
touches a sector of another.  The mark is random, and no client ever sees it: nobody can publish a message
that looks like a batch.  A key is the path of the log's folder within the store, a zero byte, and the id of
its stream (``jetstream.stream.meta``): a stream that was deleted and created again with the same name is
another one.

``replay`` is safe however old the journal is.  It only handles the newest segment of a log, because an older
one was synced before the next was created.  There it keeps every valid record, even one that was erased or
written since, and writes the invalid ones.

Not here: when commits take this way (``server.commit_journal``), and when a journal is no longer needed
(``server.journal_files``).
"""

from __future__ import annotations

import errno
import logging
import os
import re
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from millstream.base.checksum import crc32c
from millstream.store.batch_mending import may_be_damaged, mended_batch
from millstream.store.commit import segment_path, summary_path
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem
from millstream.store.journal_batch import ALIGNMENT, CHECKED
from millstream.store.record import CUT, WHOLE, Record
from millstream.store.segment import FILE_HEADER_SIZE, start_in_header

_log = logging.getLogger("millstream.store")

START: Final = ALIGNMENT  # of the first batch
MAGIC: Final = b"MSJ\x01"
NAME: Final = re.compile(r"millstream-([0-9]{10})\.journal")
_ROOM_LEFT: Final = 256 * 1024 * 1024  # bytes on a disk, beside a journal
_MOST_MISSING: Final = 64 * 1024 * 1024  # bytes that damaged batches had
_PIECE: Final = 1024 * 1024  # bytes that are cleared at once
_SECTOR: Final = 512  # the header says the same in each of them
_HEADER: Final = struct.Struct("<4s16sI")
_BATCH: Final = struct.Struct("<16sIIIQ")
_ENTRY: Final = struct.Struct("<HQQI")
_LOG: Final = re.compile(r".+/streams/[^/]+/(log|consumers)")
_SEGMENT: Final = re.compile(r"([0-9]{10})\.log")


def journal_path(folder: str, number: int) -> str:
    return f"{folder}/millstream-{number:010d}.journal"


class Entry(NamedTuple):
    """Bytes that belong in the file of a log."""

    key: bytes
    segment: int
    base: int
    data: bytes | memoryview


def new_mark() -> bytes:
    """Return the mark of a new journal."""
    return os.urandom(16)


def encode_header(mark: bytes) -> bytes:
    sector = _HEADER.pack(MAGIC, mark, crc32c(MAGIC + mark)).ljust(_SECTOR, b"\0")
    return sector * (START // _SECTOR)


def is_journal(beginning: bytes) -> bool:
    """Return True if a file begins as a journal: with a copy of the header, or with zeros only.

    Sectors of a file may be zero if power went while it was made.
    """
    copies = range(0, START, _SECTOR)
    return not any(beginning) or any(beginning.startswith(MAGIC, at) for at in copies)


def _mark_of(data: bytes) -> bytes | None:
    """Return the mark in a journal's header; None if no copy of it is valid."""
    for at in range(0, min(START, len(data) - _HEADER.size), _SECTOR):
        magic, mark, crc = _HEADER.unpack_from(data, at)
        if magic == MAGIC and crc == crc32c(magic + mark):
            return bytes(mark)
    return None


def read_batches(data: bytes, path: str = "") -> Iterator[tuple[int, list[Entry]]]:
    """Yield all valid batches of a journal with their orders; torn ones are left out.

    One with a damaged byte is mended.  If it cannot be mended, it is reported with `path`, and left out.
    """
    mark = _mark_of(data)
    at = START
    while mark is not None and at + _BATCH.size <= len(data):
        batch = _batch_at(data, at, mark, path)
        if batch is None:
            at += ALIGNMENT
            continue
        _, _, size, count, order = _BATCH.unpack_from(batch)
        yield order, list(_entries(batch, _BATCH.size, count))
        at += size + -size % ALIGNMENT


def _batch_at(data: bytes, at: int, mark: bytes, path: str) -> bytes | None:
    found, crc, size, _, _ = _BATCH.unpack_from(data, at)
    if found == mark and _BATCH.size <= size <= len(data) - at:
        batch = data[at : at + size]
        if crc32c(batch[CHECKED:]) == crc:
            return batch
    if not may_be_damaged(data, at, mark):
        return None
    try:
        mended = mended_batch(data, at, mark)
    except ValueError:
        _log.error("%s: a batch is damaged, %d bytes at %d: commits in it may be lost", path, size, at)
        return None
    if mended is not None:
        _log.warning("%s: the damaged batch at %d is mended", path, at)
    return mended


def _entries(data: bytes, at: int, count: int) -> Iterator[Entry]:
    for _ in range(count):
        key_size, segment, base, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        key = data[at : at + key_size]
        at += key_size
        yield Entry(key, segment, base, data[at : at + size])
        at += size


def journals(fs: FileSystem, folder: str) -> list[int]:
    """Return the numbers of the journals in the folder of a store."""
    return sorted(int(match[1]) for name in fs.list(folder) if (match := NAME.fullmatch(name)))


class Replayed(NamedTuple):
    """The result of a replay."""

    done: list[int]  # numbers of journals that are not needed any more
    failed: dict[str, StoreError]  # by the folder of a log: why it may miss what journals have
    touched: list[str]  # files that were written, or created


def replay(fs: FileSystem, folder: str, is_there: Callable[[str, str], bool]) -> Replayed:
    """Restore what the files of logs lost.

    `is_there` is called with the folder of a log and the id of its stream.  A log that cannot be read or
    written is reported, and the journals that mention it are kept for the next start.  Raises StoreError if a
    journal cannot be read, because then it is unknown which logs need it.
    """
    failed: dict[bytes, StoreError] = {}
    touched: list[str] = []  # files that were not synced by those who wrote them
    found = {
        number: list(read_batches(_read(fs, folder, number), journal_path(folder, number)))
        for number in journals(fs, folder)
    }
    batches = sorted((batch for each in found.values() for batch in each), key=lambda batch: batch[0])
    by_log: dict[bytes, list[Entry]] = {}
    for _, entries in batches:
        for entry in entries:
            by_log.setdefault(entry.key, []).append(entry)
    for key, entries in by_log.items():
        path, identity = _path_and_id(key)
        try:
            if _is_log(path) and is_there(f"{folder}/{path}", identity):
                touched += _replay_log(fs, f"{folder}/{path}", entries)
        except StoreError as error:
            failed[key] = error
            _log.error("commit journals are kept for the next start: %s", error)
    try:
        if touched and not fs.sync_all(folder, [os.path.dirname(path) for path in touched]):
            for path in touched:
                _sync(fs, path)
    except StoreError as error:
        _log.error("commit journals are kept for the next start: %s", error)
        return Replayed([], _by_folder(folder, failed), touched)
    done = [
        number
        for number, of_one in found.items()
        if not any(entry.key in failed for _, entries in of_one for entry in entries)
    ]
    return Replayed(done, _by_folder(folder, failed), touched)


def _read(fs: FileSystem, folder: str, number: int) -> bytes:
    path = journal_path(folder, number)
    try:
        return fs.read_all(path)
    except StoreError as error:
        raise StoreError(
            "replay",
            path,
            str(error),
            hint="it has what streams may have lost; move it away to start without that",
        ) from error


def _by_folder(folder: str, failed: dict[bytes, StoreError]) -> dict[str, StoreError]:
    return {f"{folder}/{_path_and_id(key)[0]}": error for key, error in failed.items()}


def _path_and_id(key: bytes) -> tuple[str, str]:
    path, _, identity = key.decode(errors="replace").partition("\0")
    return path, identity


def _is_log(path: str) -> bool:
    """Return True if a path is one of a log within a store."""
    return _LOG.fullmatch(path) is not None and not {"", ".", ".."} & set(path.split("/"))


def _sync(fs: FileSystem, path: str) -> None:
    file = fs.open(path, create=False)
    try:
        file.sync()
    finally:
        file.close()
    fs.sync_folder(os.path.dirname(path))


def _replay_log(fs: FileSystem, folder: str, entries: list[Entry]) -> list[str]:
    """Restore what the newest file of one log lost; return its path if the journal mentions it."""
    names = fs.list(folder)
    newest = max((int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name))), default=0)
    number = max(newest, 1)  # the first one may have been made without a sync
    # A file only grows.  Where a commit was tried again, it begins with what the first try had.
    wanted = sorted((entry for entry in entries if entry.segment == number), key=lambda entry: entry.base)
    if not wanted or summary_path(folder, number) in (f"{folder}/{name}" for name in names):
        return []
    is_new = not newest
    if is_new and wanted[0].base != 0:
        return []
    path = segment_path(folder, number)
    file = fs.open(path, create=is_new)
    try:
        written = sum(_put_back(file, path, entry) for entry in wanted)
        if written:
            _log.info("%s: %d bytes are put back from the commit journal", folder, written)
    finally:
        file.close()
    return [path]


def _put_back(file: File, path: str, entry: Entry) -> int:
    """Write the missing part of an entry to its file; return the number of bytes.

    If bytes before it are missing, too, a batch before it was damaged.  Zeros take their place, and the log
    reports them; what is behind is not lost with them.
    """
    size = file.size()
    missing = entry.base - size
    if missing > 0:
        _log.error("%s: %d bytes at %d are lost: no commit journal has them", path, missing, size)
        if missing > _MOST_MISSING:
            return 0
        file.append(bytes(missing))
        size = entry.base
    there = file.read(entry.base, len(entry.data))
    if there == entry.data:
        # Only memory may have them: the system forgets to write what a sync could not write once.
        file.overwrite(entry.base, there, sync=False)
        return 0
    data = bytes(entry.data)
    mended = bytearray(there + data[len(there) :])
    written = 0
    for start, end in _pieces(data, entry.base):
        found = _sound_size(file, there, start, entry.base)
        if found and found != end - start:
            return 0  # other records lie there: the log went on without this entry
        if not found:
            mended[start:end] = data[start:end]
            written += end - start
    inside = size - entry.base
    file.overwrite(entry.base, bytes(mended[:inside]), sync=False)
    if len(mended) > inside:
        file.append(bytes(mended[inside:]))
    return written


def _pieces(data: bytes, base: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the file's header, if the bytes include it, and of each record."""
    at = 0
    if base == 0:
        yield 0, FILE_HEADER_SIZE
        at = FILE_HEADER_SIZE
    record = Record()
    while at < len(data) and record.read(data, at, len(data), True, base) == WHOLE:
        yield at, at + record.size
        at += record.size


def _sound_size(file: File, there: bytes, start: int, base: int) -> int:
    """Return the size of the valid header or record at `start`; 0 if there is none."""
    if base + start == 0:
        return FILE_HEADER_SIZE if start_in_header(there[:FILE_HEADER_SIZE]) is not None else 0
    record = Record()
    found = record.read(there, start, len(there), True, base)
    if found == CUT and file.size() > base + len(there):  # a record that is longer than the entry
        rest = file.read(base + start, file.size() - base - start)
        found = record.read(rest, 0, len(rest), True, base + start)
    return record.size if found == WHOLE else 0


def make_journal(path: str, size: int, mark: bytes) -> int:
    """Create a journal without batches, durably; return its descriptor.  Raises OSError.

    Its blocks are allocated now, so that a batch needs no new ones.  They are not written, because streams
    wait for the file: the first batches take a little longer to sync than those after ``clear_journal``.  It
    fails on a nearly full disk, to leave the space to the streams.
    """
    disk = os.statvfs(os.path.dirname(path))
    if disk.f_bavail * disk.f_frsize < _ROOM_LEFT + size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o640)
    try:
        os.pwrite(descriptor, encode_header(mark), 0)
        os.posix_fallocate(descriptor, 0, size)
        os.fdatasync(descriptor)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        os.close(descriptor)
        os.unlink(path)
        raise
    return descriptor


def clear_journal(descriptor: int, end: int) -> None:
    """Overwrite all batches up to `end` with zeros, durably: nothing that was removed stays in a journal."""
    zeros = bytes(min(end - START, _PIECE))
    at = START
    while at < end:
        at += os.pwrite(descriptor, zeros[: end - at], at)
        os.fdatasync(descriptor)  # each piece: batches of the other journal wait for no more than that
