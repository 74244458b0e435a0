"""A file system in memory whose power can be cut and whose disk can fill up or fail.

It behaves like the worst disk that keeps its promises: synced data survives a crash; of everything else any
part may survive, or nothing.

    fs = CrashFileSystem()
    log = open_log(fs, "s")                  # ... append, commit
    fs.cut_power_at(fs.operations + 3)       # the third operation from here raises PowerCut
    survivor = fs.crash(Keep.SECTORS, Random(1))    # what a new process finds; `fs` is dead
    survivor = fs.kill()                            # if only the process had ended

Files are kept twice, as written and as durable; the difference is *dirty*, in sectors of 512 bytes.  Names
are kept twice as well, because creating, renaming and removing are durable only after the folder is synced.
After a failed sync, as on Linux, the dirty sectors are clean but not durable: they can still be read, and the
next sync covers them only if they are written again.

Every call that changes something is one operation, counted in `operations`; `transcript` lists them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from millstream.base.owned import Owned
from millstream.store.errors import StoreError
from millstream.store.fs import store_error

SECTOR = 512


class PowerCut(BaseException):
    """The machine stopped here.  A BaseException, so that no ordinary handler catches it."""


class Keep(Enum):
    """The unsynced bytes and names that survive a crash."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    PREFIX = "prefix"  # the first dirty sectors of each file and the first changes of names
    SECTORS = "sectors"  # a random subset


@dataclass(slots=True)
class InjectedFailure:
    """An operation that fails; of a write, the first half is done."""

    at: int  # number of the operation, from 1; 0: every one that matches
    error: int  # errno
    kind: str = ""  # `write`, `sync`, …; empty: any
    suffix: str = ""  # of the path
    within: str = ""  # a part of the path


@dataclass(eq=False, slots=True)
class _Inode:
    """The bytes of one file, independent of its name."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)  # sectors
    size_dirty: bool = False

    def write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        start = min(offset, len(self.data))
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
            self.size_dirty = True
        self.data[offset:end] = data
        self.dirty.update(range(start // SECTOR, (end + SECTOR - 1) // SECTOR))

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.size_dirty = True

    def sync(self) -> None:
        self._resize(len(self.data))
        for sector in self.dirty:
            self._settle(sector)
        self.forget()

    def forget(self) -> None:
        self.dirty.clear()
        self.size_dirty = False

    def _resize(self, size: int) -> None:
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))

    def _settle(self, sector: int) -> None:
        part = self.data[sector * SECTOR : (sector + 1) * SECTOR]
        start = sector * SECTOR
        room = max(len(self.durable) - start, 0)
        self.durable[start : start + len(part)] = part[:room]

    def after_crash(self, keep: Keep, random: Random) -> _Inode:
        dirty = sorted(self.dirty)
        if keep is Keep.EVERYTHING:
            kept = dirty
        elif keep is Keep.NOTHING:
            kept = []
        elif keep is Keep.PREFIX:
            kept = dirty[: random.randint(0, len(dirty))]
        else:
            kept = [sector for sector in dirty if random.random() < 0.5]
        if self.size_dirty and keep is Keep.EVERYTHING:
            self._resize(len(self.data))
        elif self.size_dirty and kept:
            # The size is written separately: up to the kept sectors, or further, which leaves zeros.
            least = min((kept[-1] + 1) * SECTOR, len(self.data))
            further = keep is Keep.SECTORS and random.random() < 0.5
            self._resize(max(len(self.data) if further else least, min(len(self.durable), len(self.data))))
        for sector in kept:
            self._settle(sector)
        return _Inode(bytearray(self.durable), bytearray(self.durable))


@dataclass(slots=True)
class _Change:
    """Names that were added or removed together; durable when one of the folders is synced."""

    names: dict[str, _Inode | None]
    folders: set[str]


class CrashFile:
    """An open file; unusable after a crash."""

    def __init__(self, fs: CrashFileSystem, path: str, inode: _Inode) -> None:
        self._fs = fs
        self._path = path
        self._inode = inode
        self._open = True
        self._end = self.filled = len(inode.data)  # the end of the records, followed by zeros
        self.path = path

    def append(self, data: bytes | memoryview) -> None:
        self.unfill()
        self._write("write", self._end, bytes(data))
        self.appended(len(data))

    def descriptor(self) -> int:
        """Return -1: there is none; ``write_at`` is for callers that write at the end themselves."""
        return -1

    def write_at(self, offset: int, data: bytes) -> None:
        self._write("write", offset, data)

    def appended(self, count: int) -> None:
        self._end += count
        self.filled = max(self.filled, self._end)

    def unfill(self) -> None:
        if self.filled > self._end:
            self._check()
            self._fs.operation("truncate", self._path)
            self._inode.truncate(self._end)
            self.filled = self._end

    def overwrite(self, offset: int, data: bytes, *, sync: bool = True) -> None:
        self._write("overwrite", offset, data)
        if sync:
            self._inode.sync()

    def _write(self, kind: str, offset: int, data: bytes) -> None:
        self._check()
        room = self._fs.room_for(self._inode, offset, len(data))
        try:
            self._fs.operation(kind, self._path)
            if room < len(data):
                raise store_error(kind, self._path, OSError(errno.ENOSPC, ""))
        except (StoreError, PowerCut):
            self._inode.write(offset, data[: min(room, len(data) // 2)])
            raise
        self._inode.write(offset, data)

    def sync(self) -> None:
        self._check()
        try:
            self._fs.operation("sync", self._path)
        except StoreError:
            self._inode.forget()
            raise
        self._inode.sync()

    def read(self, offset: int, size: int) -> bytes:
        self._check()
        return bytes(self._inode.data[offset : offset + size])

    def truncate(self, size: int) -> None:
        self._check()
        self._fs.operation("truncate", self._path)
        self._inode.truncate(size)
        self._inode.sync()
        self._end = self.filled = size

    def size(self) -> int:
        self._check()
        return self._end

    def close(self) -> None:
        if self._open and self._fs.alive:
            self.unfill()
        self._open = False

    def _check(self) -> None:
        assert self._open, f"{self._path} is used after it was closed"
        self._fs.check_alive()


class CrashFileSystem:
    """The file system; see the module.  `space` limits its bytes."""

    def __init__(self, *, space: int | None = None) -> None:
        self.space = space
        self.reserve = 0  # bytes of `space` reserved for writes that free more
        self.operations = 0
        self.transcript: list[str] = []
        self.failures: list[InjectedFailure] = []
        self._cut_at = 0
        self._dead = False
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._changes: list[_Change] = []  # of names, since the last sync of their folder

    # -- faults -----------------------------------------------------------------------------------

    def cut_power_at(self, operation: int) -> None:
        """Raise PowerCut in that operation (counted from 1); a write is then half done."""
        self._cut_at = operation

    def fail(self, error: int, *, at: int = 0, kind: str = "", suffix: str = "", within: str = "") -> None:
        """Make operations fail until ``heal``."""
        self.failures.append(InjectedFailure(at, error, kind, suffix, within))

    def heal(self) -> None:
        self.failures.clear()
        self.space = None

    def crash(self, keep: Keep, random: Random) -> CrashFileSystem:
        """Return what is found after the machine restarts.  This object and its files are dead."""
        self._dead = True
        names = dict(self._durable_names)
        changes = self._changes
        if keep is Keep.NOTHING:
            changes = []
        elif keep is Keep.PREFIX:
            changes = changes[: random.randint(0, len(changes))]
        elif keep is Keep.SECTORS:
            changes = [change for change in changes if random.random() < 0.5]
        for change in changes:
            _apply(names, change.names)
        survivor = type(self)()
        # In a fixed order, so that the same seed gives the same crash.
        inodes = {inode: inode.after_crash(keep, random) for inode in dict.fromkeys(names.values())}
        survivor._names = {path: inodes[inode] for path, inode in names.items()}
        survivor._durable_names = dict(survivor._names)
        return survivor

    def kill(self) -> CrashFileSystem:
        """Return what the next process finds if only this one is killed: all that was written.

        It is still not durable.  This object and its files are dead.
        """
        self._dead = True
        survivor = type(self)(space=self.space)
        survivor._names = self._names
        survivor._durable_names = self._durable_names
        survivor._changes = self._changes
        return survivor

    def operation(self, kind: str, path: str) -> None:
        """Count an operation; raise if it is to fail."""
        self.check_alive()
        self.operations += 1
        self.transcript.append(f"{kind} {path.rsplit('/', 1)[-1]}")
        if self.operations == self._cut_at:
            self._dead = True
            raise PowerCut(f"operation {self.operations}: {self.transcript[-1]}")
        for failure in self.failures:
            if failure.at not in (0, self.operations) or failure.kind not in ("", kind):
                continue
            if path.endswith(failure.suffix) and failure.within in path:
                raise store_error(kind, path, OSError(failure.error, ""))

    @property
    def alive(self) -> bool:
        return not self._dead

    def check_alive(self) -> None:
        if self._dead:
            raise PowerCut("there is no power")

    def room_for(self, inode: _Inode, offset: int, size: int) -> int:
        """Return how many of `size` bytes can be written at `offset`."""
        if self.space is None:
            return size
        used = sum(len(each.data) for each in set(self._names.values()))
        return min(size, max(len(inode.data) + self.space - used - offset, 0))

    def spend_reserve(self) -> bool:
        reserve, self.reserve = self.reserve, 0
        if self.space is not None:
            self.space += reserve
        return reserve > 0

    # -- damage, for tests ------------------------------------------------------------------------

    def paths(self) -> list[str]:
        return sorted(self._names)

    def damage(self, path: str, change: Callable[[bytearray], object]) -> None:
        """Change the bytes of a file directly, as damage would."""
        inode = self._names[path]
        change(inode.data)
        inode.durable = bytearray(inode.data)

    def lose(self, path: str) -> None:
        """Remove a file directly, as damage would."""
        del self._names[path]
        self._durable_names.pop(path, None)

    # -- the port ---------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool) -> CrashFile:
        self.check_alive()
        if path not in self._names:
            if not create:
                raise StoreError("open", path, "No such file")
            self.operation("create", path)
            self._change({path: _Inode()})
        return CrashFile(self, path, self._names[path])

    def read_all(self, path: str) -> bytes:
        file = self.open(path, create=False)
        return file.read(0, file.size())

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".new"
        try:
            self.operation("create", temporary)
            self._change({temporary: _Inode()})
            file = CrashFile(self, temporary, self._names[temporary])
            file.append(data)
            file.sync()
            self.rename(temporary, path)
        except StoreError:
            self._change({temporary: None})
            raise
        if sync:
            self.sync_folder(path.rsplit("/", 1)[0])

    def rename(self, old: str, new: str) -> None:
        self.operation("rename", new)
        if old in self._names:
            self._change({old: None, new: self._names[old]})
            return
        inside = {path: inode for path, inode in self._names.items() if path.startswith(old + "/")}
        if not inside:
            raise StoreError("rename", old, "No such file")
        moved = {new + path[len(old) :]: inode for path, inode in inside.items()}
        # Names whose removal is not durable leave with the folder, too.
        removed = [path for path in self._durable_names if path.startswith(old + "/")]
        self._change(dict.fromkeys([*inside, *removed]) | moved, (old, new))

    def remove(self, path: str) -> None:
        self.check_alive()
        if path in self._names:
            self.operation("remove", path)
            self._change({path: None})

    def list(self, folder: str) -> list[str]:
        self.check_alive()
        prefix = folder + "/"
        inside = (path[len(prefix) :] for path in self._names if path.startswith(prefix))
        return sorted({rest.split("/", 1)[0] for rest in inside})

    def folders(self, folder: str) -> Sequence[str]:
        return [name for name in self.list(folder) if f"{folder}/{name}" not in self._names]

    def make_folder(self, path: str, *, sync: bool = True) -> None:
        self.check_alive()

    def strangers(self, folder: str, owned: Owned) -> Sequence[str]:
        inside = (path[len(folder) + 1 :] for path in self._names if path.startswith(folder + "/"))
        return sorted(path for path in inside if not owned.is_file(path))

    def remove_ours(self, folder: str, owned: Owned) -> Sequence[str]:
        for path in [path for path in self._names if path.startswith(folder + "/")]:
            if owned.is_file(path[len(folder) + 1 :]):
                self.remove(path)
        return self.strangers(folder, owned)

    def sync_folder(self, path: str) -> None:
        self.operation("sync_folder", path)
        waiting, self._changes = self._changes, []
        for change in waiting:
            if path in change.folders:
                _apply(self._durable_names, change.names)
                for earlier in self._changes:  # as those of a folder that was renamed since
                    for name in change.names:
                        earlier.names.pop(name, None)
            else:
                self._changes.append(change)

    def sync_all(self, folder: str, below: Sequence[str]) -> bool:
        return False  # so that each sync is counted

    def _change(self, names: dict[str, _Inode | None], entries: Iterable[str] = ()) -> None:
        """Record a change of names; `entries` are the changed paths if they differ from the names."""
        _apply(self._names, names)
        self._changes.append(_Change(names, {entry.rsplit("/", 1)[0] for entry in entries or names}))


def _apply(names: dict[str, _Inode], change: dict[str, _Inode | None]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
