"""The file operations that a table needs, on local folders and on any file system of Hadoop's.

A path with a scheme other than ``file:`` goes through Hadoop's FileSystem in the driver's JVM, so that a
table can be on HDFS or in an object store.  Local folders use system calls, which can do one thing that
Hadoop cannot: exchange two folders in one step.

Not here: Parquet, Spark's DataFrames, and what the files mean (`table`).
"""

import ctypes
import errno
import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

from millstream.base.owned import Owned, few
from millstream.spark.jobs.errors import TableError

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2

# The files of a batch folder; and in the table's hidden folder everything except symbolic links.
BATCH_FILES: Final = Owned(r"\.?part-[^/]*\.parquet(\.crc)?|\.?_SUCCESS(\.crc)?")
_HIDDEN_FILES: Final = Owned(r".+", folders=r".+")


class Files(ABC):
    """File operations below `root`; paths are relative and use slashes, the empty path is the root."""

    root: str

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def folders(self, path: str) -> list[str]:
        """Return the sorted names of the folders in a folder; empty if it does not exist."""

    @abstractmethod
    def names(self, path: str) -> list[str]:
        """Return the sorted names of the files in a folder; empty if it does not exist."""

    @abstractmethod
    def read(self, path: str) -> str:
        """Return the text of a file; raise FileNotFoundError if it does not exist."""

    @abstractmethod
    def write(self, path: str, text: str) -> None:
        """Write a file atomically: readers see the old text or the new one."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Rename a folder to a name that is free; missing parents are created."""

    @abstractmethod
    def keep(self, folder: str) -> None:
        """Make the content of a folder survive a power loss, as far as the file system allows it."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""

    def at(self, path: str) -> str:
        """Return the whole path, for Spark."""
        return f"{self.root}/{path}" if path else self.root


class LocalFiles(Files):
    """A folder on this machine or on a mounted share."""

    def __init__(self, root: str) -> None:
        self.root = str(Path(root.removeprefix("file://").removeprefix("file:")).absolute())

    def path(self, path: str) -> Path:
        return Path(self.root, path) if path else Path(self.root)

    def exists(self, path: str) -> bool:
        return self.path(path).exists()

    def folders(self, path: str) -> list[str]:
        return self._entries(path, folders=True)

    def names(self, path: str) -> list[str]:
        return self._entries(path, folders=False)

    def read(self, path: str) -> str:
        return self.path(path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
        self.sync(target.parent)

    def move(self, source: str, target: str) -> None:
        destination = self.path(target)
        destination.parent.mkdir(parents=True, exist_ok=True)
        self.path(source).rename(destination)

    def keep(self, folder: str) -> None:
        for name in self.names(folder):
            self.sync(self.path(f"{folder}/{name}"))
        place = self.path(folder)
        for _ in range(len(Path(folder).parts) + 1):  # up to the root, because parents may be new too
            self.sync(place)
            place = place.parent

    def remove(self, path: str) -> None:
        target = self.path(path)
        if target.is_dir() and not target.is_symlink():
            left = (_HIDDEN_FILES if path.startswith("_") else BATCH_FILES).remove(target)
            if left:
                raise TableError(f"{target} holds what Millstream did not write, and stays: {few(left)}")
        else:
            target.unlink(missing_ok=True)

    def exchange(self, one: str, other: str) -> None:
        """Exchange two folders in one step: at no moment is one of them missing."""
        if not sys.platform.startswith("linux"):
            raise TableError("folders can only be exchanged in one step on Linux")
        libc = ctypes.CDLL(None, use_errno=True)
        first, second = (os.fsencode(self.path(path)) for path in (one, other))
        if libc.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE) != 0:
            code = ctypes.get_errno()
            if code in (errno.EINVAL, errno.ENOSYS):
                raise TableError(f"{self.root}: this file system cannot exchange folders in one step")
            raise OSError(code, os.strerror(code), str(self.path(one)))
        self.sync(self.path(other).parent)

    def sync(self, path: Path) -> None:
        """Make the bytes of a file, or the names in a folder, survive a power loss."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _entries(self, path: str, *, folders: bool) -> list[str]:
        try:
            with os.scandir(self.path(path)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir() is folders)
        except FileNotFoundError:
            return []


class HadoopFiles(Files):
    """A folder on a file system of Hadoop's, accessed through the driver's JVM."""

    def __init__(self, root: str, spark: Any) -> None:
        self.root = root.rstrip("/")
        self._jvm = spark._jvm
        self._configuration = spark._jsc.hadoopConfiguration()
        self._system = self._path("").getFileSystem(self._configuration)

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def folders(self, path: str) -> list[str]:
        return self._entries(path, folders=True)

    def names(self, path: str) -> list[str]:
        return self._entries(path, folders=False)

    def read(self, path: str) -> str:
        if not self.exists(path):
            path = _successor(path)  # a kill interrupted `write` before the rename
        if not self.exists(path):
            raise FileNotFoundError(self.at(path))
        stream = self._system.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write a complete successor before the old file is deleted: Hadoop does not rename onto a file."""
        replaced = self.exists(path)
        new = self._path(_successor(path) if replaced else f"{path}.new")
        stream = self._system.create(new, True)
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()
        if replaced:
            self._system.delete(self._path(path), False)
        self._rename(new, self._path(path))
        if not replaced:  # otherwise it would be read after this file is removed
            self._system.delete(self._path(_successor(path)), False)

    def move(self, source: str, target: str) -> None:
        self._system.mkdirs(self._path(target).getParent())
        self._rename(self._path(source), self._path(target))

    def keep(self, folder: str) -> None:
        """Do nothing: Hadoop's file system is responsible for a file that was closed."""

    def remove(self, path: str) -> None:
        self._system.delete(self._path(path), True)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._system.rename(source, target):
            raise TableError(f"{source.toString()} could not be renamed to {target.toString()}")

    def _entries(self, path: str, *, folders: bool) -> list[str]:
        if not self.exists(path):
            return []
        return sorted(
            str(status.getPath().getName())
            for status in self._system.listStatus(self._path(path))
            if bool(status.isDirectory()) is folders
        )

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.at(path))


def _successor(path: str) -> str:
    return f"{path}.next"


def is_local(root: str) -> bool:
    return "://" not in root or root.startswith("file://")


def open_files(root: str, spark: Any) -> Files:
    """Return the files below `root`."""
    return LocalFiles(root) if is_local(root) else HadoopFiles(root, spark)
