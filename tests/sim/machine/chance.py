"""Draw from the seed, and read from simulated time, what the server takes from the system or the process.

The same seed has the same history whatever ran in this process before, whatever runs beside it in other
threads, and however busy the machine is.  So only the thread of the simulation is given simulated values:
random bytes and numbers, ids, the clocks of rate limits, and small files.
"""

from __future__ import annotations

import os
import random as random_module
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from millstream.base import guard, ids
from millstream.base.complaints import Complaints
from millstream.base.rarely import EVERY_S, Rarely
from millstream.base.siphash import KEY_SIZE
from millstream.broker import internal, router
from millstream.jetstream import parts
from millstream.jetstream.consumers.journal import Journal
from millstream.jetstream.dedupe import window
from millstream.jetstream.sourcing import inflow
from millstream.store import unsynced
from millstream.store.recovery import new_log, open_log
from tests.sim.machine.machine import Machine

_DRAWS = ("random", "randrange", "uniform", "getrandbits", "sample", "choice", "choices", "randint")
_RATE_LIMITED = (guard, internal, router, inflow)  # modules with a table of what was logged when


@contextmanager
def fixed_chance(machine: Machine, seed: int) -> Iterator[None]:
    """Give simulated values to this thread while the context lasts."""
    random = Random(f"entropy {seed}")
    here = _Here()
    sizes: dict[str, Any] = {
        "new_log": partial(new_log, segment_size=machine.segment_size),
        "open_log": partial(open_log, segment_size=machine.segment_size),
        "Journal": partial(Journal, **machine.journal_sizes),
    }
    now = here.pick(machine.clock.monotonic, time.monotonic)
    with ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, value))

        replace(os, "urandom", here.pick(random.randbytes, os.urandom))
        replace(random_module, "_urandom", os.urandom)
        replace(time, "sleep", here.pick(lambda _: None, time.sleep))  # no other thread to let go first
        replace(window, "_KEY", bytes(KEY_SIZE))
        for name in _DRAWS:
            replace(random_module, name, here.pick(getattr(random, name), getattr(random_module, name)))
        replace(ids, "_shared", _Ids(here.pick(ids.NuidGenerator().next, ids._shared.next)))
        replace(Complaints.__init__, "__defaults__", (now,))
        replace(Rarely.__init__, "__defaults__", (EVERY_S, now))
        for module in _RATE_LIMITED:
            complaints: Any = module._complaints  # type: ignore[attr-defined]
            replace(complaints, "_kinds", {})
            replace(complaints, "_now", now)
        replace(unsynced, "MOST_IN_DOUBT", machine.most_in_doubt)
        replace(unsynced, "MOST_AHEAD", machine.most_ahead)
        for name, value in sizes.items():
            replace(parts, name, value)
        yield


class _Here:
    """The thread of the simulation."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def pick(self, simulated: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `simulated` in this thread, and `real` in all others."""

        def call(*arguments: Any, **options: Any) -> Any:
            chosen = simulated if threading.get_ident() == self._thread else real
            return chosen(*arguments, **options)

        return call


class _Ids:
    """Stands in for the process's source of ids."""

    def __init__(self, following: Callable[[], str]) -> None:
        self.next = following
