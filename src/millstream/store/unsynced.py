"""Bytes that can be read and may never reach the disk, because a sync of their segment failed.

After a failed sync, the system may drop what it could not write.  It can still be read, also by the next
process, and the next sync succeeds without it.  Such bytes have to be written again before anything in them
counts.  A start finds them in two ways:

* ``0000000005.unsynced``, a note: the segment is written again from the offset that it gives, or as a whole
  if it gives none, as those of earlier versions.  It is made when a sync fails, and before a sync of more
  than ``MOST_IN_DOUBT`` bytes; then it is renewed once in a MiB.
* The server was killed before it could make that file.  Then they are at the end of the last segment, not
  more than ``MOST_IN_DOUBT`` of them and the zeros behind.  ``write_end_again`` writes these.

Nothing of this need be durable: a power loss that takes a note also takes what could be read but was not on
disk.
"""

from __future__ import annotations

import contextlib
import re
import threading

from millstream.store.errors import StoreError
from millstream.store.fill import MOST_AHEAD
from millstream.store.fs import File, FileSystem

MOST_IN_DOUBT = 192 * 1024  # bytes that are synced without a note
_RENEWED_SHIFT = 20
_WHOLE = b"whole".ljust(21) + b"\n"
_OFFSET = re.compile(rb"([0-9]{10}) \1\n")
_writing = threading.Lock()  # a note: erasures and commits have their own threads


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.unsynced"


def is_due(synced: int, end: int, *, noted: bool) -> bool:
    """Return True if a note must be made or renewed before a segment is synced from `synced` to `end`."""
    if noted:
        return end >> _RENEWED_SHIFT > synced >> _RENEWED_SHIFT
    return end - synced > MOST_IN_DOUBT


def note(fs: FileSystem, folder: str, number: int, start: int | None = None) -> None:
    """Leave a note: what is before `start` is durable, or nothing is.  Raises StoreError.

    A note about the whole segment stays one.  On a full disk, a note may have no text, and then is one.
    """
    text = _WHOLE if start is None else b"%010d %010d\n" % (start, start)
    with _writing:
        file = fs.open(_path(folder, number), create=True)
        try:
            with contextlib.suppress(StoreError):
                if file.size() == 0:
                    file.append(text)
                elif file.read(0, len(_WHOLE)) != _WHOLE:
                    file.overwrite(0, text, sync=False)
        finally:
            file.close()


def try_to_note(fs: FileSystem, folder: str, number: int, start: int | None = None) -> None:
    """Leave a note, or none if the disk does not allow it."""
    with contextlib.suppress(StoreError):
        note(fs, folder, number, start)


def start_of(fs: FileSystem, folder: str, number: int) -> int:
    """Return the offset from which the segment of a note is written again."""
    try:
        found = _OFFSET.fullmatch(fs.read_all(_path(folder, number)))
    except StoreError:
        return 0
    return 0 if found is None else int(found[1])


def clear(fs: FileSystem, folder: str, number: int) -> None:
    """Remove the note, because the segment is durable.  One that stays does no harm."""
    with contextlib.suppress(StoreError):
        fs.remove(_path(folder, number))


def write_end_again(fs: FileSystem, path: str) -> File:
    """Write the end of a segment again, without a sync; return its open file.  Raises StoreError."""
    file = fs.open(path, create=False)
    try:
        write_again(file, max(0, file.size() - MOST_IN_DOUBT - MOST_AHEAD))
    except BaseException:
        file.close()
        raise
    return file


def write_again(file: File, start: int) -> None:
    """Write a file again from `start` on, without a sync.  Raises StoreError, but not for a full disk.

    Some systems need room to overwrite.  A server must start on a full disk, so that clients can read and
    remove.
    """
    start = min(start, file.size())
    try:
        file.overwrite(start, file.read(start, file.size() - start), sync=False)
    except StoreError as error:
        if not error.full:
            raise
