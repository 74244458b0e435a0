"""Sync what a killed server may have left unsynced, before the streams found count as durable.

Each file and folder costs a flush of the disk, and a disk handles many at once: so all streams are synced
first, by several threads, and opened afterwards without waiting.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from millstream.jetstream.stream.folder_listing import FolderListing
from millstream.store import unsynced
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem

_log = logging.getLogger("millstream.jetstream")

_MOST_THREADS: Final = 16
_FEW: Final = 16


def sync_streams(
    fs: FileSystem, listings: Mapping[str, FolderListing], threads: int, *, killed: bool = True
) -> set[str]:
    """Sync folders of streams; return those that are synced, without those that could not be.

    `listings` has their contents by their paths.  Many are synced together with the rest of their file
    system, which is one flush of the disk.  If the last server may have been `killed`, a sync of it may have
    failed that nobody noted (``store.unsynced``).
    """

    def sync(folder: str) -> bool:
        try:
            sync_stream(fs, folder, listings[folder])
        except StoreError as error:
            _log.error("%s", error)
            return False
        return True

    if killed:
        listings = {folder: each for folder, each in listings.items() if _writes_ends_again(fs, folder, each)}
    folders = list(listings)
    if len(listings) > _FEW:
        logs = [log for folder, listing in listings.items() for log in listing.logs(folder)]
        if fs.sync_all(os.path.dirname(folders[0]), [*folders, *logs]):
            return set(folders)
    if threads < 2 or len(listings) < 2:
        return set(filter(sync, folders))
    with ThreadPoolExecutor(min(threads, len(listings), _MOST_THREADS), "millstream-start") as pool:
        return {folder for folder, done in zip(folders, pool.map(sync, folders), strict=True) if done}


def _writes_ends_again(fs: FileSystem, folder: str, listing: FolderListing) -> bool:
    """Write the ends of a stream's last segments again; return False if that fails."""
    try:
        for log, names in listing.logs(folder).items():
            last = max((name for name in names if name.endswith(".log")), default="")
            if last and f"{last[:-4]}.sum" not in names:
                unsynced.write_end_again(fs, f"{log}/{last}")
    except StoreError as error:
        _log.error("%s", error)
        return False
    return True


def sync_stream(fs: FileSystem, folder: str, listing: FolderListing) -> None:
    """Sync all names in the folder of a stream, and the segments that may have been growing."""
    fs.sync_folder(folder)
    for log, names in listing.logs(folder).items():
        for name in names:
            if name.endswith(".log") and f"{name[:-4]}.sum" not in names:
                _sync_file(fs, f"{log}/{name}")
        if names:
            fs.sync_folder(log)


def _sync_file(fs: FileSystem, path: str) -> None:
    file = fs.open(path, create=False)
    try:
        file.sync()
    finally:
        file.close()
