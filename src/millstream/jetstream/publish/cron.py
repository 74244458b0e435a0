"""Times of a schedule: `@at`, `@every`, and cron patterns of six fields, with seconds.

    second minute hour day-of-month month day-of-week      */5 0-30/10 8,20 ? JAN-MAR mon-fri

All times are wall-clock nanoseconds.  A repeating schedule that missed its time, because the server was down,
is due once and not for every time it missed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from millstream.base.errors import MillstreamError
from millstream.golang.duration import DurationError, parse_duration
from millstream.golang.time import Time, TimeError, parse_time

_NS: Final = 1_000_000_000
_YEARS_AHEAD: Final = 5
_SHORTHANDS: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS: Final = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)  # noqa: SIM905
}
_DAYS: Final = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}  # noqa: SIM905
_BOUNDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_NUMBER: Final = re.compile(r"\+?[0-9]+")
_LOCAL_ZONE: Final = "/etc/localtime"
_ZONE_NAME: Final = re.compile(r"[\w+-]{1,32}(?:/[\w+-]{1,32}){0,3}", re.ASCII)


class ScheduleError(MillstreamError):
    """A pattern is invalid."""


class Due(NamedTuple):
    """The next time of a schedule, and whether it fires again after that."""

    time: Time
    repeats: bool


class _Field(NamedTuple):
    values: frozenset[int]
    any: bool  # the field is `*` or `?`


def zone_of(name: str) -> tzinfo | None:
    """Return the time zone called `name`, or None."""
    if name == "UTC":
        return UTC
    if not _ZONE_NAME.fullmatch(name):
        return None  # `ZoneInfo` recurses for each part of a name
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name == "Local":
            with open(_LOCAL_ZONE, "rb") as file:
                return ZoneInfo.from_file(file)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def next_due(pattern: str, zone: tzinfo | None, after_ns: int, now_ns: int) -> Due:
    """Return when a schedule that fired or was stored at `after_ns` fires next; raise ScheduleError."""
    if pattern.startswith("@at "):
        if zone is not None:
            raise ScheduleError("@at has a time zone of its own")
        try:
            return Due(parse_time(pattern[4:]), repeats=False)
        except TimeError as error:
            raise ScheduleError(str(error)) from None
    if pattern.startswith("@every "):
        if zone is not None:
            raise ScheduleError("@every has no time zone")
        return Due(Time(_next_of_interval(pattern[7:], after_ns, now_ns)), repeats=True)
    fields = _fields(_SHORTHANDS.get(pattern, pattern))
    due = _next_of_fields(fields, zone or UTC, after_ns)
    if due < now_ns:
        due = _next_of_fields(fields, zone or UTC, _rounded(now_ns))
    return Due(due, repeats=True)


def _next_of_interval(text: str, after_ns: int, now_ns: int) -> int:
    try:
        interval = parse_duration(text)
    except DurationError as error:
        raise ScheduleError(str(error)) from None
    if interval < _NS:
        raise ScheduleError("an interval has at least a second")
    due = _rounded(after_ns) + interval
    return due if due >= now_ns else _rounded(now_ns) + interval


def _rounded(nanoseconds: int) -> int:
    """Round to the nearest second."""
    return (nanoseconds + _NS // 2) // _NS * _NS


# -- fields -------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _fields(pattern: str) -> tuple[_Field, ...]:
    texts = pattern.split()
    if len(texts) != len(_BOUNDS):
        raise ScheduleError(f"a pattern has {len(_BOUNDS)} fields, not {len(texts)}")
    return tuple(_field(text, *bounds) for text, bounds in zip(texts, _BOUNDS, strict=True))


def _field(text: str, least: int, most: int, names: dict[str, int]) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in text.split(","):
        if part:
            numbers, part_is_any = _range(part, least, most, names)
            values.update(numbers)
            is_any = is_any or part_is_any
    if not values:
        raise ScheduleError(f"{text} matches nothing")
    return _Field(frozenset(values), is_any)


def _range(text: str, least: int, most: int, names: dict[str, int]) -> tuple[range, bool]:
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    is_any = low in ("*", "?")
    if is_any:
        first, last = least, most
    elif len(highs) > 1:
        raise ScheduleError(f"too many hyphens: {text}")
    else:
        first = _number(low, names)
        last = _number(highs[0], names) if highs else first
    step = 1
    if steps:
        if len(steps) > 1:
            raise ScheduleError(f"too many slashes: {text}")
        step = _number(steps[0], {})
        if not highs:
            last = most
        is_any = is_any and step <= 1
    if first < least or last > most or first > last or step == 0:
        raise ScheduleError(f"out of range: {text}")
    return range(first, last + 1, step), is_any


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if _NUMBER.fullmatch(text) is None or len(text) > 18:
        raise ScheduleError(f"not a number: {text}")
    return int(text)


def _next_of_fields(fields: tuple[_Field, ...], zone: tzinfo, after_ns: int) -> Time:
    """Return the first second after `after_ns` that all fields match."""
    second, minute, hour, _, month, _ = fields
    seconds = after_ns // _NS + 1
    moment = datetime.fromtimestamp(seconds, zone)
    last_year = moment.year + _YEARS_AHEAD
    while moment.year <= last_year:
        if moment.month not in month.values:
            start = datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1, tzinfo=zone)
            seconds = round(start.timestamp())
        elif not _day_matches(fields, moment):
            day = moment.date() + timedelta(days=1)
            seconds = round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())
        elif moment.hour not in hour.values:
            seconds += 3600 - moment.minute * 60 - moment.second
        elif moment.minute not in minute.values:
            seconds += 60 - moment.second
        elif moment.second not in second.values:
            seconds += 1
        else:
            offset = moment.utcoffset() or timedelta()
            return Time(seconds * _NS, round(offset.total_seconds()))
        moment = datetime.fromtimestamp(seconds, zone)
    raise ScheduleError(f"nothing within {_YEARS_AHEAD} years")


def _day_matches(fields: tuple[_Field, ...], moment: datetime) -> bool:
    """Return True if both kinds of day match or, with neither of them open, if one does."""
    _, _, _, of_month, _, of_week = fields
    month_fits = moment.day in of_month.values
    week_fits = moment.isoweekday() % 7 in of_week.values
    if of_month.any or of_week.any:
        return month_fits and week_fits
    return month_fits or week_fits
