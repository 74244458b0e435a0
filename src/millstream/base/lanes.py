"""Run long work in slices, with a bound on how much is under way.

Work that arrives while the lane is empty runs its first slice at once, so short work ends where it began.
Otherwise slices alternate: the first slice of new work, the next slice of active work.  Short work therefore
waits for some slices of long work, but not for its end.  Only `width` works are active and at most
`_MOST_BEGUN` others have had their first slice, because each may need much memory.  The rest wait in order;
work beyond the limit is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic

from millstream.base.errors import MillstreamError
from millstream.base.slices import InSlices, Pieces, Result, Sliced

_MOST_BEGUN: Final = 16  # works that had their first slice and wait to become active


class Unwanted(MillstreamError):
    """The result of the work is no longer wanted."""


class Lane:
    """Works of one kind."""

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
        self._beginning = False  # a turn for the first slice of new work is scheduled

    def __len__(self) -> int:
        """Return the number of unfinished works."""
        return len(self._new) + len(self._active) + len(self._begun)

    def begin(
        self,
        name: str,
        pieces: Pieces[Result],
        done: Callable[[Result | None, Exception | None], None],
        wanted: Callable[[], bool] | None = None,
    ) -> LongWork[Result] | None:
        """Start the work; call `done` with its result or its exception.  Return None if the lane is full.

        The exception is Unwanted if `wanted` returns False at the start of a slice.
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
            return  # the work was dropped
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
        """Remove finished work and start the next."""
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
    """One work of a lane."""

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
        """Return the number of items that the last slice processed."""
        return self._sliced.items

    def step(self) -> bool:
        """Run a slice and call `done` at the end of the work; return True if the work is over."""
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
        """End the work without a result; `done` is not called."""
        if not self.over:
            self.over = True
            self._sliced.drop()
            self._lane.ended(self)
