"""A file system whose files cannot be read for a while."""

from __future__ import annotations

from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFileSystem


class BadDisk(MemoryFileSystem):
    """A disk that cannot be read while `broken`."""

    broken = False

    def open(self, path: str, *, create: bool):  # type: ignore[no-untyped-def]
        file = super().open(path, create=create)
        disk, read = self, file.read

        def read_or_fail(offset: int, size: int) -> bytes:
            if disk.broken:
                raise StoreError("read", path, "Input/output error", recoverable=True)
            return read(offset, size)

        file.read = read_or_fail  # type: ignore[method-assign]
        return file
