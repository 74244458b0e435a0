"""Durations and watermarks of settings as Spark wants them; no Spark is needed to check them."""

import re
from typing import Final

from millstream.spark import option_values
from millstream.spark.errors import OptionError

_WATERMARK: Final = re.compile(r"(?P<column>[A-Za-z_][\w.]*)\s+(?P<delay>\S.*)")


def split_watermark(text: str) -> tuple[str, float]:
    """Column and delay in seconds of `time 30 seconds`."""
    found = _WATERMARK.fullmatch(text.strip())
    if found is None:
        raise OptionError(f"a watermark is a column and a delay, such as 'time 30 seconds', not {text!r}")
    return found["column"], option_values.duration("watermark", found["delay"])


def milliseconds(seconds: float) -> str:
    """An interval for Spark."""
    return f"{round(seconds * 1000)} milliseconds"


def interval(name: str, text: str) -> str:
    """A duration of the settings as an interval for Spark."""
    return milliseconds(option_values.duration(name, text))
