"""Long work done in slices, some of it at a time.

What comes while nothing else is done runs its first slice at once, so short work ends where it began.
Everything else takes turns: the first slice of what is new, the next one of what is under way.  So short work
waits for some slices of long work, but not for its end.  A lane goes on with a few at a time, and begins only
so many more, since each may need much memory.  The rest waits in order; what finds no place is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic

from millstream.base.errors import MillstreamError
from millstream.base.slices import InSlices, Pieces, Result, Sliced

_MOST_BEGUN: Final = 16  # that had their first slice and wait for the others


class Unwanted(MillstreamError):
    """Nobody waits for the result of the work any more."""


class Lane:
    """Work of one kind."""

    def __init__(
        self, in_slices: InSlices, now: Callable[[], float], *, width: int, most_waiting: int
    ) -> None:
        self._in_slices = in_slices
        self._now = now
        self._width = width
        self._most = width + most_waiting
        self._active: set[LongWork[Any]] = set()
        self._begun: deque[LongWork[Any]] = deque()
        self._new: deque[LongWork[Any]] = deque()
        self._beginning = False  # a turn for the first slice of something new is planned

    def __len__(self) -> int:
        """How much work there is."""
        return len(self._new) + len(self._active) + len(self._begun)

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
        work = LongWork(self, name, Sliced(pieces, self._now), done, wanted)
        if not len(self):
            if not work.step():
                self._activate(work)
        elif len(self) < self._most:
            self._new.append(work)
            self._begin_new()
        else:
            work.drop()
            return None
        return work

    def _begin_new(self) -> None:
        if self._new and not self._beginning and len(self._begun) < _MOST_BEGUN:
            self._beginning = True
            self._in_slices(self._new[0].name, self._first_slice())

    def _first_slice(self) -> Pieces[None]:
        self._beginning = False
        if not self._new:
            return  # it was dropped
        work = self._new.popleft()
        if not work.step():
            if len(self._active) < self._width:
                self._activate(work)
            else:
                self._begun.append(work)
        self._begin_new()
        yield work.items

    def _activate(self, work: LongWork[Any]) -> None:
        self._active.add(work)
        self._in_slices(work.name, self._other_slices(work))

    def _other_slices(self, work: LongWork[Any]) -> Pieces[None]:
        while not work.step():
            yield work.items
        self.ended(work)
        yield work.items

    def ended(self, work: LongWork[Any]) -> None:
        """Let the next one begin."""
        if work in self._active:
            self._active.remove(work)
            if self._begun:
                self._activate(self._begun.popleft())
        elif work in self._begun:
            self._begun.remove(work)
        elif work in self._new:
            self._new.remove(work)
        self._begin_new()


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
