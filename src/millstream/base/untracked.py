"""Objects that the garbage collector leaves alone.

A full collection visits every container of the process and holds the loop meanwhile: with a million
subscriptions for half a second. What exists a million times, and is freed by reference counting because
somebody breaks its cycles, is taken out of the collector's lists here. Python puts a dict back into them
when it gets a value, so ``keep`` stores a value and takes the dict out again.

Whoever uses this promises to break the cycles: what is left in one is never freed.
"""

from typing import Any

import cython


def untrack(thing: object) -> None:
    """Take a container out of the garbage collector's lists."""
    if cython.compiled:
        PyObject_GC_UnTrack(thing)  # type: ignore[name-defined]  # noqa: F821


def keep(where: dict[Any, Any], key: object, value: object) -> None:
    """Store `value` under `key`, without the garbage collector's knowledge."""
    where[key] = value
    if cython.compiled:
        PyObject_GC_UnTrack(where)  # type: ignore[name-defined]  # noqa: F821
