"""The folder in which a stream is created or restored, beside the others, until it is complete.

    <account>/staging/<id>/           log, meta and consumers, as in a stream's own folder

One rename turns it into a stream.  Folders found here at a start belong to an interrupted creation or restore
and are removed.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from millstream.base.owned import few
from millstream.jetstream.stream.meta import STREAM_FILES
from millstream.jsapi.enums import StorageType
from millstream.store.errors import StoreError
from millstream.store.recovery import open_log

if TYPE_CHECKING:
    from millstream.jsapi.stream_types import StreamConfig
    from millstream.store.fs import File, FileSystem
    from millstream.store.log import Log


_log = logging.getLogger("millstream.jetstream")


class Staging:
    """One stream that is being built."""

    def __init__(
        self, fs: FileSystem, memory: FileSystem, folder: str, target: str, config: StreamConfig
    ) -> None:
        self.folder = folder
        self.id = folder.rpartition("/")[2]  # id of the stream
        self.target = target  # its final folder
        self.in_memory = config.storage is StorageType.MEMORY
        self.log: Log | None = None
        self._disk = fs
        self.fs = memory if self.in_memory else fs

    def open_spool(self) -> File:
        """Create a file on disk for an archive that can be read only when it is complete."""
        self._disk.make_folder(self.folder)
        return self._disk.open(f"{self.folder}/archive.tar", create=True)

    def begin_log(self, first_seq: int) -> Log:
        self.log = open_log(self.fs, f"{self.folder}/log", first_seq=first_seq)
        return self.log

    def switch(self) -> None:
        """Rename the folder to the stream's; durable when this returns."""
        folder = self.target
        if self.in_memory:
            with contextlib.suppress(StoreError):  # an empty log has no file
                self.fs.rename(f"{self.folder}/log", f"{folder}/log")
            self._disk.remove_ours(self.folder, STREAM_FILES)
        else:
            self.fs.make_folder(folder.rpartition("/")[0])
            self.fs.rename(self.folder, folder)
            try:
                self.fs.sync_folder(folder.rpartition("/")[0])
            except StoreError:
                self.fs.rename(folder, self.folder)
                raise
        if self.log is not None:
            self.log.move(f"{folder}/log")

    def drop_spool(self) -> None:
        self._disk.remove(f"{self.folder}/archive.tar")

    def remove(self) -> None:
        """Remove everything that we wrote in the folder."""
        if self.log is not None:
            self.log.close()
        for fs in {id(fs): fs for fs in (self.fs, self._disk)}.values():
            left = fs.remove_ours(self.folder, STREAM_FILES)
            if left:
                _log.warning(
                    "%s is not removed: it contains files that Millstream did not write: %s",
                    self.folder,
                    few(left),
                )
