"""Tell the C library's allocator when to return memory to the kernel.

By default it returns free memory at the end of the heap as soon as there are about 128 KiB.  Chunks read
from a socket are larger: each one made the heap grow and shrink, and the kernel zeroed its pages again, which
cost a third of the processor time of a message.  The allocator now keeps a few MiB; larger allocations still
go to the kernel and back.

It never returns what is free between used blocks, unless it is asked to.  That takes a millisecond for about
ten MiB, in which nobody gets memory: a server asks when nobody has asked it for anything for a while.
"""

import cython

_TRIM_THRESHOLD = -1  # constants of glibc's <malloc.h>
_MMAP_THRESHOLD = -3

_KEPT = 8 * 1024 * 1024  # bytes of free memory that stay at the end of the heap
_OWN_MAPPING = 4 * 1024 * 1024  # bytes; a larger allocation gets a mapping of its own, which freeing unmaps


def keep_freed_memory() -> None:
    """Let the allocator of this process keep some free memory for the next chunk."""
    if cython.compiled:
        mallopt(_TRIM_THRESHOLD, _KEPT)  # type: ignore[name-defined]  # noqa: F821
        mallopt(_MMAP_THRESHOLD, _OWN_MAPPING)  # type: ignore[name-defined]  # noqa: F821


def give_back() -> None:
    """Return all free memory of this process to the kernel; another thread may run Python meanwhile."""
    if cython.compiled:
        with cython.nogil:
            malloc_trim(0)  # type: ignore[name-defined]  # noqa: F821
