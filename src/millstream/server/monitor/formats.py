"""How Go writes times, durations and JSON, so that scripts made for nats-server read ours the same.

Numbers in, text out; nothing here knows what the numbers mean.
"""

import time
from typing import Any, Final

import msgspec

_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000
_MICROSECOND: Final = 1_000
_DAYS_OF_YEAR: Final = 365
INDENT: Final = 2  # columns of a level

_encoder = msgspec.json.Encoder()


def timestamp(wall_ns: int) -> str:
    """RFC 3339 in UTC with as many decimals as it takes."""
    seconds, fraction = divmod(wall_ns, _SECOND)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    return text + "Z"


def uptime(nanoseconds: int) -> str:
    """Whole seconds, shown with the units that are needed: ``1d0h3m4s``, never a fraction."""
    seconds = max(nanoseconds, 0) // _SECOND
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    years, days = divmod(days, _DAYS_OF_YEAR)
    amounts = ((years, "y"), (days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    first = next((index for index, (amount, _) in enumerate(amounts) if amount), len(amounts) - 1)
    return "".join(f"{amount}{unit}" for amount, unit in amounts[first:])


def duration(nanoseconds: int) -> str:
    """As Go prints a time.Duration: ``0s``, ``525µs``, ``1.027397ms``, ``1h0m2.5s``."""
    if nanoseconds < 0:
        return "-" + duration(-nanoseconds)
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < _SECOND:
        for unit, size in (("ms", _MILLISECOND), ("µs", _MICROSECOND), ("ns", 1)):
            if nanoseconds >= size:
                return _decimal(nanoseconds, size) + unit
    minutes, rest = divmod(nanoseconds, 60 * _SECOND)
    text = _decimal(rest, _SECOND) + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return text


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}." + f"{fraction:0{digits}d}".rstrip("0")


def round_trip(seconds: float) -> str:
    """A round trip time; below a millisecond the nanoseconds are noise and are left out."""
    nanoseconds = round(seconds * _SECOND)
    if _MICROSECOND < nanoseconds < _MILLISECOND:
        nanoseconds -= nanoseconds % _MICROSECOND
    return duration(nanoseconds)


def nanoseconds(seconds: float) -> int:
    return round(seconds * _SECOND)


def number(value: float) -> float | int:
    """A float that JSON shows without a decimal point if it has no fraction."""
    return int(value) if value.is_integer() else value


def compact(document: Any) -> bytes:
    return escape(_encoder.encode(document))


def pretty(document: Any) -> bytes:
    return indented(compact(document))


def indented(json: bytes, column: int = 0) -> bytes:
    """The same JSON on lines of its own; those behind the first begin at `column`."""
    text = msgspec.json.format(json, indent=INDENT)
    return text.replace(b"\n", b"\n" + b" " * column) if column else text


def quoted(text: str) -> str:
    """In double quotes, as Go's %q shows it."""
    return msgspec.json.encode(text).decode()


def text_of(value: bytes) -> str:
    """Subjects are any bytes; JSON is not."""
    return value.decode(errors="replace")


def escape(json: bytes) -> bytes:
    """The same JSON without the characters that mean something inside a web page, as Go writes it."""
    # Only strings can hold them.
    for character, escape in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        json = json.replace(character, escape)
    return json
