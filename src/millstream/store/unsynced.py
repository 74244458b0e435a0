"""Bytes that can be read and may never reach the disk, because a sync of their segment failed.

After a failed sync, the system may drop what it could not write.  It can still be read, also by the next
process, and the next sync succeeds without it.  Such bytes have to be written again before anything in them
counts.  A start finds them in two ways:

* ``0000000005.unsynced``, an empty file: the whole segment is written again.  It is made when a sync fails,
  and before a sync of more than ``MOST_IN_DOUBT`` bytes.
* The server was killed before it could make that file.  Then they are at the end of the last segment, not
  more than ``MOST_IN_DOUBT`` of them and the zeros behind.  ``write_end_again`` writes these.

Nothing of this need be durable: a power loss that takes a note also takes what could be read but was not on
disk.
"""

from __future__ import annotations

import contextlib

from millstream.store.errors import StoreError
from millstream.store.fill import MOST_AHEAD
from millstream.store.fs import File, FileSystem

MOST_IN_DOUBT = 192 * 1024  # bytes that are synced without a note


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.unsynced"


def note(fs: FileSystem, folder: str, number: int) -> None:
    """Leave a note.  Raises StoreError."""
    fs.open(_path(folder, number), create=True).close()


def try_to_note(fs: FileSystem, folder: str, number: int) -> None:
    """Leave a note, or none if the disk does not allow it."""
    with contextlib.suppress(StoreError):
        note(fs, folder, number)


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
    try:
        file.overwrite(start, file.read(start, file.size() - start), sync=False)
    except StoreError as error:
        if not error.full:
            raise
