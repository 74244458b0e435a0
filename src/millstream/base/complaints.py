"""Rate-limited log lines for events that clients can cause at will.

Each line has a `kind`, which identifies the problem and where it occurred.  The first of its kind is logged
at once; those within the next minute are counted, and the next logged line reports the count.  The table of
kinds is bounded: when it is full the oldest kind is dropped and may be logged again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

from millstream.base.rarely import Rarely

_QUIET_S: Final = 60.0
_MAX_KINDS: Final = 256


class Complaints:
    """The rate-limited lines of one logger."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._kinds: dict[Hashable, Rarely] = {}

    def tell(
        self,
        kind: Hashable,
        text: str,
        *arguments: Any,
        level: int = logging.ERROR,
        error: BaseException | None = None,
    ) -> None:
        """Log `text`, with the traceback of `error`, unless this kind was logged within the last minute."""
        rarely = self._kinds.get(kind)
        if rarely is None:
            if len(self._kinds) >= _MAX_KINDS:
                del self._kinds[next(iter(self._kinds))]
            rarely = self._kinds[kind] = Rarely(_QUIET_S, self._now)
        count = rarely.due()
        if not count:
            return
        if count > 1:
            text, arguments = f"{text} (and %d times before)", (*arguments, count - 1)
        self._log.log(level, text, *arguments, exc_info=error)

    def warn(self, text: str, *arguments: Any) -> None:
        """Log a warning; lines with the same `text` are of one kind."""
        self.tell(text, text, *arguments, level=logging.WARNING)
