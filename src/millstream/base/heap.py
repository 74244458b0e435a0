"""How the C library's allocator gives memory back to the kernel.

By default it gives back whatever is free at the end of the heap, 128 KiB or little more, at once. The chunks
read from a socket are larger: each one made the heap grow and shrink, and the kernel filled its pages with
zeros again. That cost a third of the processor time of a message. The allocator keeps a few MiB now; what
is larger still goes straight to the kernel and back.
"""

import cython

_TRIM_THRESHOLD = -1  # names of glibc's <malloc.h>
_MMAP_THRESHOLD = -3

_KEPT = 8 * 1024 * 1024  # free memory at the end of the heap that stays
_OWN_MAPPING = 4 * 1024 * 1024  # an allocation this large gets a mapping of its own, and returns it


def keep_freed_memory() -> None:
    """Let the allocator of this process keep some free memory for the next chunk."""
    if cython.compiled:
        mallopt(_TRIM_THRESHOLD, _KEPT)  # type: ignore[name-defined]  # noqa: F821
        mallopt(_MMAP_THRESHOLD, _OWN_MAPPING)  # type: ignore[name-defined]  # noqa: F821
