"""The disk of the simulated machine: ``CrashFileSystem`` with slow and failing operations drawn from a seed.

Its files pass for real ones, so that commits take the paths of real files: a write and a sync without the
interpreter, zeros ahead of the records, and the commit journal.
"""

from __future__ import annotations

import builtins
import errno
from collections.abc import Sequence
from random import Random

from millstream.store.errors import StoreError
from millstream.store.fs import RealFile, store_error
from millstream.store.layout import FIRST_RECORD
from tests.kits.crashfs import SECTOR, CrashFile, CrashFileSystem, Keep, PowerCut, _Inode

DEVICE = 1


class Killed(PowerCut):
    """The process ended here; the system did not."""


_FIRST_DESCRIPTOR = 1_000_000  # no descriptor of this process


class SimFile(CrashFile, RealFile):
    """A file that has a descriptor, which only ``SimDisk.file`` understands."""

    device = DEVICE

    def write_page(self, offset: int, data: bytes) -> None:
        """Write bytes of one page: a system knows all of them or none, and its size of the file, too."""
        self._check()
        if self._fs.room_for(self._inode, offset, len(data)) < len(data):
            raise store_error("write", self.path, OSError(errno.ENOSPC, ""))
        self._fs.operation("write", self.path)
        self._inode.write(offset, data)

    def sync(self) -> None:
        disk = self._fs
        assert isinstance(disk, SimDisk)
        if self._inode in disk.unreported:
            disk.unreported.discard(self._inode)
            disk.failed_syncs += 1
            disk.operation("sync", self.path)
            raise store_error("sync", self.path, OSError(errno.EIO, ""))
        try:
            super().sync()
        except StoreError:
            disk.failed_syncs += 1
            if disk.kills:
                raise Killed("in a sync that fails") from None
            raise

    def read(self, offset: int, size: int) -> bytes:
        disk = self._fs
        if isinstance(disk, SimDisk) and disk.unreadable and disk.unreadable_within in self.path:
            raise store_error("read", self.path, OSError(errno.EIO, ""))
        return super().read(offset, size)

    def descriptor(self) -> int:
        disk = self._fs
        assert isinstance(disk, SimDisk)
        return disk.number(self)


class SimDisk(CrashFileSystem):
    """Files of ``SimFile``; counts what it did, over all lives of the server."""

    def __init__(self, *, space: int | None = None) -> None:
        super().__init__(space=space)
        self.unreadable = False  # every read fails
        self.unreadable_within = ""  # or only reads of files with this part in their paths
        self.fails_once = False  # what fails works again the next time
        self.refused = 0  # operations that were to fail
        self.kills = False  # a sync that fails kills the process before it returns
        self.unreported: set[_Inode] = set()  # of files whose next sync reports that writes have failed
        self.failed_syncs = 0  # a file system tells of them once through each open file (``sync_since``)
        self._told: dict[int, int] = {}  # how many, by descriptor
        self._cut_within = ("", 0)  # a part of paths, and at which operation on them power goes
        self._files: list[SimFile] = []
        self._numbers: dict[SimFile, int] = {}

    def cut_power_within(self, part: str, operations: int) -> None:
        """Raise PowerCut in that operation, from now, on a path with this part."""
        self._cut_within = (part, operations)

    def operation(self, kind: str, path: str) -> None:
        part, left = self._cut_within
        if left and part in path:
            self._cut_within = (part, left - 1)
            if left == 1:
                self.cut_power_at(self.operations + 1)
        try:
            super().operation(kind, path)
        except StoreError:
            self._refuse()
            raise

    def _refuse(self) -> None:
        self.refused += 1
        if self.fails_once:
            self.failures.clear()

    def _look(self, kind: str, path: str) -> None:
        """Fail as an operation does that changes nothing; these are not counted."""
        for failure in self.failures:
            if failure.kind == kind and failure.within in path:
                self._refuse()
                raise store_error(kind, path, OSError(failure.error, ""))

    def open(self, path: str, *, create: bool) -> SimFile:
        self._look("open", path)
        found = super().open(path, create=create)
        return SimFile(self, path, found._inode)

    def list(self, folder: str) -> builtins.list[str]:
        self._look("list", folder + "/")
        return super().list(folder)

    def number(self, file: SimFile) -> int:
        if file not in self._numbers:
            self._numbers[file] = _FIRST_DESCRIPTOR + len(self._files)
            self._told[self._numbers[file]] = self.failed_syncs
            self._files.append(file)
        return self._numbers[file]

    def file(self, descriptor: int) -> SimFile:
        return self._files[descriptor - _FIRST_DESCRIPTOR]

    def sync_since(self, descriptor: int) -> int:
        """Make everything durable; return the error number of a sync that failed since the last call, or 0.

        So does Linux, if somebody else was told of that failure, too.
        """
        error = self.sync_everything()
        told, self._told[descriptor] = self._told[descriptor], self.failed_syncs
        return error or (errno.EIO if told != self.failed_syncs else 0)

    def sync_everything(self) -> int:
        """Make all files and names durable, as syncfs does; return the error number, or 0."""
        try:
            self.operation("sync", "all")
        except StoreError:
            self.failed_syncs += 1
            for inode in self._names.values():
                if inode.dirty or inode.size_dirty:
                    self.unreported.add(
                        inode
                    )  # as Linux does: syncfs reports the error, and each file does, too
                inode.forget()
            return errno.EIO
        for inode in self._names.values():
            inode.sync()
        self._durable_names = dict(self._names)
        self._changes.clear()
        return 0

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        return self.sync_everything() == 0

    def kill(self) -> CrashFileSystem:
        survivor = super().kill()
        assert isinstance(survivor, SimDisk)
        survivor.unreported = self.unreported
        return survivor

    def heal(self) -> None:
        super().heal()
        self.unreadable = self.kills = self.fails_once = False
        self.unreadable_within = ""

    @property
    def sound(self) -> bool:
        return not self.failures and self.space is None and not self.unreadable

    def rot(
        self, random: Random, header_of: str = "", within: str = "/streams/", *, sector: bool = False
    ) -> str | None:
        """Change one byte of a file of messages, consumers, or metadata; return its path.

        With `header_of`, the byte is in the header of a file of this stream's messages, if it has one.  With
        `within`, only files with this part in their paths are damaged; with `sector`, a whole one is zeroed.
        """
        paths = [path for path in self.paths() if within in path and self._names[path].data]
        if not paths:
            return None
        # Messages first: there is more of them, and there is most to lose.
        messages = [path for path in paths if path.endswith(".log") and "/log/" in path]
        path = random.choice(messages if messages and random.random() < 0.6 else paths)
        files = [path for path in messages if header_of and f"/streams/{header_of}/log/" in path]
        path = random.choice(files) if files else path
        at = random.randrange(min(len(self._names[path].data), FIRST_RECORD if files else 1 << 40))

        def flip(data: bytearray) -> None:
            data[at] ^= 1 << random.randrange(8)

        inode = self._names[path]
        if sector:
            self._zero(inode, at // SECTOR * SECTOR)
            return path
        flip(inode.data)
        if at < len(inode.durable):
            inode.durable[at] = inode.data[at]
        return path

    def _zero(self, inode: _Inode, start: int) -> None:
        for data in (inode.data, inode.durable):
            end = min(start + SECTOR, len(data))
            if start < end:
                data[start:end] = bytes(end - start)

    def has(self, part: bytes, within: str) -> str:
        """Return the path, with `within` in it, of a file with these bytes; empty if there is none."""
        for path, inode in self._names.items():
            if within in path and part in inode.data:
                return path
        return ""

    def used(self) -> int:
        return sum(len(each.data) for each in set(self._names.values()))


def power_cut(disk: SimDisk, random: Random, keep: Keep | None = None) -> SimDisk:
    """Return the disk that the next life finds after a power cut; without `keep`, chance decides."""
    return disk.crash(keep or random.choice(list(Keep)), random)
