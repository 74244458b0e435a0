"""Log lines that strangers can cause as often as they like: the first of a kind at once, the rest counted.

A complaint has a `kind`, which says what went wrong and where.  The first of its kind is logged; those that
follow within a minute are only counted, and the next one that is logged says how many there were.  The table
of kinds is bounded: when it is full the oldest kind is forgotten, and may be logged again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

_QUIET_S: Final = 60.0
_MAX_KINDS: Final = 256


class Complaints:
    """The complaints of one logger."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._kinds: dict[Hashable, tuple[float, int]] = {}  # when it was logged, and how many came since

    def tell(
        self,
        kind: Hashable,
        text: str,
        *arguments: Any,
        level: int = logging.ERROR,
        error: BaseException | None = None,
    ) -> None:
        """Log `text`, with the traceback of `error`, unless the same kind was logged a moment ago."""
        now = self._now()
        logged, unsaid = self._kinds.pop(kind, (now - _QUIET_S, 0))
        if now - logged < _QUIET_S:
            self._kinds[kind] = logged, unsaid + 1
            return
        if len(self._kinds) >= _MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = now, 0
        if unsaid:
            text, arguments = f"{text} (and %d times before)", (*arguments, unsaid)
        self._log.log(level, text, *arguments, exc_info=error)
