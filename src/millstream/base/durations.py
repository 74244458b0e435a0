"""Durations as people write them in options: ``30s``, ``500ms``, ``10 minutes``, or a number of seconds."""

import re
from typing import Final

_NUMBER_AND_UNIT: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_SECONDS: Final = {
    "": 1.0,
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip


def read_seconds(text: str) -> float:
    """Return the seconds of a duration; ValueError completes the sentence "this …"."""
    found = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"is a duration such as 30s or 10 minutes, not {text!r}")
    factor = _SECONDS.get(found[2].lower())
    if factor is None:
        raise ValueError(f"has a unit of time that is not known: {text!r}")
    return float(found[1]) * factor


def write_seconds(seconds: float) -> str:
    """Return a text that `read_seconds` reads."""
    return f"{seconds:g}s"
