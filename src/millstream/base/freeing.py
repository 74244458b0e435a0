"""Free large containers in pieces (``base.slices``).

Python frees all items of a container in one step when the last reference to it goes: a million pending
messages take 15 to 70 ms.  Whoever drops a container that grows with what clients do hands it over here
instead, emptied from its owner's point of view.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Protocol

from millstream.base.build import pure_requested
from millstream.base.slices import Pieces, Slicer

_AT_ONCE: Final = 16 if pure_requested() else 256  # items of a piece


class Shrinking(Protocol):
    """A container that drops some of its items in a call, and returns how many; 0: it is empty."""

    def __len__(self) -> int: ...

    def drop_some(self) -> int: ...


Container = Shrinking | list[Any] | set[int] | deque[Any]

_SMALL: Final = 64  # items that may be freed in one step


def free(slicer: Slicer, containers: list[Container]) -> None:
    """Free containers that nobody uses any more: at once if they hold little, else in slices."""
    if sum(map(len, containers)) > _SMALL:
        slicer.in_slices("freeing memory", freeing(containers))


def freeing(containers: list[Container]) -> Pieces[None]:
    """Empty containers that nobody uses any more."""
    while containers:
        container = containers[-1]
        if len(container):
            yield _drop_some(container)
        else:
            containers.pop()


def _drop_some(container: Container) -> int:
    """Drop some items of a container that is not empty; return how many."""
    count = min(len(container), _AT_ONCE)
    if isinstance(container, list):
        del container[-count:]
    elif isinstance(container, (set, deque)):
        for _ in range(count):
            container.pop()
    else:
        count = container.drop_some()
    return count
