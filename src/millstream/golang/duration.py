"""Durations in Go's notation, exact to a nanosecond: ``1h30m``, ``500ms``, ``1.5s``."""

import re
from typing import Final

from millstream.base.decimals import read_whole
from millstream.base.errors import MillstreamError

_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MOST: Final = 2**63 - 1
_FRACTION_DIGITS: Final = 18  # further digits are less than a nanosecond, even of an hour


class DurationError(MillstreamError):
    """A text is not a duration, or one of more than 292 years (`too_long`)."""

    def __init__(self, text: str, *, too_long: bool) -> None:
        super().__init__(f'time: invalid duration "{text}"')
        self.too_long = too_long


def parse_duration(text: str) -> int:
    """Return the duration in nanoseconds; raise DurationError if `text` is not a duration."""
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    total, at = 0, 0
    while found := _PART.match(rest, at):
        unit = _UNITS[found[3]]
        total += (read_whole(found[1] or "0") or 0) * unit
        fraction = found[2][:_FRACTION_DIGITS] if found[2] else "0"
        total += int(fraction) * unit // 10 ** len(fraction)
        at = found.end()
    is_whole = bool(rest) and at == len(rest)
    if not is_whole or total > _MOST:
        raise DurationError(text, too_long=is_whole)
    return -total if negative else total


def format_seconds(seconds: int) -> str:
    """Format a number of seconds as Go does: ``5s``, ``1m30s``, ``1h0m0s``."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def format_duration(nanoseconds: int) -> str:
    """Format a duration as Go does: ``1h0m0s``, ``1.5s``, ``250ms``, ``0s``."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < _SECOND:
        unit = next((unit for unit in ("ms", "µs", "ns") if rest >= _UNITS[unit]), "s")
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, rest = divmod(rest, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, _SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(amount: int, unit: int) -> str:
    whole, part = divmod(amount, unit)
    fraction = f"{part:0{len(str(unit)) - 1}d}".rstrip("0") if part else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
