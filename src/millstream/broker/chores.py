"""Long work of the event loop, done in slices so that nobody waits for it.

A chore is an iterator: each step does a little, well below a millisecond, and the work is done when there
is no step left. One turn of the loop does steps for ``SLICE_S`` at most, of all chores in rotation, so
that a short chore does not wait for a long one. A chore that raises is reported and given up; the others
go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from millstream.base import guard
from millstream.broker.turns import Turns

SLICE_S: Final = 0.0015
_MOST_STEPS: Final = 64  # of one turn


class Chores:
    """What is left to do when the work at hand is done."""

    def __init__(self, turns: Turns, clock: Callable[[], float]) -> None:
        self.slices = 0  # turns so far
        self._turns = turns
        self._clock = clock
        self._waiting: deque[tuple[str, Iterator[None]]] = deque()
        self._planned = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, name: str, steps: Iterator[None]) -> None:
        """Do `steps` in later turns; `name` says in plain words what is done."""
        self._waiting.append((name, steps))
        if not self._planned:
            self._planned = True
            self._turns.soon(self._slice)

    def clear(self) -> None:
        """Give up all work."""
        self._waiting.clear()

    def _slice(self) -> None:
        self._planned = False
        self.slices += 1
        end = self._clock() + SLICE_S
        for _ in range(_MOST_STEPS):
            if not self._waiting:
                return
            self._step()
            if self._clock() >= end:
                break
        if self._waiting:
            self._planned = True
            self._turns.soon(self._slice)

    def _step(self) -> None:
        chore = self._waiting.popleft()
        name, steps = chore
        try:
            next(steps)
        except StopIteration:
            return
        except Exception as error:
            guard.report(name, error)
            return
        self._waiting.append(chore)
