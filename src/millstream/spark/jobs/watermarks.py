"""Convert durations and watermarks of settings for Spark; checking them does not need Spark."""

import re
from typing import Final

from millstream.spark import option_values
from millstream.tables.errors import OptionError

_WATERMARK: Final = re.compile(r"(?P<column>[A-Za-z_][\w.]*)\s+(?P<delay>\S.*)")


def split_watermark(text: str) -> tuple[str, float]:
    """Return column and delay in seconds of `time 30 seconds`."""
    found = _WATERMARK.fullmatch(text.strip())
    if found is None:
        raise OptionError(f"a watermark is a column and a delay, such as 'time 30 seconds', not {text!r}")
    return found["column"], option_values.duration("watermark", found["delay"])


def milliseconds(seconds: float) -> str:
    """Return an interval for Spark."""
    return f"{round(seconds * 1000)} milliseconds"


def interval(name: str, text: str) -> str:
    """Convert a duration of the settings to an interval for Spark."""
    return milliseconds(option_values.duration(name, text))
