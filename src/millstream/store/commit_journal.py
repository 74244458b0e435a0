"""The commit journal: small commits of many logs, made durable with one sync.

A commit that only appends to one file can go to the journal instead of syncing that file: its records are
written to the file without a sync, and once more to the journal, with one sync for all logs of a batch.  If
power goes, ``replay`` puts back what the files lost.  Journals are files of a fixed size, made of batches:

    +------------+---------+----------+-----------+-----------+-------+-------+---- …
    | "MSJ\\x01" | crc u32 | size u32 | count u32 | order u64 | entry | entry | zeros
    +------------+---------+----------+-----------+-----------+-------+-------+---- …
                 of the rest           of entries   rises               to a multiple of 4 KiB

    entry:  key length u16 | segment number u64 | base u64 | size u32 | key | bytes for the file at `base`

A batch begins at a multiple of 4 KiB, so that writing one never touches a sector of another.  A key is the
path of the log's folder within the store, a zero byte, and the id of its stream (``jetstream.meta``): a
stream that was deleted and made again under the same name is another one.

What ``replay`` does to a file is safe however old the journal is.  It looks at the newest segment of a log
only, because an older one was synced before the next one was made; and there it keeps every record that is
sound, also one that was erased since, and writes those that are not.

Not here: when commits go this way, and when a journal is not needed any more (``server.commit_journal``).
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from millstream.store.checksum import crc32c
from millstream.store.commit import segment_path, summary_path
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem
from millstream.store.record import WHOLE, Record
from millstream.store.segment import FILE_HEADER_SIZE, start_in_header

_log = logging.getLogger("millstream.store")

ALIGNMENT: Final = 4096
MAGIC: Final = b"MSJ\x01"
NAME: Final = re.compile(r"millstream-([0-9]{10})\.journal")
_BATCH: Final = struct.Struct("<4sIIIQ")
_CHECKED: Final = 8  # what lies before is not covered by the checksum
_ENTRY: Final = struct.Struct("<HQQI")
_SEGMENT: Final = re.compile(r"([0-9]{10})\.log")


def journal_path(folder: str, number: int) -> str:
    return f"{folder}/millstream-{number:010d}.journal"


class Entry(NamedTuple):
    """Bytes that belong into the file of a log."""

    key: bytes
    segment: int
    base: int
    data: bytes | memoryview


@dataclass(slots=True)
class Batch:
    """A batch as it is written, and where in it the bytes of each entry begin."""

    data: bytes
    starts: list[int]


def encode_batch(order: int, entries: Sequence[Entry]) -> Batch:
    parts: list[bytes | memoryview] = [b""]
    starts = []
    at = _BATCH.size
    for key, segment, base, data in entries:
        parts += (_ENTRY.pack(len(key), segment, base, len(data)), key, data)
        at += _ENTRY.size + len(key)
        starts.append(at)
        at += len(data)
    rest = _BATCH.pack(MAGIC, 0, at, len(entries), order)[_CHECKED:]
    parts[0] = rest
    body = b"".join(parts)
    return Batch(MAGIC + crc32c(body).to_bytes(4, "little") + body + bytes(-at % ALIGNMENT), starts)


def read_batches(data: bytes) -> Iterator[tuple[int, list[Entry]]]:
    """All sound batches of a journal, with their orders; those that are damaged or torn are left out."""
    at = 0
    while at + _BATCH.size <= len(data):
        magic, crc, size, count, order = _BATCH.unpack_from(data, at)
        body = data[at + _CHECKED : at + size]
        if magic != MAGIC or size < _BATCH.size or len(body) != size - _CHECKED or crc32c(body) != crc:
            at += ALIGNMENT
            continue
        yield order, list(_entries(data, at + _BATCH.size, count))
        at += size + -size % ALIGNMENT


def _entries(data: bytes, at: int, count: int) -> Iterator[Entry]:
    for _ in range(count):
        key_size, segment, base, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        key = data[at : at + key_size]
        at += key_size
        yield Entry(key, segment, base, data[at : at + size])
        at += size


def journals(fs: FileSystem, folder: str) -> list[int]:
    """The numbers of the journals in the folder of a store."""
    return sorted(int(match[1]) for name in fs.list(folder) if (match := NAME.fullmatch(name)))


def replay(fs: FileSystem, folder: str, is_there: Callable[[str, str], bool]) -> list[int]:
    """Put back what the files of logs lost; returns the numbers of journals that are not needed any more.

    `is_there` is asked with the folder of a log and the id of its stream.  A log that cannot be read or
    written is reported, and the journals that speak of it are kept for the next start.
    """
    found: dict[int, list[tuple[int, list[Entry]]]] = {}
    failed: set[bytes] = set()
    touched: list[str] = []  # files that were not synced by those who wrote them
    for number in journals(fs, folder):
        try:
            found[number] = list(read_batches(fs.read_all(journal_path(folder, number))))
        except StoreError as error:
            _log.error("a commit journal is kept for the next start: %s", error)
    batches = sorted((batch for each in found.values() for batch in each), key=lambda batch: batch[0])
    by_log: dict[bytes, list[Entry]] = {}
    for _, entries in batches:
        for entry in entries:
            by_log.setdefault(entry.key, []).append(entry)
    for key, entries in by_log.items():
        path, _, identity = key.decode(errors="replace").partition("\0")
        try:
            if is_there(f"{folder}/{path}", identity):
                touched += _replay_log(fs, f"{folder}/{path}", entries)
        except StoreError as error:
            failed.add(key)
            _log.error("commit journals are kept for the next start: %s", error)
    try:
        if touched and not fs.sync_all(folder):
            for path in touched:
                _sync(fs, path)
    except StoreError as error:
        _log.error("commit journals are kept for the next start: %s", error)
        return []
    return [
        number
        for number, of_one in found.items()
        if not any(entry.key in failed for _, entries in of_one for entry in entries)
    ]


def _sync(fs: FileSystem, path: str) -> None:
    file = fs.open(path, create=False)
    try:
        file.sync()
    finally:
        file.close()
    fs.sync_folder(os.path.dirname(path))


def _replay_log(fs: FileSystem, folder: str, entries: list[Entry]) -> list[str]:
    """Put back what the newest file of one log lost; returns its path if the journal speaks of it."""
    names = fs.list(folder)
    newest = max((int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name))), default=0)
    number = max(newest, 1)  # the first one may have been made without a sync
    wanted = [entry for entry in entries if entry.segment == number]
    if not wanted or summary_path(folder, number) in (f"{folder}/{name}" for name in names):
        return []
    is_new = not newest
    if is_new and wanted[0].base != 0:
        return []
    file = fs.open(segment_path(folder, number), create=is_new)
    try:
        written = sum(_put_back(file, entry) for entry in wanted)
        if written:
            _log.info("%s: %d bytes are put back from the commit journal", folder, written)
    finally:
        file.close()
    return [segment_path(folder, number)]


def _put_back(file: File, entry: Entry) -> int:
    """Write what is missing of an entry to its file; returns the number of bytes."""
    size = file.size()
    if entry.base > size:
        return 0  # what lies before it was lost, which no crash does
    there = file.read(entry.base, len(entry.data))
    if there == entry.data:
        return 0
    data = bytes(entry.data)
    mended = bytearray(there + data[len(there) :])
    written = 0
    for start, end in _pieces(data, entry.base):
        if not _is_sound(there[start:end], start, end, entry.base):
            mended[start:end] = data[start:end]
            written += end - start
    inside = size - entry.base
    file.overwrite(entry.base, bytes(mended[:inside]), sync=False)
    if len(mended) > inside:
        file.append(bytes(mended[inside:]))
    return written


def _pieces(data: bytes, base: int) -> Iterator[tuple[int, int]]:
    """Where the file's header, if the bytes have it, and each record begin and end."""
    at = 0
    if base == 0:
        yield 0, FILE_HEADER_SIZE
        at = FILE_HEADER_SIZE
    record = Record()
    while at < len(data) and record.read(data, at, len(data), True, base) == WHOLE:
        yield at, at + record.size
        at += record.size


def _is_sound(there: bytes, start: int, end: int, base: int) -> bool:
    if len(there) < end - start:
        return False
    if base + start == 0:
        return start_in_header(there) is not None
    record = Record()
    return record.read(there, 0, len(there), True, base + start) == WHOLE and record.size == end - start


def make_journal(path: str, size: int) -> int:
    """Make a journal full of zeros, durably; returns its descriptor.  OSError if it cannot be made.

    Its blocks are written now, so that a batch changes nothing but its own bytes, and its sync writes nothing
    else.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o640)
    try:
        clear_journal(descriptor, size)
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


def clear_journal(descriptor: int, size: int) -> None:
    """Overwrite the first `size` bytes with zeros, durably: nothing that was removed stays in a journal."""
    zeros = bytes(min(size, 1024 * 1024))
    at = 0
    while at < size:
        at += os.pwrite(descriptor, zeros[: size - at], at)
    os.fdatasync(descriptor)
