"""The names in the folder of a stream, listed once at a start."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.jetstream.stream.meta import STREAM_FILES
from millstream.store.fs import FileSystem

LOG = "log"
CONSUMERS = "consumers"
IDS = "ids"


class FolderListing:
    """The content of a stream's folder; `log`, `consumers` and `ids` are the names in its folders."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self.folder = folder
        self.names: Sequence[str] = fs.list(folder)
        self.log = self._inside(fs, LOG)
        self.consumers = self._inside(fs, CONSUMERS)
        self.ids = self._inside(fs, IDS)

    def _inside(self, fs: FileSystem, name: str) -> Sequence[str]:
        return fs.list(f"{self.folder}/{name}") if name in self.names else ()

    @property
    def logs(self) -> dict[str, Sequence[str]]:
        """Return the names in each folder with a log that exists, by its path."""
        inside = {LOG: self.log, CONSUMERS: self.consumers}
        return {f"{self.folder}/{name}": names for name, names in inside.items() if name in self.names}

    def has_ours(self) -> bool:
        """Return True if one of the files is ours; a folder without any is no stream."""
        if any(map(STREAM_FILES.is_file, self.names)):
            return True
        return any(STREAM_FILES.is_file(f"{LOG}/{name}") for name in self.log)
