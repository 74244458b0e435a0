"""The limited number of answering threads, and the queue for them.

One user never has all threads, and the user with the fewest is served next.  A request that waits too long,
or finds the queue full, is told to try again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from http import HTTPStatus
from typing import Final

from millstream.base.rarely import Rarely
from millstream.server.arrow.problem import ArrowProblem

_log = logging.getLogger("millstream.arrow")

WAIT_S: Final = 30.0


class Places:
    """The places of answering threads; used on the event loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_one = max(1, most - most // 4)
        self._most_waiting = 4 * most
        self._taken: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._refusals = Rarely()

    @property
    def taken(self) -> int:
        return self._taken.total()

    async def enter(self, user: str) -> None:
        """Take a place, wait for one, or raise Problem."""
        if self._may_enter(user):
            self._taken[user] += 1
            return
        waiting = sum(1 for other, _ in self._waiting if other == user)
        if len(self._waiting) >= self._most_waiting or waiting >= 3 * self._most:
            raise self._too_many(f"{len(self._waiting)} requests wait already")
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((user, place))
        try:
            async with asyncio.timeout(WAIT_S):
                await place
        except TimeoutError:
            raise self._too_many(f"none became free in {WAIT_S:.0f} s") from None
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave(user)
            raise
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not place]

    def leave(self, user: str) -> None:
        """Give a place to the next user in the queue."""
        self._taken[user] -= 1
        if self._taken[user] <= 0:
            del self._taken[user]
        open_ones = [entry for entry in self._waiting if not entry[1].done() and self._may_enter(entry[0])]
        if open_ones:
            next_user, place = min(open_ones, key=lambda entry: self._taken[entry[0]])
            self._taken[next_user] += 1
            place.set_result(None)

    def _may_enter(self, user: str) -> bool:
        return self._taken.total() < self._most and self._taken[user] < self._most_of_one

    def _too_many(self, why: str) -> ArrowProblem:
        if count := self._refusals.due():
            _log.warning("All %d places for readers are taken: %s; refused %d", self._most, why, count)
        return ArrowProblem(HTTPStatus.SERVICE_UNAVAILABLE, f"too many read at once, come again: {why}")
