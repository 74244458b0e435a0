"""Connections of which nothing is known yet: each has a task that finds out, and there are only so many.

One more than that, and the oldest of the address that has the most is dropped.  So whoever does at once what
is expected of it gets through beside many that are silent or slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from millstream.base.rarely import Rarely


class Strangers:
    """The tasks of one listener; `what` says in the log what they have not done yet."""

    def __init__(self, most: int, what: str, log: logging.Logger) -> None:
        self._most = most
        self._what = what
        self._log = log
        self._addresses: dict[asyncio.Task[Any], str] = {}  # the oldest first
        self._drops = Rarely()

    def __len__(self) -> int:
        return len(self._addresses)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(list(self._addresses))

    def add(self, task: asyncio.Task[Any], address: str) -> None:
        """Count a task in, until it ends or is known."""
        self._addresses[task] = address
        task.add_done_callback(self.discard)
        if len(self._addresses) > self._most:
            self._drop_one()

    def discard(self, task: asyncio.Task[Any]) -> None:
        """It has ended, or who it is for is known now."""
        self._addresses.pop(task, None)

    def _drop_one(self) -> None:
        ((busiest, count),) = Counter(self._addresses.values()).most_common(1)
        oldest = next(task for task, address in self._addresses.items() if address == busiest)
        del self._addresses[oldest]
        oldest.cancel()
        if dropped := self._drops.due():
            self._log.warning(
                "%d connections without %s, %d of them from %s: dropped %d",
                self._most,
                self._what,
                count,
                busiest,
                dropped,
            )
