"""Long work of the server, done in slices between which everybody else has a turn.

The first slice is run at once, so what is short is not kept waiting by what is long.  Of work that takes more
slices a lane does a few pieces at a time, since each may need much memory; more wait in order, and what does
not find a place to wait is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from millstream.base.errors import MillstreamError
from millstream.base.slices import Pieces, Result, Sliced

if TYPE_CHECKING:
    from millstream.broker.turns import Turns


class Unwanted(MillstreamError):
    """Nobody waits for the result of the work any more."""


class Lane:
    """Work of one kind."""

    def __init__(self, turns: Turns, *, width: int, most_waiting: int) -> None:
        self._turns = turns
        self._width = width
        self._most_waiting = most_waiting
        self._active: set[LongWork[Any]] = set()
        self._waiting: deque[LongWork[Any]] = deque()

    def begin(
        self,
        name: str,
        pieces: Pieces[Result],
        done: Callable[[Result | None, Exception | None], None],
        wanted: Callable[[], bool] | None = None,
    ) -> LongWork[Result] | None:
        """Do the work, then call `done` with its result or with what it raised; None if there is no place.

        If it is not `wanted` any more at the start of a slice, that is an Unwanted.
        """
        watchdog = self._turns.watchdog
        work = LongWork(self, name, Sliced(pieces, watchdog.began), done, wanted)
        ended = work.step()
        watchdog.handled(name, work.items)
        if not ended:
            if len(self._active) < self._width:
                self._activate(work)
            elif len(self._waiting) < self._most_waiting:
                self._waiting.append(work)
            else:
                work.drop()
                return None
        return work

    def _activate(self, work: LongWork[Any]) -> None:
        self._active.add(work)
        self._turns.in_turn(work.name, lambda: self._step(work))

    def _step(self, work: LongWork[Any]) -> int:
        if work.step():
            self.ended(work)
        else:
            self._turns.in_turn(work.name, lambda: self._step(work))
        return work.items

    def ended(self, work: LongWork[Any]) -> None:
        """Let the next one begin."""
        if work in self._active:
            self._active.remove(work)
            if self._waiting:
                self._activate(self._waiting.popleft())
        elif work in self._waiting:
            self._waiting.remove(work)


class LongWork(Generic[Result]):
    """One piece of work of a lane."""

    def __init__(
        self,
        lane: Lane,
        name: str,
        sliced: Sliced[Result],
        done: Callable[[Result | None, Exception | None], None],
        wanted: Callable[[], bool] | None,
    ) -> None:
        self.name = name
        self.over = False
        self._lane = lane
        self._sliced = sliced
        self._done = done
        self._wanted = wanted

    @property
    def items(self) -> int:
        """How many the last slice handled."""
        return self._sliced.items

    def step(self) -> bool:
        """Run a slice, and report the end if there is one; returns whether the work is over."""
        if self.over:
            self._sliced.items = 0
            return True
        try:
            if self._wanted is not None and not self._wanted():
                self._sliced.drop()
                raise Unwanted
            self.over = self._sliced.step()
        except Exception as error:
            self.over = True
            self._done(None, error)
        else:
            if self.over:
                self._done(self._sliced.result, None)
        return self.over

    def drop(self) -> None:
        """End it without a result; nobody is called."""
        if not self.over:
            self.over = True
            self._sliced.drop()
            self._lane.ended(self)
