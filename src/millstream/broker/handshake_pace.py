"""Begin a few TLS handshakes in each round of the loop, however many clients connect at once.

A handshake takes the loop up to a millisecond, most of it for one signature, as soon as the client's first
bytes are there.  A thousand clients that come together would hold up all others for a second.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_AT_ONCE: Final = 2


class HandshakePace:
    """The handshakes of one listener; `soon` calls back in the next round of the loop."""

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        self._soon = soon
        self._begun = 0  # in this round
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Return when a handshake may begin."""
        if self._begun < _AT_ONCE:
            self._begin()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self) -> None:
        self._begun += 1
        if self._begun == 1:
            self._soon(self._next_round)

    def _next_round(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < _AT_ONCE:
            turn = self._waiting.popleft()
            if not turn.done():  # the client may be gone
                turn.set_result(None)
                self._begin()
