"""When the garbage collector runs: often and briefly, and seldom over everything.

Reference counting frees nearly everything: whoever closes a connection or drops a subscription breaks its
cycles. A collection over everything visits each object of the process and holds the loop meanwhile, for
100 ms with ten thousand connections, and Python would start one whenever their number has grown by a
quarter. So only young objects are collected by themselves, a few thousand at a time, which takes up to 5
ms. Those that survive are collected every ten minutes, if there are enough of them to matter.
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
_WORTH_IT: Final = 10  # collections of survivors since the last full one


def limit_pauses() -> None:
    """Switch the collector on, for young objects only."""
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


class Collector:
    """Collects the garbage among old objects."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def start(self) -> None:
        self._turns.later(_FULL_EVERY_S, self._expired)

    def _expired(self) -> None:
        if gc.get_count()[2] >= _WORTH_IT:
            gc.collect()
        self.start()
