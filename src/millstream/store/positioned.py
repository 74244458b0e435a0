"""Reads some bytes of an open file at an offset.

``os.pread`` lets other threads run meanwhile.  For the few KiB of a message, which are nearly always in the
page cache, handing the interpreter over and getting it back costs more than reading, and may take
milliseconds if another thread uses it.  So a short read keeps it.  A read that has to wait for the disk holds
up the event loop either way.
"""

import os

import cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.unistd import pread

_SHORT = 64 * 1024


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Return up to `size` bytes, fewer at the end of the file; raises OSError."""
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
