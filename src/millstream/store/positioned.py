"""Read and write bytes of an open file at an offset.

``os.pread`` lets other threads run meanwhile.  For the few KiB of a message, which are nearly always in the
page cache, releasing and regaining the interpreter lock costs more than reading, and may take milliseconds if
another thread uses it.  So a short read keeps the lock.  A read that waits for the disk blocks the event loop
either way.

A write may have many pieces, and lets other threads run until the last is written: this thread would
otherwise wait for the lock after each piece.
"""

import os

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.unistd import pread, pwrite

# In one call.  For larger ones the kernel looks for large pieces of memory, which on virtual machines are
# those that were never used: each byte of them costs up to eight times as much.
WRITE_BYTES = 256 * 1024
_WRITE_BYTES = WRITE_BYTES
_SHORT = 64 * 1024


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Return up to `size` bytes, fewer at the end of the file; raise OSError."""
    if not cython.compiled or size > _SHORT or size <= 0:
        return os.pread(descriptor, size, offset)
    data: bytes = PyBytes_FromStringAndSize(cython.NULL, size)
    room = cython.cast("char*", data)
    count = pread(descriptor, room, size, offset)
    while count < 0 and errno == EINTR:
        count = pread(descriptor, room, size, offset)
    if count < 0:
        raise OSError(errno, os.strerror(errno))
    return data if count == size else data[:count]


def write_at(descriptor: int, offset: int, data: bytes | memoryview) -> None:
    """Write all of `data`; raise OSError."""
    size = len(data)
    if size == 0:
        return
    view = data if cython.compiled else memoryview(data)
    written = 0
    if cython.compiled:
        p = cython.address(view[0])
        failed = 0
        with cython.nogil:
            while written < size:
                count = min(size - written, _WRITE_BYTES)
                count = pwrite(descriptor, p + written, count, offset + written)
                if count >= 0:
                    written += count
                elif errno != EINTR:
                    failed = errno
                    break
        if failed:
            raise OSError(failed, os.strerror(failed))
    else:
        while written < size:
            written += os.pwrite(descriptor, view[written : written + _WRITE_BYTES], offset + written)
