"""Unidentified connections: each has a task that handles it, and their number is limited.

Beyond the limit, the oldest one of the address with the most is dropped.  So a client that does at once what
is expected gets through beside many that are silent or slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from millstream.base.rarely import Rarely


class Strangers:
    """The tasks of one listener; `what` names in the log what they have not done yet."""

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
        """Count a task, until it ends or is discarded."""
        self._addresses[task] = address
        task.add_done_callback(self.discard)
        if len(self._addresses) > self._most:
            self._drop_one()

    def discard(self, task: asyncio.Task[Any]) -> None:
        """Stop counting a task that has ended, or whose client is now known."""
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
