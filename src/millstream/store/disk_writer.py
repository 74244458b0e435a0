"""A thread that seals, writes and syncs records, and needs the interpreter for none of it.

A thread of Python's has to get the interpreter lock before each step and competes for it with the event
loop, twice for every commit; that would be most of the time to an acknowledgement.  Here the loop leaves
a pointer and a byte in a pipe, and finds a byte in another pipe when it is done:

    loop      begin(descriptor, buffer) ── byte ──▶  thread   checksums, pwrite, fdatasync
              collect()                 ◀── byte ──

Blocks of the file are allocated ahead, so that a sync need not find some: half of its time on some disks.

One write at a time.  Only for bytes at the end of a file that is there; whatever else a commit may have to
do is ``Commit.run``'s.  Uncompiled it is an ordinary thread that does the same.
"""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING, Any, Final

import cython

if cython.compiled:
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.millstream.store.record import seal_records
    from cython.cimports.posix.unistd import fdatasync, pwrite, read, write
else:
    from millstream.store.record import seal_records

    fallocate: Any = None  # of the system, see the .pxd
    fstat: Any = None
    fstatvfs: Any = None
    FALLOC_FL_KEEP_SIZE: Any = None

from millstream.store.positioned import WRITE_BYTES

if TYPE_CHECKING:
    from millstream.store.record import RecordBuffer

_GO: Final = b"g"
_QUIT: Final = b"q"
_GO_BYTE = _GO[0]
_IO_ERROR: Final = 5  # EIO
_PIECE = WRITE_BYTES
_SMALL_FILE = 64 * 1024  # bytes; a file that is smaller gets blocks as it needs them
_MOST_AHEAD = 4 * 1024 * 1024
_BLOCK = 512  # bytes, in which stat counts
_FULL_DISK = 1024 * 1024 * 1024  # with less free, what is there is left to whoever writes


def allocate_ahead(descriptor: int, buffer: RecordBuffer) -> None:
    """Allocate blocks for the records, and some more if the file may grow, without changing the file's size.

    Nothing happens where that is not possible; compiled, with Linux, and for files that are not small.
    """
    base, size, room = buffer.base, buffer.size, buffer.room
    with cython.nogil:
        _allocate(descriptor, base, size, room)


def _allocate(descriptor: int, base: int, size: int, room: int) -> None:
    """Allocate at most a quarter of the file ahead, and nothing on a full disk."""
    file: Any
    disk: Any
    if cython.compiled:
        end = base + size
        if end < _SMALL_FILE or fstat(descriptor, cython.address(file)) or file.st_blocks * _BLOCK >= end:  # noqa: F821
            return
        if fstatvfs(descriptor, cython.address(disk)) or disk.f_bavail * disk.f_frsize <= _FULL_DISK:  # noqa: F821
            return
        ahead = min(min(end // 4, _MOST_AHEAD), room)
        fallocate(descriptor, FALLOC_FL_KEEP_SIZE, base, size + ahead)


class DiskWriter:
    """Idle, or busy with one write; only the loop's thread calls it."""

    def __init__(self, name: str) -> None:
        self._wake_end, self._wake = os.pipe()
        try:
            self._done, self._done_end = os.pipe()
        except OSError:
            os.close(self._wake_end)
            os.close(self._wake)
            raise
        os.set_blocking(self._done, False)
        self._buffer: RecordBuffer | None = None
        self._descriptor = -1
        self._size = 0
        self._sealed = 0
        self._base = 0
        self._room = 0
        self.failed_write = 0  # the error number of the write that ended; 0 if it is written
        self.failed_sync = 0  # of its sync
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._close_pipes()
            raise

    def fileno(self) -> int:
        """Readable when a write has ended."""
        return self._done

    def begin(self, descriptor: int, buffer: RecordBuffer) -> None:
        """Write the records where their buffer says that they lie, and sync the file.

        OSError if that cannot be begun; it has failed then.
        """
        if self._buffer is not None:
            raise RuntimeError("the last write has not ended")
        self._buffer = buffer
        self._descriptor = descriptor
        self._data: Any = buffer._store  # compiled, the address; `_buffer` keeps it where it is
        self._sealed = buffer._sealed
        self._size = buffer.size
        self._base = buffer.base
        self._room = buffer.room
        try:
            os.write(self._wake, _GO)
        except OSError as error:
            self._buffer = None
            self.failed_write = error.errno or _IO_ERROR
            self.failed_sync = 0
            raise

    def collect(self) -> bool:
        """Whether the write has ended; told once."""
        try:
            os.read(self._done, 1)
        except BlockingIOError:
            return False
        self._buffer = None
        return True

    def wait(self) -> bool:
        """Return when the write has ended; False if that was told before."""
        if self._buffer is None:
            return False
        while not self.collect():
            select.select([self._done], [], [])
        return True

    def close(self) -> None:
        """Return when the thread has ended."""
        self.wait()
        os.write(self._wake, _QUIT)
        self._thread.join()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for descriptor in (self._wake_end, self._wake, self._done, self._done_end):
            os.close(descriptor)

    def _serve(self) -> None:
        if cython.compiled:
            byte = 0
            with cython.nogil:
                while True:
                    if read(self._wake_end, cython.address(byte), 1) < 0:
                        if errno == EINTR:
                            continue
                        break
                    if byte != _GO_BYTE:
                        break
                    self._write()
                    while write(self._done_end, cython.address(byte), 1) < 0 and errno == EINTR:
                        pass
        else:
            while os.read(self._wake_end, 1) == _GO:
                self._write()
                os.write(self._done_end, _GO)

    def _write(self) -> None:
        self.failed_write = self.failed_sync = 0
        seal_records(self._data, self._sealed, self._size, self._base)
        written = 0
        if cython.compiled:
            _allocate(self._descriptor, self._base, self._size, self._room)
            while written < self._size:
                count = min(self._size - written, _PIECE)
                count = pwrite(self._descriptor, self._data + written, count, self._base + written)
                if count >= 0:
                    written += count
                elif errno != EINTR:
                    self.failed_write = errno
                    return
            if fdatasync(self._descriptor) < 0:
                self.failed_sync = errno
        else:
            data: Any = memoryview(self._data)[: self._size]
            try:
                while written < self._size:
                    piece = data[written : written + _PIECE]
                    written += os.pwrite(self._descriptor, piece, self._base + written)
            except OSError as error:
                self.failed_write = error.errno or 0
                return
            finally:
                data.release()
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self.failed_sync = error.errno or 0
