"""Go's format of times, durations and JSON, so that scripts for nats-server can read our documents.

The functions convert numbers to text and do not depend on their meaning.
"""

from typing import Any, Final

import msgspec

from millstream.golang.duration import format_duration
from millstream.golang.json import escape_html

_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000
_MICROSECOND: Final = 1_000
_DAYS_OF_YEAR: Final = 365
INDENT: Final = 2  # columns of a level

_encoder = msgspec.json.Encoder()


def uptime(nanoseconds: int) -> str:
    """Return a duration in whole seconds with the units that it needs, such as ``1d0h3m4s``."""
    seconds = max(nanoseconds, 0) // _SECOND
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    years, days = divmod(days, _DAYS_OF_YEAR)
    amounts = ((years, "y"), (days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    first = next((index for index, (amount, _) in enumerate(amounts) if amount), len(amounts) - 1)
    return "".join(f"{amount}{unit}" for amount, unit in amounts[first:])


def round_trip(seconds: float) -> str:
    """Return a round-trip time; below a millisecond the nanoseconds are left out as noise."""
    nanoseconds = round(seconds * _SECOND)
    if _MICROSECOND < nanoseconds < _MILLISECOND:
        nanoseconds -= nanoseconds % _MICROSECOND
    return format_duration(nanoseconds)


def nanoseconds(seconds: float) -> int:
    return round(seconds * _SECOND)


def number(value: float) -> float | int:
    """Return a float, or an int if it has no fraction, so that JSON shows no decimal point."""
    return int(value) if value.is_integer() else value


def compact(document: Any) -> bytes:
    return escape_html(_encoder.encode(document))


def pretty(document: Any) -> bytes:
    return indented(compact(document))


def indented(json: bytes, column: int = 0) -> bytes:
    """Return the JSON indented; all lines but the first begin at `column`."""
    text = msgspec.json.format(json, indent=INDENT)
    return text.replace(b"\n", b"\n" + b" " * column) if column else text


def text_of(value: bytes) -> str:
    """Return a subject as text; subjects may hold any bytes."""
    return value.decode(errors="replace")
