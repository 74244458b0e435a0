"""Local files of a table that survive a power loss once they are closed.

PyIceberg does not sync what it writes, while SQLite does sync the row that names it: after a power loss the
catalog could name a file that is empty.  A catalog uses this class by its property `py-io-impl`; places
other than local folders (S3 and the like) work as in PyIceberg.
"""

import os
from io import FileIO as RawFile
from pathlib import Path

from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from millstream.lake.places import is_local, local_path, sync_folder


class DurableFileIO(PyArrowFileIO):
    """PyIceberg's access to files, with local files that are synced when they are closed."""

    def new_output(self, location: str) -> OutputFile:  # type: ignore[override]
        if is_local(location):
            return DurableOutput(location, self.new_input(location))
        return super().new_output(location)


class DurableOutput(OutputFile):
    """A local file to write."""

    def __init__(self, location: str, same: InputFile) -> None:
        super().__init__(location)
        self._same = same

    def __len__(self) -> int:
        return len(self._same)

    def exists(self) -> bool:
        return self._same.exists()

    def to_input_file(self) -> InputFile:
        return self._same

    def create(self, overwrite: bool = False) -> OutputStream:
        place = local_path(self.location)
        place.parent.mkdir(parents=True, exist_ok=True)
        return SyncedFile(place, "wb" if overwrite else "xb")


class SyncedFile(RawFile):
    """A file that is synced, with its name, when it is closed."""

    def __init__(self, place: Path, mode: str) -> None:
        super().__init__(place, mode)
        self._folder = place.parent

    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
            super().close()
            sync_folder(self._folder)
