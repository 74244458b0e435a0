"""Log lines about bounds that are reached: whoever reaches one can do so a million times a second."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

_SILENCE_NS: Final = 60_000_000_000


class Seldom:
    """Says the first, and from then on one in a minute, with how many there were in between."""

    def __init__(self, log: logging.Logger, now_ns: Callable[[], int]) -> None:
        self._log = log
        self._now_ns = now_ns
        self._quiet_until = 0
        self._unsaid = 0

    def tell(self, text: str, *values: object) -> None:
        now = self._now_ns()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        unsaid, self._unsaid = self._unsaid, 0
        self._quiet_until = now + _SILENCE_NS
        more = f" (and {unsaid} times since it was last said)" if unsaid else ""
        self._log.warning(text + more, *values)
