"""All disk access of the store, through a small port: real files, or files in memory.

``testing.crashfs`` is a third implementation that loses unsynced bytes.  Calls block; the callers decide in
which thread.  Errors are ``StoreError`` with the operation and the path.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Sequence
from typing import Final, Protocol, Self

from millstream.base.owned import Owned
from millstream.store.errors import StoreError
from millstream.store.positioned import WRITE_BYTES, read_at, write_at
from millstream.store.reserve import Reserve


class File(Protocol):
    """A file that grows at its end."""

    def append(self, data: bytes | memoryview) -> None:
        """Write all of `data` at the end; after an error, treat none of it as written."""

    def sync(self) -> None:
        """Return when everything written so far survives a power loss.

        After an error, data written since the last successful sync may be lost although it can still be read;
        the next sync covers only what is written again.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer at the end of the file."""

    def overwrite(self, offset: int, data: bytes, *, sync: bool = True) -> None:
        """Replace existing bytes; durably, unless the caller syncs."""

    def truncate(self, size: int) -> None:
        """Cut the file, durably."""

    def size(self) -> int: ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    """Folders and files by path."""

    def open(self, path: str, *, create: bool) -> File: ...

    def read_all(self, path: str) -> bytes: ...

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write `data` to `path`, completely or not at all; durably, unless the caller syncs the folder."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, or a folder with its content if `new` does not exist."""

    def remove(self, path: str) -> None: ...

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist."""

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder, without links and files."""

    def make_folder(self, path: str, *, sync: bool = True) -> None:
        """Create a folder and its parents if missing; durably, unless the caller syncs the parent."""

    def strangers(self, folder: str, owned: Owned) -> Sequence[str]:
        """Return the relative paths of everything in a folder that is not ours."""

    def remove_ours(self, folder: str, owned: Owned) -> Sequence[str]:
        """Remove a folder with all of our files; return what stays because it is not ours."""

    def sync_folder(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        """Make everything below a folder durable at once; return False if that is impossible or failed.

        `below` are the folders in it that matter.  It is impossible if one of them is on another disk.
        """

    def spend_reserve(self) -> bool:
        """Release the space reserved for writes that free more; return False if there is none (left)."""


_HINTS = {
    errno.ENOSPC: "free some space on this disk",
    errno.EACCES: "check the owner of the folder",
    errno.EROFS: "mount the file system for writing",
    errno.EMFILE: "raise the limit of open files",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EEXIST: "a file stands where a folder is needed",
}
_SHORT_FILE: Final = 16 * 1024  # bytes
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_MAY_HEAL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def store_error(op: str, path: str, error: OSError) -> StoreError:
    return StoreError(
        op,
        path,
        os.strerror(error.errno) if error.errno else str(error),
        hint=_HINTS.get(error.errno or 0, ""),
        recoverable=error.errno in _MAY_HEAL,
        full=error.errno in _NO_ROOM,
    )


def close_files(files: list[File]) -> None:
    """Close several files."""
    for file in files:
        file.close()


class RealFile:
    """A file of the operating system, opened once."""

    def __init__(self, path: str, *, create: bool) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            self._fd = fd = os.open(path, flags, 0o640)
            self._end = _size_of(fd)
        except OSError as error:
            raise store_error("open", path, error) from error
        self.filled = self._end  # up to where there are zeros (see ``fill``)
        self._device = -1

    @property
    def device(self) -> int:
        """Return the number of the file system that the file is on."""
        if self._device < 0:
            self._device = os.fstat(self._descriptor("look at")).st_dev
        return self._device

    def _descriptor(self, op: str) -> int:
        if self._fd < 0:
            raise StoreError(op, self.path, "it is closed")
        return self._fd

    def descriptor(self) -> int:
        """Return the descriptor, for a caller that writes at the end itself and then calls ``appended``."""
        return self._descriptor("write")

    def appended(self, count: int) -> None:
        self._end += count
        self.filled = max(self.filled, self._end)

    def unfill(self) -> None:
        """Cut off zeros that were written ahead; durable with the next sync."""
        if self.filled > self._end:
            fd = self._descriptor("truncate")
            try:
                os.ftruncate(fd, self._end)
            except OSError as error:
                raise store_error("truncate", self.path, error) from error
            self.filled = self._end

    def append(self, data: bytes | memoryview) -> None:
        fd = self._descriptor("write")
        self.unfill()
        try:
            write_at(fd, self._end, data)
        except OSError as error:
            raise store_error("write", self.path, error) from error
        self._end += len(data)  # only now: what a failed write left behind is overwritten by the next
        self.filled = self._end

    def sync(self) -> None:
        fd = self._descriptor("sync")
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise store_error("sync", self.path, error) from error

    def read(self, offset: int, size: int) -> bytes:
        try:
            return read_at(self._fd, offset, size)
        except OSError as error:
            self._descriptor("read")
            raise store_error("read", self.path, error) from error

    def overwrite(self, offset: int, data: bytes, *, sync: bool = True) -> None:
        fd = self._descriptor("overwrite")
        try:
            write_at(fd, offset, data)
            if sync:
                os.fdatasync(fd)
        except OSError as error:
            raise store_error("overwrite", self.path, error) from error

    def truncate(self, size: int) -> None:
        fd = self._descriptor("truncate")
        try:
            os.ftruncate(fd, size)
            os.fdatasync(fd)
        except OSError as error:
            raise store_error("truncate", self.path, error) from error
        self._end = self.filled = size

    def size(self) -> int:
        return self._end

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(StoreError):
                self.unfill()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _size_of(fd: int) -> int:
    """Return the size of a file that was just opened; close it if it has none.  Raises OSError.

    A start opens thousands of files, and ``os.fstat`` makes an object with all that is known of one.
    """
    try:
        return os.lseek(fd, 0, os.SEEK_END)
    except OSError:
        os.close(fd)
        raise


def _read_to_end(fd: int) -> bytes:
    """Read a whole file, with one call if it is short, and with four if it does not change meanwhile."""
    data = os.read(fd, _SHORT_FILE)
    if len(data) < _SHORT_FILE:
        return data
    size = os.lseek(fd, 0, os.SEEK_END)
    os.lseek(fd, 0, os.SEEK_SET)
    data = os.read(fd, size + 1)
    if len(data) == size:
        return data
    chunks = [data]
    while chunks[-1]:
        chunks.append(os.read(fd, WRITE_BYTES))
    return b"".join(chunks)


def _private(path: str, flags: int) -> int:
    """Open a file that only owner and group can read, whatever the umask."""
    return os.open(path, flags | os.O_CLOEXEC, 0o640)


class RealFileSystem:
    """The machine's disks."""

    def __init__(self, reserve: Reserve | None = None) -> None:
        self._reserve = reserve

    def spend_reserve(self) -> bool:
        return self._reserve is not None and self._reserve.spend()

    def open(self, path: str, *, create: bool) -> RealFile:
        return RealFile(path, create=create)

    def read_all(self, path: str) -> bytes:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _read_to_end(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise store_error("read", path, error) from error

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".new"
        try:
            with open(temporary, "wb", opener=_private) as file:
                file.write(data)
                file.flush()
                os.fdatasync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # what did not fit need not fill the disk
            raise store_error("replace", path, error) from error
        if sync:
            self.sync_folder(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(old, new)
        except OSError as error:
            raise store_error("rename", old, error) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise store_error("remove", path, error) from error

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise store_error("list", folder, error) from error

    def folders(self, folder: str) -> Sequence[str]:
        try:
            with os.scandir(folder) as scan:
                return sorted(entry.name for entry in scan if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise store_error("list", folder, error) from error

    def make_folder(self, path: str, *, sync: bool = True) -> None:
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        if above:
            self.make_folder(above, sync=sync)
        try:
            os.mkdir(path, mode=0o750)
        except FileExistsError:
            return
        except OSError as error:
            raise store_error("create", path, error) from error
        if sync:
            self.sync_folder(above)

    def strangers(self, folder: str, owned: Owned) -> Sequence[str]:
        try:
            return owned.strangers(folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise store_error("list", folder, error) from error

    def remove_ours(self, folder: str, owned: Owned) -> Sequence[str]:
        try:
            return owned.remove(folder)
        except OSError as error:
            raise store_error("remove", folder, error) from error

    def sync_folder(self, path: str) -> None:
        try:
            fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise store_error("sync", path, error) from error

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            device = os.fstat(fd).st_dev
            if _has_mounts(folder) and any(_device(each) not in (device, None) for each in below):
                return False
            return sync_file_system(fd) == 0
        except OSError:
            return False
        finally:
            os.close(fd)


def _has_mounts(folder: str) -> bool:
    """Return False if no other file system is mounted below a folder; True if one is, or nobody knows."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = [line.split(b" ", 5)[4] for line in file]
    except (OSError, IndexError):
        return True
    inside = os.path.join(os.fsencode(os.path.realpath(folder)), b"")
    return not mounts or any(_ESCAPED.sub(_unescaped, mount).startswith(inside) for mount in mounts)


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 8),))


def _device(path: str) -> int | None:
    """Return the number of the file system that a path is on; None if the path does not exist."""
    try:
        return os.stat(path).st_dev
    except FileNotFoundError:
        return None


def sync_file_system(descriptor: int) -> int:
    """Sync everything on the file system of this file; return the error number, or 0.

    Includes errors since the descriptor was opened.  Returns ENOSYS on systems that do not report those, and
    on file systems that may not pass the call on: FUSE and networks answer it without asking anybody.
    """
    if not _SYNCFS_TELLS:
        return errno.ENOSYS
    import ctypes  # only here, and seldom

    try:
        library = ctypes.CDLL(None, use_errno=True)
        about = ctypes.create_string_buffer(_ROOM_FOR_STATFS)
        if library.fstatfs(descriptor, about) < 0:
            return ctypes.get_errno()
        if ctypes.c_long.from_buffer(about).value not in _SYNCED_AS_A_WHOLE:
            return errno.ENOSYS
        return ctypes.get_errno() if library.syncfs(descriptor) < 0 else 0
    except (OSError, AttributeError):
        return errno.ENOSYS


def _syncfs_tells() -> bool:
    """Return True if the system's syncfs reports write errors."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return sys.platform == "linux" and release is not None and (int(release[1]), int(release[2])) >= (5, 8)


_SYNCFS_TELLS: Final = _syncfs_tells()
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")  # white space and backslashes in the paths of mounts
_ROOM_FOR_STATFS: Final = 512  # bytes, more than any system fills; the type is the first number
_SYNCED_AS_A_WHOLE: Final = frozenset(  # types of file systems
    (
        0xEF53,  # ext2 to ext4
        0x58465342,  # XFS
        0x9123683E,  # Btrfs
        0xF2F52010,  # F2FS
        0xCA451A4E,  # bcachefs
        0x2FC12FC1,  # ZFS
        0x01021994,  # tmpfs
        0x794C7630,  # overlay, which asks the file system below
    )
)


class FolderLock:
    """Keeps a second server out of a store; released when the process ends in any way."""

    @classmethod
    def existing(cls, folder: str) -> Self | None:
        """Take the lock if its file is there, without creating anything; return None if it is not."""
        try:
            is_there = stat.S_ISREG(os.lstat(os.path.join(folder, "lock")).st_mode)
        except OSError:
            return None
        return cls(folder) if is_there else None

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "lock")
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise store_error("open", self._path, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise StoreError(
                "open", folder, "another server uses this store", hint="stop it, or choose another store_dir"
            ) from None

    def release(self) -> None:
        os.close(self._fd)


class MemoryFile:
    """A file in memory."""

    def __init__(self) -> None:
        self._data = bytearray()

    def append(self, data: bytes | memoryview) -> None:
        self._data += data

    def sync(self) -> None:
        pass

    def read(self, offset: int, size: int) -> bytes:
        # No view: another thread may be writing, and a bytearray that is viewed cannot grow.
        return bytes(self._data[offset : offset + size])

    def overwrite(self, offset: int, data: bytes, *, sync: bool = True) -> None:
        self._data[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        del self._data[size:]

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None:
        pass


class MemoryFileSystem:
    """A file system in memory; folders are prefixes, and nothing survives the process."""

    def spend_reserve(self) -> bool:
        return False

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}

    def open(self, path: str, *, create: bool) -> MemoryFile:
        if path not in self._files:
            if not create:
                raise StoreError("open", path, "No such file")
            self._files[path] = MemoryFile()
        return self._files[path]

    def read_all(self, path: str) -> bytes:
        file = self.open(path, create=False)
        return file.read(0, file.size())

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        file = MemoryFile()
        file.append(data)
        self._files[path] = file

    def rename(self, old: str, new: str) -> None:
        if old in self._files:
            self._files[new] = self._files.pop(old)
            return
        inside = [path for path in list(self._files) if path.startswith(old + "/")]
        if not inside:
            raise StoreError("rename", old, "No such file")
        for path in inside:
            self._files[new + path[len(old) :]] = self._files.pop(path)

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def list(self, folder: str) -> list[str]:
        prefix = folder + "/"
        inside = (path[len(prefix) :] for path in list(self._files) if path.startswith(prefix))
        return sorted({rest.split("/", 1)[0] for rest in inside})

    def folders(self, folder: str) -> Sequence[str]:
        return [name for name in self.list(folder) if f"{folder}/{name}" not in self._files]

    def make_folder(self, path: str, *, sync: bool = True) -> None:
        pass

    def strangers(self, folder: str, owned: Owned) -> Sequence[str]:
        inside = (path[len(folder) + 1 :] for path in list(self._files) if path.startswith(folder + "/"))
        return sorted(path for path in inside if not owned.is_file(path))

    def remove_ours(self, folder: str, owned: Owned) -> Sequence[str]:
        for path in [path for path in list(self._files) if path.startswith(folder + "/")]:
            if owned.is_file(path[len(folder) + 1 :]):
                del self._files[path]
        return self.strangers(folder, owned)

    def sync_folder(self, path: str) -> None:
        pass

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        return True
