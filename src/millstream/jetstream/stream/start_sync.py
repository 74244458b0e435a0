"""Sync what a killed server may have left unsynced, before the streams found count as durable.

Each file and folder costs a flush of the disk, and a disk handles many at once: so all streams are synced
first, by several threads, and opened afterwards without waiting.  Meanwhile, what does not depend on it is
prepared.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from millstream.jetstream.stream.folder_listing import LOG, FolderListing
from millstream.store import unsynced
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem

_log = logging.getLogger("millstream.jetstream")

_MOST_THREADS: Final = 16
_FEW: Final = 16
_MOST_OPEN: Final = 2048  # files that stay open until their logs are opened


def sync_streams(
    fs: FileSystem,
    listings: Mapping[str, FolderListing],
    threads: int,
    *,
    killed: bool = True,
    opened: dict[str, File] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> set[str]:
    """Sync folders of streams; return those that are synced, without those that could not be.

    `listings` has their contents by their paths.  Many are synced together with the rest of their file
    system, which is one flush of the disk; then this thread calls `meanwhile`.  If the last server may have
    been `killed`, a sync of it may have failed that nobody noted (``store.unsynced``); files of streams' logs
    that were opened for that are added to `opened`, by their paths.
    """
    opened = {} if opened is None else opened

    def sync(folder: str) -> bool:
        try:
            _sync_stream(fs, folder, listings[folder], opened)
        except StoreError as error:
            _log.error("%s", error)
            return False
        return True

    if killed:
        listings = {
            folder: each for folder, each in listings.items() if _writes_ends_again(fs, folder, each, opened)
        }
    folders = list(listings)
    if len(listings) > _FEW:
        logs = [log for folder, listing in listings.items() for log in listing.logs(folder)]
        if _sync_all(fs, os.path.dirname(folders[0]), [*folders, *logs], threads, meanwhile):
            return set(folders)
    if threads < 2 or len(listings) < 2:
        return set(filter(sync, folders))
    with ThreadPoolExecutor(min(threads, len(listings), _MOST_THREADS), "millstream-start") as pool:
        return {folder for folder, done in zip(folders, pool.map(sync, folders), strict=True) if done}


def _sync_all(
    fs: FileSystem, folder: str, below: Sequence[str], threads: int, meanwhile: Callable[[], None]
) -> bool:
    """Sync a file system in a thread, and call `meanwhile`; return False if the sync failed."""
    if threads < 2:
        return fs.sync_all(folder, below)
    with ThreadPoolExecutor(1, "millstream-start") as pool:
        try:
            done = pool.submit(fs.sync_all, folder, below)
        except RuntimeError:  # the system has no more threads
            return fs.sync_all(folder, below)
        meanwhile()
        return done.result()


def _writes_ends_again(fs: FileSystem, folder: str, listing: FolderListing, opened: dict[str, File]) -> bool:
    """Write the ends of a stream's last segments again; return False if that fails."""
    try:
        for log, names in listing.logs(folder).items():
            last = max((name for name in names if name.endswith(".log")), default="")
            if last and f"{last[:-4]}.sum" not in names:
                path = f"{log}/{last}"
                file = unsynced.write_end_again(fs, path)
                if log == f"{folder}/{LOG}" and len(opened) < _MOST_OPEN:
                    opened[path] = file
                else:
                    file.close()
    except StoreError as error:
        _log.error("%s", error)
        return False
    return True


def _sync_stream(fs: FileSystem, folder: str, listing: FolderListing, opened: Mapping[str, File]) -> None:
    """Sync all names in the folder of a stream, and the segments that may have been growing."""
    fs.sync_folder(folder)
    for log, names in listing.logs(folder).items():
        for name in names:
            if name.endswith(".log") and f"{name[:-4]}.sum" not in names:
                path = f"{log}/{name}"
                _sync_file(fs, path, opened.get(path))
        if names:
            fs.sync_folder(log)


def _sync_file(fs: FileSystem, path: str, opened: File | None) -> None:
    if opened is not None:
        opened.sync()
        return
    file = fs.open(path, create=False)
    try:
        file.sync()
    finally:
        file.close()
