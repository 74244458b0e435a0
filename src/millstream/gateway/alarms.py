"""The log's word about a bound that was reached: once, and then not again for a while."""

from __future__ import annotations

import logging
import time
from typing import Final

_LOG: Final = logging.getLogger("millstream.gateway")
_QUIET_S: Final = 60.0


class Alarm:
    """Of one bound; `text` says which it is and what to do about it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quiet_until = 0.0
        self._unsaid = 0

    def ring(self) -> None:
        """Say that the bound was reached."""
        now = time.monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} times more in the last minute)" if self._unsaid else ""
        _LOG.warning("%s%s", self._text, more)
        self._quiet_until = now + _QUIET_S
        self._unsaid = 0
