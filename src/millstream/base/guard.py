"""A handler that fails fails alone: what is called for a client, a timer or a commit is called through here.

Errors that a caller expects are its own business (``MillstreamError`` and its kind).  Everything else is a
defect: it is logged with its traceback, once a minute for each place and cause, and whoever called goes on
with the next client, timer or message.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, Final

from millstream.base.complaints import Complaints

_complaints: Final = Complaints(logging.getLogger("millstream.guard"))


def report(place: str, error: BaseException) -> None:
    """Log a defect: `place` says in plain words what was being done."""
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].filename, frames[-1].lineno) if frames else None
    _complaints.tell(
        (place, type(error), line), "%s failed: %s: %s", place, type(error).__name__, error, error=error
    )


def alone(place: str, function: Callable[..., object], *arguments: Any) -> bool:
    """Call `function`; False if it raised, which is reported."""
    try:
        function(*arguments)
    except Exception as error:
        report(place, error)
        return False
    return True
