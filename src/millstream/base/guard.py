"""Isolate failures: handlers of clients, timers and commits are called through this module.

Expected errors (``MillstreamError``) are handled by the caller.  Everything else is a defect: it is logged
with its traceback, once a minute for each place and cause, and the caller continues with the next client,
timer or message.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, Final

from millstream.base.complaints import Complaints

_complaints: Final = Complaints(logging.getLogger("millstream.guard"))


def report(place: str, error: BaseException) -> None:
    """Log a defect; `place` says in plain words what was being done."""
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].filename, frames[-1].lineno) if frames else None
    _complaints.tell(
        (place, type(error), line), "%s failed: %s: %s", place, type(error).__name__, error, error=error
    )


def alone(place: str, function: Callable[..., object], *arguments: Any) -> bool:
    """Call `function`; if it raises, report the error and return False."""
    try:
        function(*arguments)
    except Exception as error:
        report(place, error)
        return False
    return True
