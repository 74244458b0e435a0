"""The reach of a log: the last sequence it may have used, if that is beyond its last record.

The log of a mirror ends with its last sound record after a damaged end, because its origin sends the rest
again, with the same sequences.  Clients may have seen those sequences here.  If the stream becomes
independent before it has all of them again, it must not give them to other messages.  So the file ``reach``
has the number, in decimal digits, until the log has passed it.
"""

from __future__ import annotations

from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem

NAME = "reach"


def read(fs: FileSystem, folder: str) -> int:
    """Return the reach of the log in `folder`; 0 if there is none, or it is unreadable."""
    if NAME not in fs.list(folder):
        return 0
    try:
        found = fs.read_all(f"{folder}/{NAME}")
    except StoreError:
        return 0
    return int(found) if found.isdigit() and len(found) < 20 else 0


def write(fs: FileSystem, folder: str, seq: int) -> None:
    """Remember a reach, durably.  Raises StoreError."""
    fs.replace(f"{folder}/{NAME}", b"%d" % seq)


def clear(fs: FileSystem, folder: str) -> None:
    """Forget the reach, because the log has passed it.  Raises StoreError."""
    fs.remove(f"{folder}/{NAME}")
