"""Parsing of values of flags: durations, sizes, times, headers, names.

Each function has the name of the flag as a parameter, for the text of UsageError, which is one sentence.
"""

import re
import time
from collections.abc import Iterable
from typing import Final

from millstream.base.durations import read_seconds
from millstream.cli.endings import UsageError
from millstream.golang.time import TimeError, format_time, parse_time

SECOND: Final = 1_000_000_000
UNLIMITED: Final = ("-1", "none", "unlimited", "never")
_PARTS: Final = re.compile(r"\d+(?:\.\d+)?\s*[a-zµ]+", re.IGNORECASE)
_LONG: Final = {"w": 7 * 86_400.0, "y": 365 * 86_400.0, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_DATE: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?))?(Z|[+-]\d{2}:\d{2})?"
)


def read_duration(text: str, flag: str) -> int:
    """Return nanoseconds of ``30s``, ``1h30m``, ``7d``, ``2 weeks`` or a number of seconds."""
    text = text.strip()
    try:
        return round(_seconds(text) * SECOND)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is no duration; write 30s, 5m, 1h30m or 7d") from None


def _seconds(text: str) -> float:
    parts = _PARTS.findall(text)
    if not parts:
        value = float(text)
        if not 0 <= value < 1e10:
            raise ValueError
        return value
    if re.sub(r"\s", "", "".join(parts)) != re.sub(r"\s", "", text):
        raise ValueError
    total = 0.0
    for part in parts:
        number = re.match(r"[\d.]+", part)
        assert number is not None
        unit = part[number.end() :].strip().lower()
        unit = {"week": "w", "weeks": "w", "year": "y", "years": "y"}.get(unit, unit)
        total += float(number[0]) * _LONG[unit] if unit in _LONG else read_seconds(part)
    return total


def read_limit(text: str, flag: str) -> int:
    """Return a count, or -1 for ``unlimited``."""
    if text.strip().lower() in UNLIMITED:
        return -1
    try:
        value = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = -1
    if value < 0:
        raise UsageError(f"{flag}: {text!r} is no number; write a whole number or `unlimited`")
    return value


def read_size(text: str, flag: str) -> int:
    """Return bytes of ``10MB``, ``1.5GiB`` or a number, or -1 for ``unlimited``; units are powers of 1024."""
    if text.strip().lower() in UNLIMITED:
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{flag}: {text!r} is no size; write 512, 64KB, 10MB or 1.5GB")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def read_moment(text: str, flag: str, *, ahead: bool = False) -> str:
    """Return a time as RFC 3339; a duration counts back from now, or with `ahead` into the future."""
    text = text.strip()
    found = _DATE.fullmatch(text)
    try:
        if found is None:
            distance = round(_seconds(text) * SECOND)
            return format_time(time.time_ns() + (distance if ahead else -distance))
        day, clock, zone = found.groups()
        return format_time(parse_time(f"{day}T{_whole(clock)}{zone or _zone_here(day)}"))
    except (ValueError, TimeError, OverflowError, OSError):
        example = "30m, 2026-11-18 or 2026-11-18T06:00:00Z"
        raise UsageError(f"{flag}: {text!r} is no time; write {example}") from None


def _whole(clock: str | None) -> str:
    if not clock:
        return "00:00:00"
    return f"{clock}:00" if clock.count(":") == 1 else clock


def _zone_here(day: str) -> str:
    """Return the offset of this machine's zone on a day."""
    offset = time.localtime(time.mktime(time.strptime(day, "%Y-%m-%d"))).tm_gmtoff
    sign = "-" if offset < 0 else "+"
    return f"{sign}{abs(offset) // 3600:02d}:{abs(offset) % 3600 // 60:02d}"


def read_headers_given(values: Iterable[str] | None, flag: str = "--header") -> list[tuple[str, str]]:
    """Return names and values of ``Name: value`` or ``Name:value``."""
    found = []
    for text in values or ():
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise UsageError(f"{flag}: {text!r} is no header; write Name:value")
        found.append((name.strip(), value.strip()))
    return found


def read_pairs(values: Iterable[str] | None, flag: str) -> dict[str, str]:
    """Return keys and values of ``key=value``."""
    found = {}
    for text in values or ():
        key, equal, value = text.partition("=")
        if not equal or not key:
            raise UsageError(f"{flag}: {text!r} is no pair; write key=value")
        found[key] = value
    return found


def read_list(values: Iterable[str] | None) -> list[str]:
    """Return the items of a flag that may be repeated and may have commas."""
    return [item.strip() for text in values or () for item in text.split(",") if item.strip()]


def check_name(name: str, what: str) -> str:
    """Return a name of a stream, consumer or bucket; raises UsageError if no server accepts it."""
    bad = sorted({each for each in name if each.isspace() or each in ".*>/\\" or not each.isprintable()})
    if not name or bad:
        why = "is empty" if not name else f"has {', '.join(map(repr, bad))} in it"
        raise UsageError(f"{name!r} is no name of a {what}: it {why}")
    if len(name.encode(errors="replace")) > 255:
        raise UsageError(f"a name of a {what} has at most 255 bytes")
    return name
