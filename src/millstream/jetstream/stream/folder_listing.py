"""The names in the folder of a stream, listed once at a start."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from millstream.jetstream.stream.meta import STREAM_FILES
from millstream.store.fs import FileSystem

LOG = "log"
CONSUMERS = "consumers"
IDS = "ids"
_INSIDE: Final = frozenset((LOG, CONSUMERS, IDS))
_FEW: Final = 32  # entries that many folders may have in common
_MOST_REMEMBERED: Final = 256  # listings


# An entry of the folder, or of one in it: the relative path, whether it is a folder, and whether it is a file
# (links and devices are neither).
_Entry = tuple[str, bool, bool]


class FolderListing(msgspec.Struct, frozen=True):
    """The content of a stream's folder; `log`, `consumers` and `ids` are the names in its folders."""

    names: Sequence[str]
    log: Sequence[str] = ()
    consumers: Sequence[str] = ()
    ids: Sequence[str] = ()
    strangers: Sequence[str] = ()  # relative paths of what is not ours, if somebody looked
    has_ours: bool = False  # one of the files is ours; a folder without any is no stream

    def logs(self, folder: str) -> dict[str, Sequence[str]]:
        """Return the names in each folder with a log that exists, by its path."""
        inside = {LOG: self.log, CONSUMERS: self.consumers}
        return {f"{folder}/{name}": names for name, names in inside.items() if name in self.names}


def list_stream(fs: FileSystem, folder: str) -> FolderListing:
    """List the folder of a stream; raise StoreError."""
    names = fs.list(folder)
    inside = {each: fs.list(f"{folder}/{each}") for each in _INSIDE.intersection(names)}
    return FolderListing(names, **inside, has_ours=_has_ours(names, inside.get(LOG, ())))


def scan_stream(folder: str) -> FolderListing:
    """List the folder of a stream on disk, with everything in it that is not ours; raise OSError.

    Streams with the same names in their folders share one listing.
    """
    entries: list[_Entry] = []
    for each in _scan(folder, "", entries):
        _scan(f"{folder}/{each}", f"{each}/", entries)
    return _remembered(tuple(entries)) if len(entries) <= _FEW else _listing(entries)


def _scan(folder: str, prefix: str, entries: list[_Entry]) -> list[str]:
    """Add the entries of a folder; return those that are folders of a stream."""
    folders = []
    with os.scandir(folder) as scan:
        for each in scan:
            is_folder = each.is_dir(follow_symlinks=False)
            if is_folder and each.name in _INSIDE:
                folders.append(each.name)
            entries.append(
                (prefix + each.name, is_folder, not is_folder and each.is_file(follow_symlinks=False))
            )
    return folders


def _listing(entries: Iterable[_Entry]) -> FolderListing:
    names: list[str] = []
    inside: dict[str, list[str]] = {each: [] for each in _INSIDE}
    strangers = []
    for path, is_folder, is_file in sorted(entries):
        folder, _, name = path.rpartition("/")
        (inside[folder] if folder else names).append(name)
        if not STREAM_FILES.has(path, is_folder=is_folder, is_file=is_file):
            strangers.append(path)
    return FolderListing(names, **inside, strangers=strangers, has_ours=_has_ours(names, inside[LOG]))


_remembered: Final = lru_cache(_MOST_REMEMBERED)(_listing)


def _has_ours(names: Sequence[str], log: Sequence[str]) -> bool:
    return any(map(STREAM_FILES.is_file, names)) or any(STREAM_FILES.is_file(f"{LOG}/{name}") for name in log)
