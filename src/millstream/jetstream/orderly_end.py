"""The mark of a server that stopped in order: ``<store_dir>/jetstream/<account>/stopped``, an empty file.

It tells the next start that everything of the account is synced, or in a commit journal, so that nothing has
to be written again (``store.unsynced``).  The mark need not be durable, nor its removal: after a power loss,
everything that can be read is on disk.
"""

from __future__ import annotations

import contextlib
from typing import Final

from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem

NAME: Final = "stopped"


def leave(fs: FileSystem, folder: str) -> None:
    """Make the mark in the folder of an account, if it has one and the disk allows it."""
    with contextlib.suppress(StoreError):
        if fs.list(folder):
            fs.open(f"{folder}/{NAME}", create=True).close()


def take(fs: FileSystem, folder: str) -> bool:
    """Remove the mark; return False if there was none.  Raises StoreError: a mark that stays would lie."""
    if NAME not in fs.list(folder):
        return False
    fs.remove(f"{folder}/{NAME}")
    return True
