"""Remove files only from folders of ours, and only files that Millstream wrote.

An ``Owned`` lists every name that Millstream writes into one kind of folder (a stream, a backup, a batch of
a table).  A file with any other name was written by somebody else: it is never removed, and neither is the
folder that contains it.  Symbolic links are never ours and never followed.

Every removal of a folder in this project goes through this module (``docs/reliability.md``).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import operator
import os
import re
from collections.abc import Sequence
from typing import Final

_TOLERATED: Final = re.compile(r"\.nfs[0-9a-f]+")  # NFS: a file removed while it was open
_NAME: Final = operator.attrgetter("name")
_MOST_NAMED: Final = 5
_MOST_REMEMBERED: Final = 1024  # paths: folders of one kind have the same ones


class Owned:
    """The names that belong in one kind of folder, as paths relative to it.

    `files` and `folders` are regular expressions for whole paths: decoded names joined by slashes.
    """

    def __init__(self, files: str, folders: str = r"(?!)") -> None:
        self._file = functools.lru_cache(_MOST_REMEMBERED)(re.compile(files, re.DOTALL).fullmatch)
        self._folder = functools.lru_cache(_MOST_REMEMBERED)(re.compile(folders, re.DOTALL).fullmatch)

    def is_file(self, path: str) -> bool:
        """Return True if a file at this relative path is ours."""
        return self._file(path) is not None

    def knows(self, path: str) -> bool:
        """Return True if the file or folder at this relative path is ours."""
        return self.is_file(path) or self._folder(path) is not None

    def has(self, path: str, *, is_folder: bool, is_file: bool) -> bool:
        """Return True if what is at this path is ours, or tolerated; a link is neither folder nor file."""
        if is_folder:
            return self._folder(path) is not None
        return (is_file and self.is_file(path)) or _TOLERATED.fullmatch(os.path.basename(path)) is not None

    def strangers(self, folder: str | os.PathLike[str]) -> list[str]:
        """Return the relative paths of everything in `folder` that is not ours.

        Does not list the content of a folder that is not ours.  Raises OSError if a folder is unreadable.
        """
        return [path for path, _, is_ours in self._entries(folder) if not is_ours]

    def remove(self, folder: str | os.PathLike[str]) -> list[str]:
        """Remove our files and each folder that is then empty; return the paths of what stays.

        A missing folder is not an error.  The caller must know that `folder` itself is ours.
        """
        if os.path.islink(folder):
            return [os.path.basename(folder)]
        stay: list[str] = []
        folders: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            for path, entry, is_ours in self._entries(folder):
                if not is_ours:
                    stay.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(entry.path)
            for each in (*reversed(folders), folder):
                try:
                    os.rmdir(each)
                except OSError as error:
                    if not stay or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
        return stay

    def _entries(self, folder: str | os.PathLike[str]) -> list[tuple[str, os.DirEntry[str], bool]]:
        """Return everything in a folder, and whether it is ours; parents first.

        Leaves out the content of folders that are not ours.
        """
        found: list[tuple[str, os.DirEntry[str], bool]] = []
        self._gather(folder, "", found)
        return found

    def _gather(
        self,
        folder: str | os.PathLike[str],
        prefix: str,
        found: list[tuple[str, os.DirEntry[str], bool]],
    ) -> None:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=_NAME)
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                is_ours = self._folder(path) is not None
                found.append((path, entry, is_ours))
                if is_ours:
                    self._gather(entry.path, path + "/", found)
            elif not _TOLERATED.fullmatch(entry.name):
                found.append((path, entry, entry.is_file(follow_symlinks=False) and self.is_file(path)))


def few(names: Sequence[str]) -> str:
    """Return the first few names for a message, with control characters escaped."""
    shown = ", ".join(visible(name) for name in names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return shown if more <= 0 else f"{shown} and {more} more"


def visible(text: str) -> str:
    """Escape unprintable text: control characters, and bytes that are not UTF-8."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
