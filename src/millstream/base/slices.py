"""Cut long work into slices, so that other work does not wait for all of it.

The work is a generator that yields, after every small piece, the number of items in it, and returns the
result.  ``Sliced.step`` runs pieces until a slice has reached its limit of items or time.

All long work of the event loop uses this.  ``Turns.in_slices`` runs one slice in each round of the loop; a
``Lane`` adds a result, a bound and an order to work that clients request; ``finish`` runs everything at once
where nothing else waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, Protocol, TypeVar

Result = TypeVar("Result")
Pieces = Generator[int, None, Result]
# Runs the work of this name slice by slice, in turn with all other work.
InSlices = Callable[[str, "Pieces[Any]"], None]

MOST_ITEMS: Final = 1024  # items of a slice; the last piece may exceed it
SLICE_S: Final = 0.0015  # no piece begins later than this in a slice


class Sliced(Generic[Result]):
    """One work and its result."""

    def __init__(self, pieces: Pieces[Result], now: Callable[[], float] = time.monotonic) -> None:
        self.items = 0  # processed by the last step
        self._pieces = pieces
        self._now = now
        self._result: list[Result] = []

    @property
    def ended(self) -> bool:
        return bool(self._result)

    @property
    def result(self) -> Result:
        """Return the result; valid only when the work has ended."""
        return self._result[0]

    def step(self) -> bool:
        """Run one slice; return True if the work has ended.  Raises whatever the work raises."""
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
    """A port that runs work in slices and knows the time."""

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None: ...

    def steady_ns(self) -> int: ...


def begin(slicer: Slicer, name: str, pieces: Pieces[Any]) -> None:
    """Run the first slice now and the others in turn, so that short work ends at once."""
    if not Sliced(pieces, lambda: slicer.steady_ns() / 1_000_000_000).step():
        slicer.in_slices(name, pieces)


def finish(pieces: Pieces[Result]) -> Result:
    """Run all of the work now, for callers that nothing else waits for."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result
