"""A FUSE file system that forgets what was not synced when it is told to: ``python -m tests.power.volume``.

    python -m tests.power.volume MOUNT_POINT SOCKET

The kernel passes every write on at once, and caches nothing (`direct_io`).  What survives a power cut is
decided by ``tests.kits.crashfs``: synced bytes and names do; of all others any sectors may, or none.

Commands, one line each, to the socket; each is answered with one line:

    watch PID        the process that runs on this volume
    cut N            power goes at the N-th operation from now: the process is killed, everything else fails
    fail KIND        operations of this kind fail with EIO: write, sync, create, rename …
    full BYTES       so many bytes are left on the disk
    heal             nothing fails any more
    restart SEED     power is back; the seed decides what survived

Folders are durable at once, and so is their removal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import mfusepy

from millstream.store.errors import StoreError
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut, _Inode

BLOCKS = 1 << 24  # of 4096 bytes, of which all are free


class Volume(mfusepy.Operations):  # type: ignore[misc]
    """The file system."""

    use_ns = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._disk = CrashFileSystem()
        self._folders = {"/"}
        self._files: dict[int, _Inode] = {}
        self._last_file = 0
        self._watched = 0

    def init_with_config(self, connection: Any, config: Any) -> None:
        if config is not None:
            config.direct_io = 1
            config.attr_timeout = config.entry_timeout = 0.0

    @contextmanager
    def _operation(self, kind: str, path: str) -> Iterator[None]:
        """Count an operation; turn what goes wrong into an error of the system."""
        with self._lock:
            try:
                if kind:
                    self._disk.operation(kind, path)
                else:
                    self._disk.check_alive()
                yield
            except PowerCut:
                if self._watched:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._watched, signal.SIGKILL)
                    self._watched = 0
                raise mfusepy.FuseOSError(errno.EIO) from None
            except StoreError:
                raise mfusepy.FuseOSError(errno.EIO) from None

    # -- commands ---------------------------------------------------------------------------------

    def command(self, line: str) -> str:
        word, _, rest = line.strip().partition(" ")
        with self._lock:
            disk = self._disk
            if word == "watch":
                self._watched = int(rest)
            elif word == "cut":
                disk.cut_power_at(disk.operations + int(rest))
            elif word == "fail":
                disk.fail(errno.EIO, kind=rest)
            elif word == "full":
                disk.space = sum(len(each.data) for each in set(disk._names.values())) + int(rest)
            elif word == "heal":
                disk.heal()
            elif word == "restart":
                random = Random(int(rest))
                self._disk = disk.crash(random.choice(list(Keep)), random)
                self._files.clear()
            else:
                return f"unknown command {word!r}"
            return f"ok {disk.operations}"

    # -- names ------------------------------------------------------------------------------------

    def _inode(self, path: str, handle: int | None = None) -> _Inode:
        found = self._files.get(handle) if handle else None
        found = found or self._disk._names.get(path)
        if found is None:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return found

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        with self._lock:
            if path in self._folders:
                return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            size = len(self._inode(path, fh).data)
        return {
            "st_mode": stat.S_IFREG | 0o640,
            "st_nlink": 1,
            "st_size": size,
            "st_blocks": (size + 511) // 512,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
        }

    def readdir(self, path: str, fh: int) -> list[str]:
        prefix = path.rstrip("/") + "/"
        with self._lock:
            inside = [*self._disk._names, *self._folders]
        names = {each[len(prefix) :].split("/")[0] for each in inside if each.startswith(prefix)}
        return [".", "..", *sorted(names - {""})]

    def mkdir(self, path: str, mode: int) -> None:
        with self._operation("", path):
            if path in self._folders:
                raise mfusepy.FuseOSError(errno.EEXIST)
            self._folders.add(path)

    def rmdir(self, path: str) -> None:
        with self._operation("", path):
            if len(self.readdir(path, 0)) > 2:
                raise mfusepy.FuseOSError(errno.ENOTEMPTY)
            self._folders.discard(path)

    def unlink(self, path: str) -> None:
        with self._operation("remove", path):
            self._inode(path)
            self._disk._change({path: None})

    def rename(self, old: str, new: str) -> None:
        with self._operation("", old):
            if old in self._folders:
                if new in self._folders and len(self.readdir(new, 0)) > 2:
                    raise mfusepy.FuseOSError(errno.ENOTEMPTY)
                moved = {each for each in self._folders if each == old or each.startswith(old + "/")}
                self._folders -= moved
                self._folders |= {new + each[len(old) :] for each in moved}
                if not any(each.startswith(old + "/") for each in self._disk._names):
                    return
            self._disk.rename(old, new)

    # -- files ------------------------------------------------------------------------------------

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        with self._operation("create", path):
            self._disk._change({path: _Inode()})
            return self._handle(path)

    def open(self, path: str, flags: int) -> int:
        with self._operation("", path):
            if flags & os.O_TRUNC:
                self._inode(path).truncate(0)
            return self._handle(path)

    def _handle(self, path: str) -> int:
        self._last_file += 1
        self._files[self._last_file] = self._inode(path)
        return self._last_file

    def release(self, path: str, fh: int) -> None:
        with self._lock:
            self._files.pop(fh, None)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        with self._operation("", path):
            return bytes(self._inode(path, fh).data[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with self._lock:
            inode = self._inode(path, fh)
            room = self._disk.room_for(inode, offset, len(data))
            if room < len(data):
                raise mfusepy.FuseOSError(errno.ENOSPC)
            try:
                with self._operation("write", path):
                    inode.write(offset, data)
            except mfusepy.FuseOSError:
                inode.write(offset, data[: len(data) // 2])
                raise
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        with self._operation("truncate", path):
            inode = self._inode(path, fh)
            if length < len(inode.data):
                inode.truncate(length)
            elif length > len(inode.data):
                inode.write(len(inode.data), bytes(length - len(inode.data)))

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        with self._lock:
            inode = self._inode(path, fh)
            try:
                with self._operation("sync", path):
                    inode.sync()
            except mfusepy.FuseOSError:
                inode.forget()
                raise

    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        with self._operation("", path):
            self._disk.sync_folder(path.rstrip("/"))

    def flush(self, path: str, fh: int) -> None:
        """Accept the end of a use; nothing becomes durable by it."""

    def chmod(self, path: str, mode: int) -> None:
        """Accept any mode."""

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Accept any owner."""

    def utimens(self, path: str, times: Any = None) -> None:
        """Accept any time."""

    def statfs(self, path: str) -> dict[str, int]:
        return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": BLOCKS, "f_bavail": BLOCKS, "f_bfree": BLOCKS}


def serve(volume: Volume, listener: socket.socket) -> None:
    """Answer commands."""
    while True:
        peer, _ = listener.accept()
        with peer, peer.makefile("rw") as lines:
            for line in lines:
                lines.write(volume.command(line) + "\n")
                lines.flush()


def main(mount_point: str, path: str) -> None:
    volume = Volume()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()  # before the volume is there, which says that commands are answered
    threading.Thread(target=serve, args=(volume, listener), daemon=True).start()
    mfusepy.FUSE(volume, mount_point, foreground=True, nothreads=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
