"""Long work cut into slices, so that nobody waits for the whole of it.

The work is a generator that yields, after every small piece, how many items the piece had, and returns its
result.  ``Sliced.step`` runs pieces until a slice is full: so many items, or so much time.

Every long work of the event loop is made of this.  ``Turns.in_slices`` does it, one slice in a round of the
loop; a ``Lane`` adds a result, a bound, and an order to work that clients ask for; ``finish`` is for those
who hold nobody up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, Protocol, TypeVar

Result = TypeVar("Result")
Pieces = Generator[int, None, Result]
# Does the work of this name, one slice after the other, in turn with all other work.
InSlices = Callable[[str, "Pieces[Any]"], None]

MOST_ITEMS: Final = 1024  # of a slice; a piece may exceed it by what it has itself
SLICE_S: Final = 0.0015  # no piece is begun later in a slice


class Sliced(Generic[Result]):
    """One piece of work on its way to its result."""

    def __init__(self, pieces: Pieces[Result], now: Callable[[], float] = time.monotonic) -> None:
        self.items = 0  # handled by the last step
        self._pieces = pieces
        self._now = now
        self._result: list[Result] = []

    @property
    def ended(self) -> bool:
        return bool(self._result)

    @property
    def result(self) -> Result:
        """What the work returned; only when it has ended."""
        return self._result[0]

    def step(self) -> bool:
        """Run one slice; return whether the work has ended.  What the work raises is raised here."""
        self.items = 0
        deadline = self._now() + SLICE_S
        try:
            while True:
                self.items += next(self._pieces)
                if self.items >= MOST_ITEMS or self._now() >= deadline:
                    return False
        except StopIteration as end:
            self._result.append(end.value)
            return True

    def drop(self) -> None:
        """End the work without a result."""
        self._pieces.close()


class Slicer(Protocol):
    """Whoever does work in slices, and knows the time."""

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None: ...

    def steady_ns(self) -> int: ...


def begin(slicer: Slicer, name: str, pieces: Pieces[Any]) -> None:
    """Do the first slice now, and the others in turn: short work ends where it began."""
    if not Sliced(pieces, lambda: slicer.steady_ns() / 1_000_000_000).step():
        slicer.in_slices(name, pieces)


def finish(pieces: Pieces[Result]) -> Result:
    """Do all of the work now, for callers that hold nobody up."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result
