"""Limit how long the garbage collector pauses the server.

Reference counting frees nearly everything: code that closes a connection or drops a subscription breaks its
cycles.  A full collection visits each object of the process and blocks the loop meanwhile, for 100 ms with
ten thousand connections, and Python would start one whenever their number has grown by a quarter.  So
automatic collections cover young objects only, a few thousand at a time, which takes up to 5 ms.  Old objects
are collected every ten minutes, if enough of them are new.
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
_WORTH_IT: Final = 10  # collections of the second generation since the last full one


def limit_pauses() -> None:
    """Enable automatic collections, for young objects only."""
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


class Collector:
    """Collects old objects at long intervals."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def start(self) -> None:
        self._turns.later(_FULL_EVERY_S, self._expired)

    def _expired(self) -> None:
        if gc.get_count()[2] >= _WORTH_IT:
            gc.collect()
        self.start()
