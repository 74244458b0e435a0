"""Objects that the garbage collector ignores.

A full collection visits every container of the process and blocks the event loop meanwhile: half a second
with a million subscriptions.  Containers that exist a million times, and are freed by reference counting
because their cycles are broken explicitly, are removed from the collector's lists here.  Python adds a dict
to the lists again when it gets a value, so ``keep`` stores a value and removes the dict again.

Callers must break all cycles: an object in a cycle is never freed.
"""

from typing import Any

import cython


def untrack(thing: object) -> None:
    """Remove a container from the garbage collector's lists."""
    if cython.compiled:
        PyObject_GC_UnTrack(thing)  # type: ignore[name-defined]  # noqa: F821


def keep(where: dict[Any, Any], key: object, value: object) -> None:
    """Store `value` under `key` and keep the dict out of the garbage collector's lists."""
    where[key] = value
    if cython.compiled:
        PyObject_GC_UnTrack(where)  # type: ignore[name-defined]  # noqa: F821
