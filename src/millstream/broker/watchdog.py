"""Measure the steps of the event loop, and record the long ones.

A step is one callback of the loop: a chunk read from a client, a timer, the end of a commit, a slice of a
long response.  Everybody else waits while it runs, so none should take longer than 5 ms.  A step has a kind
and the name of its function; a part of a step that took more than half of it, such as one request of many in
a chunk, gives the step its name.

A step costs two readings of the clock.  Everything else is done for long steps only.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from millstream.base.complaints import Complaints

BOUNDS_S = (0.005, 0.02, 0.05)  # steps that took at least so long are counted
PART_S = 0.001  # shorter parts of a step are not worth a name

_LONG_S = 0.005
_MOST_NAMES = 256
_MILLISECONDS = 1000.0

_log = logging.getLogger("millstream.watchdog")


class LongStep:
    """The longest step of one name, and the number of those above 5 ms."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.ended_ns = 0  # when the longest ended, on the wall clock
        self.count = 0


class Watchdog:
    """The steps of one event loop."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.steps = 0
        self.busy_s = 0.0  # all steps together
        self.counts = [0] * len(BOUNDS_S)
        self.long_steps: dict[str, LongStep] = {}  # by name; the shortest makes room when it is full
        self.most_items: dict[str, int] = {}  # handled by one slice, by the name of the work
        self._now = now
        self._part_s = 0.0  # the longest part of this step
        self._part = ""
        self._complaints = Complaints(_log, now)

    def began(self) -> float:
        """Return the time at which a step or a part of one begins."""
        return self._now()

    def ended(self, began: float, kind: str, what: Any = None) -> None:
        """End a step; the function `what` completes its name."""
        took = self._now() - began
        self.steps += 1
        self.busy_s += took
        if took >= _LONG_S:
            self._note(took, kind, what)
        elif self._part_s >= _LONG_S:  # longer than the step: a collection of garbage that came before it
            self._note(self._part_s, kind, what)
        self._part_s = 0.0

    def since(self, began: float) -> float:
        """Return the seconds since `began`; pass those above PART_S to ``part_ended``."""
        return self._now() - began

    def part_ended(self, took: float, name: str) -> None:
        """End a part of the current step."""
        if took > self._part_s:
            self._part_s = took
            self._part = name

    def handled(self, name: str, items: int) -> None:
        """Record how many items one slice of the work called `name` processed."""
        if items > self.most_items.get(name, -1):
            if len(self.most_items) >= _MOST_NAMES and name not in self.most_items:
                return
            self.most_items[name] = items

    def watch_collections(self) -> Callable[[], None]:
        """Record the pauses of the garbage collector; return a function that stops that.

        A collection in another thread holds the interpreter lock, so the loop waits for it, too.
        """
        owner = threading.get_ident()
        began = 0.0

        def collecting(phase: str, info: dict[str, int]) -> None:
            nonlocal began
            if phase == "start":
                began = self._now()
            elif threading.get_ident() == owner:
                self.part_ended(self._now() - began, "garbage collection")
            else:
                self.part_ended(self._now() - began, "garbage collection of another thread")

        gc.callbacks.append(collecting)
        return partial(gc.callbacks.remove, collecting)

    def _note(self, took: float, kind: str, what: Any) -> None:
        name = self._part if self._part_s * 2 > took else _name(kind, what)
        for index, bound in enumerate(BOUNDS_S):
            if took >= bound:
                self.counts[index] += 1
        noted = self.long_steps.get(name)
        if noted is None:
            if len(self.long_steps) >= _MOST_NAMES:
                del self.long_steps[min(self.long_steps, key=lambda each: self.long_steps[each].longest_s)]
            noted = self.long_steps[name] = LongStep()
        noted.count += 1
        if took > noted.longest_s:
            noted.longest_s = took
            noted.ended_ns = time.time_ns()
        if took >= BOUNDS_S[-1]:
            self._complaints.tell(
                name,
                "%s held up all clients for %d ms",
                name,
                round(took * _MILLISECONDS),
                level=logging.WARNING,
            )


def _name(kind: str, what: Any) -> str:
    """Return the kind of a step with its function's name: ``timer Consumer.expire``."""
    if what is None:
        return kind
    while isinstance(what, partial):
        what = what.func
    called = getattr(what, "__qualname__", None) or type(what).__qualname__
    return f"{kind} {called.partition('.<locals>')[0]}"
