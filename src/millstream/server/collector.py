"""Limit how long the garbage collector pauses the server.

Reference counting frees nearly everything: code that closes a connection or drops a subscription breaks its
cycles.  A full collection visits each object of the process and blocks the loop meanwhile, for 100 ms with
ten thousand connections, and Python would start one whenever their number has grown by a quarter.  So
automatic collections cover young objects only, a few thousand at a time, which takes up to 5 ms.  Old objects
are collected every ten minutes, if enough of them are new and the last time took less than 5 ms.  Otherwise
the collector waits for a second in which no client asked anything.
"""

from __future__ import annotations

import gc
from typing import Final

from millstream.broker.turns import Turns

_NEVER: Final = 2**31 - 1
_THRESHOLDS: Final = (
    2_000,
    1,
    _NEVER,
)  # new objects; collections of the youngest before their survivors are done
_FULL_EVERY_S: Final = 600.0
_LOOK_EVERY_S: Final = 1.0  # for a quiet moment, once a full collection is due
_QUIET_STEPS: Final = 32  # of the loop in that time, by timers alone
_SHORT_S: Final = 0.005
_WORTH_IT: Final = 10  # collections of survivors since the last full one


def limit_pauses() -> None:
    """Enable automatic collections, for young objects only."""
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


class Collector:
    """Collects old objects at long intervals."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._took_s = _SHORT_S  # by the last full collection; at first nobody knows
        self._steps = 0  # of the loop, when it was looked at last

    def start(self) -> None:
        self._turns.later(_FULL_EVERY_S, self._due)

    def _due(self) -> None:
        if gc.get_count()[2] < _WORTH_IT:
            self.start()
        elif self._took_s < _SHORT_S:
            self._collect()
        else:
            self._wait()

    def _wait(self) -> None:
        self._steps = self._turns.watchdog.steps
        self._turns.later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        if self._turns.watchdog.steps - self._steps <= _QUIET_STEPS:
            self._collect()
        else:
            self._wait()

    def _collect(self) -> None:
        began = self._turns.watchdog.began()
        gc.collect()
        self._took_s = self._turns.watchdog.since(began)
        self.start()
