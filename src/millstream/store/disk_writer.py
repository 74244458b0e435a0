"""A thread that seals, writes and syncs records without the interpreter.

A Python thread needs the interpreter lock before each step and competes for it with the event loop, twice for
every commit; that would be most of the time to an ack.  Here the loop leaves a pointer and wakes the thread
by an eventfd; another eventfd is readable when it is done (pipes where the system has none):

    loop      begin(descriptor, buffer) ── word ──▶  thread   checksums, pwrite, fdatasync
              collect()                 ◀── word ──

``write_now`` does the same in the calling thread, which saves two wake-ups but blocks everything else that
thread serves.  The duration of each write is measured, so that the caller can choose.

Small commits overwrite zeros that were written ahead, so that a sync need not write the size of the file too,
a quarter of its time (see ``fill``).  For larger ones, blocks of the file are allocated ahead.

One write at a time, and only for bytes at the end of an existing file; ``Commit.run`` does everything else.
Uncompiled it is a Python thread that does the same.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import cython

if cython.compiled:
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.millstream.store.record import seal_records
    from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime
    from cython.cimports.posix.unistd import fdatasync, pwrite, read, write
else:
    from millstream.store.record import seal_records

    fallocate: Any = None  # of the system, see the .pxd
    fstat: Any = None
    fstatvfs: Any = None
    pwritev: Any = None
    FALLOC_FL_KEEP_SIZE: Any = None

from millstream.store.fill import PAGE, plan
from millstream.store.positioned import WRITE_BYTES

if TYPE_CHECKING:
    from millstream.store.record import RecordBuffer

_WORD_SIZE = 8  # bytes, of what an eventfd counts
_GO_WORD = 1
_GO: Final = (1).to_bytes(_WORD_SIZE, sys.byteorder)
_QUIT: Final = (2).to_bytes(_WORD_SIZE, sys.byteorder)
_SECOND_NS = 1_000_000_000
_IO_ERROR: Final = 5  # EIO
_PIECE = WRITE_BYTES
_PAGE = PAGE
_zeros = bytes(PAGE)
_SMALL_FILE = 64 * 1024  # bytes; a file that is smaller gets blocks as it needs them
_MOST_AHEAD = 4 * 1024 * 1024
_BLOCK = 512  # bytes, in which stat counts
_FULL_DISK = 1024 * 1024 * 1024  # with less free, what is there is left to whoever writes


def allocate_ahead(descriptor: int, buffer: RecordBuffer) -> None:
    """Allocate blocks for the records, and more if the file may grow, without changing the file's size.

    Does nothing where that is impossible: uncompiled, not on Linux, or for a small file.
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


def _has_room(descriptor: int) -> bool:
    """Return True if the disk is far from full."""
    disk: Any
    if cython.compiled:
        return not fstatvfs(descriptor, cython.address(disk)) and disk.f_bavail * disk.f_frsize > _FULL_DISK  # noqa: F821
    found = os.fstatvfs(descriptor)
    return found.f_bavail * found.f_frsize > _FULL_DISK


def _channel() -> tuple[int, int]:
    """Return the read end and the write end of a channel; one descriptor if the system has eventfds."""
    if hasattr(os, "eventfd"):
        both = os.eventfd(0)
        return both, both
    return os.pipe()


def _now_ns() -> int:
    now: Any
    if cython.compiled:
        clock_gettime(CLOCK_MONOTONIC, cython.address(now))  # noqa: F821
        found: int = now.tv_sec * _SECOND_NS + now.tv_nsec  # noqa: F821
        return found
    return time.monotonic_ns()


class DiskWriter:
    """A writer that is idle or busy with one write; only the loop's thread calls it."""

    def __init__(self, name: str) -> None:
        self._descriptors: set[int] = set()
        try:
            self._wake_end, self._wake = _channel()
            self._descriptors.update((self._wake_end, self._wake))
            self._done, self._done_end = _channel()
            self._descriptors.update((self._done, self._done_end))
        except OSError:
            self._close_channels()
            raise
        os.set_blocking(self._done, False)
        self._buffer: RecordBuffer | None = None
        self._descriptor = -1
        self._size = 0
        self._sealed = 0
        self._base = 0
        self._room = 0
        self._filled = 0
        self._target = 0  # up to where to fill
        self._mark = b""
        self._zero_data: Any = _zeros
        if not cython.compiled:
            self._parts: Any = None  # of C, see the .pxd
        self.failed_write = 0  # the error number of the write that ended; 0 if it is written
        self.failed_sync = 0  # of its sync
        self.took_ns = 0  # write and sync together
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._close_channels()
            raise

    def fileno(self) -> int:
        """Return the descriptor that is readable when a write has ended."""
        return self._done

    def begin(self, descriptor: int, buffer: RecordBuffer, fill: bool = False) -> None:
        """Start writing the records at their place in the file, and syncing it.

        `fill` allows writing zeros ahead.  Raises OSError if it cannot start; the write has then failed.
        """
        self._prepare(descriptor, buffer, fill)
        try:
            os.write(self._wake, _GO)
        except OSError as error:
            self._buffer = None
            self.failed_write = error.errno or _IO_ERROR
            self.failed_sync = 0
            raise

    def write_now(self, descriptor: int, buffer: RecordBuffer, fill: bool = False) -> None:
        """Do what ``begin`` starts, and return when it has ended."""
        self._prepare(descriptor, buffer, fill)
        with cython.nogil:
            self._write()
        self._ended()

    def _prepare(self, descriptor: int, buffer: RecordBuffer, fill: bool) -> None:
        if self._buffer is not None:
            raise RuntimeError("the last write has not ended")
        self._buffer = buffer
        self._descriptor = descriptor
        self._data: Any = buffer._store  # compiled, the address; `_buffer` keeps it where it is
        self._sealed = buffer._sealed
        self._size = buffer.size
        self._base = buffer.base
        self._room = buffer.room
        self._filled = buffer.filled
        self._target, self._mark = plan(buffer, fill)
        if self._target > self._filled and not _has_room(descriptor):
            self._target, self._mark = plan(buffer, False)
        self._mark_data: Any = self._mark
        self._mark_size = len(self._mark)

    def _ended(self) -> None:
        if self._buffer is not None:
            self._buffer.filled = self._filled
        self._buffer = None

    def collect(self) -> bool:
        """Return True, once, if the write has ended."""
        if cython.compiled:
            word = 0
            if read(self._done, cython.address(word), _WORD_SIZE) != _WORD_SIZE:
                return False
        else:
            try:
                os.read(self._done, _WORD_SIZE)
            except BlockingIOError:
                return False
        self._ended()
        return True

    def wait(self) -> bool:
        """Wait until the write has ended; return False if that was already reported."""
        if self._buffer is None:
            return False
        while not self.collect():
            select.select([self._done], [], [])
        return True

    def close(self) -> None:
        """End the thread and wait for it."""
        self.wait()
        os.write(self._wake, _QUIT)
        self._thread.join()
        self._close_channels()

    def _close_channels(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _serve(self) -> None:
        if cython.compiled:
            word = 0
            with cython.nogil:
                while True:
                    if read(self._wake_end, cython.address(word), _WORD_SIZE) < 0:
                        if errno == EINTR:
                            continue
                        break
                    if word != _GO_WORD:
                        break
                    self._write()
                    while write(self._done_end, cython.address(word), _WORD_SIZE) < 0 and errno == EINTR:
                        pass
        else:
            while os.read(self._wake_end, _WORD_SIZE) == _GO:
                self._write()
                os.write(self._done_end, _GO)

    def _write(self) -> None:
        """Write and sync, and measure the duration."""
        began = _now_ns()
        self._write_and_sync()
        self.took_ns = _now_ns() - began

    def _write_and_sync(self) -> None:
        self.failed_write = self.failed_sync = 0
        seal_records(self._data, self._sealed, self._size, self._base)
        end = self._base + self._size
        if cython.compiled:
            if self._target < end:
                _allocate(self._descriptor, self._base, self._size, self._room)
            self.failed_write = self._write_records()
            if self.failed_write:
                self._filled = max(self._filled, self._target)  # it is not known
                return
            self._filled = max(self._filled, end + self._mark_size)
            while self._filled < self._target:
                count = min(self._target - self._filled, _PAGE - self._filled % _PAGE)
                count = pwrite(self._descriptor, self._zero_data, count, self._filled)
                if count <= 0:
                    break  # it is no part of the commit
                self._filled += count
            if fdatasync(self._descriptor) < 0:
                self.failed_sync = errno
        else:
            with memoryview(self._data) as data:
                records = bytes(data[: self._size]) + self._mark
            try:
                written = 0
                while written < len(records):
                    piece = records[written : written + _PIECE]
                    written += os.pwrite(self._descriptor, piece, self._base + written)
            except OSError as error:
                self.failed_write = error.errno or 0
                self._filled = max(self._filled, self._target)
                return
            self._filled = max(self._filled, end + self._mark_size)
            with contextlib.suppress(OSError):
                while self._filled < self._target:
                    count = min(self._target - self._filled, _PAGE - self._filled % _PAGE)
                    self._filled += os.pwrite(self._descriptor, _zeros[:count], self._filled)
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self.failed_sync = error.errno or 0

    def _write_records(self) -> int:
        """Write records and end mark, the last records together with it; return an error number, or 0."""
        if cython.compiled:
            written = 0
            while written < self._size + self._mark_size:
                number = 0
                if written < self._size:
                    self._parts[0].iov_base = self._data + written
                    self._parts[0].iov_len = min(self._size - written, _PIECE)
                    number = 1
                    marked = 0 if self._size - written <= _PIECE else self._mark_size
                else:
                    marked = written - self._size
                if marked < self._mark_size:
                    self._parts[number].iov_base = self._mark_data + marked
                    self._parts[number].iov_len = self._mark_size - marked
                    number += 1
                count = pwritev(self._descriptor, self._parts, number, self._base + written)
                if count >= 0:
                    written += count
                elif errno != EINTR:
                    problem: int = errno
                    return problem
        return 0
