"""A bound on the number of unknown credentials that NATS checks at a time.

A check is a connection, which costs NATS and the gateway time, and callers may guess passwords.  So the
number of checks is bounded, for each address and in total.  A caller beyond the bound waits for a short time,
in order of arrival.  Credentials that NATS has accepted before need no place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import Final

from millstream.gateway.bounds import Alarm
from millstream.gateway.errors import Overloaded

_FOR_ALL: Final = 32
_FOR_ADDRESS: Final = 8
_WAITING: Final = 1024  # callers; further ones are refused at once
_KNOWN: Final = 10_000  # forgotten credentials have to wait for a place once more


class Admission:
    """The places for checks of credentials."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s or 5.0
        self._taken: dict[str, int] = {}  # places by address
        self._all = 0
        self._queue: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._known: OrderedDict[str, None] = OrderedDict()  # digests
        self._alarm = Alarm(
            "NATS has to check too many unknown credentials at once; a caller may be guessing passwords"
        )

    def learn(self, digest: str) -> None:
        """Note that NATS accepted these credentials."""
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    def forget(self, digest: str) -> None:
        """Note that NATS no longer accepts these credentials."""
        self._known.pop(digest, None)

    @contextlib.asynccontextmanager
    async def place(self, digest: str, address: str) -> AsyncIterator[None]:
        """Hold a place; raises Overloaded if none became free in time."""
        if digest in self._known:
            yield
            return
        await self._wait(address)
        try:
            yield
        finally:
            self._leave(address)

    def _has_place(self, address: str) -> bool:
        return self._all < _FOR_ALL and self._taken.get(address, 0) < _FOR_ADDRESS

    def _take(self, address: str) -> None:
        self._all += 1
        self._taken[address] = self._taken.get(address, 0) + 1

    async def _wait(self, address: str) -> None:
        if self._has_place(address) and not any(waiting == address for waiting, _ in self._queue):
            self._take(address)
            return
        self._alarm.ring()
        if len(self._queue) >= _WAITING:
            raise Overloaded("too many credentials are being checked")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (address, turn)
        self._queue.append(entry)
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave(address)  # the place was assigned just before the time-out
            else:
                self._queue.remove(entry)
            if isinstance(error, TimeoutError):
                raise Overloaded("too many credentials are being checked") from None
            raise

    def _leave(self, address: str) -> None:
        self._all -= 1
        left = self._taken[address] - 1
        if left:
            self._taken[address] = left
        else:
            del self._taken[address]
        for entry in list(self._queue):
            waiting, turn = entry
            if self._has_place(waiting) and not turn.done():
                self._queue.remove(entry)
                self._take(waiting)
                turn.set_result(None)
                return
