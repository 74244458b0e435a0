"""Notes beside segments whose sync failed: ``0000000005.unsynced``, an empty file.

After a failed sync, the system may drop what it could not write.  It can still be read, also by the next
process, and the next sync succeeds without it.  So whoever sees a sync fail leaves a note, and a start that
finds one writes the segment again before anything in it counts.

A note need not be durable: a power loss that takes it also takes what could be read but was not on disk.
"""

from __future__ import annotations

import contextlib

from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.unsynced"


def note(fs: FileSystem, folder: str, number: int) -> None:
    """Leave a note, or none if the disk does not allow it."""
    with contextlib.suppress(StoreError):
        fs.open(_path(folder, number), create=True).close()


def clear(fs: FileSystem, folder: str, number: int) -> None:
    """Remove the note, because the segment is durable.  One that stays does no harm."""
    with contextlib.suppress(StoreError):
        fs.remove(_path(folder, number))
