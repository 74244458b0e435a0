"""Points in time as the API writes them: RFC 3339 with as many decimals as necessary.

In memory they are nanoseconds since 1970, because `datetime` has only microseconds.  A `Time` also keeps
the zone it was written in: nats-server returns a configured time as it was sent,
``2026-01-01T00:00:00.5+01:00``.  Go's zero time, 0001-01-01T00:00:00Z, means "never".

Error messages are Go's, because the API passes them on.
"""

import calendar
import re
import time
from datetime import datetime
from functools import lru_cache
from typing import Final, Self

from millstream.base.errors import MillstreamError

_SECOND: Final = 1_000_000_000
_MINUTES_OF_HOUR: Final = 60
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
# Not 24:00, which Python reads from 3.14 on, and Go does not.
_UTC: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?!24)[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")
_DIGITS: Final = re.compile(r"[0-9]+")
_ZONE: Final = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_FRACTION: Final = re.compile(r"[.,]([0-9]+)")
_YEAR_400_DAYS: Final = 146_097  # the calendar repeats after 400 years


class Time(int):
    """Nanoseconds since 1970 in UTC; written with an offset of `offset_s` seconds."""

    offset_s: int

    def __new__(cls, nanoseconds: int, offset_s: int = 0) -> Self:
        made = super().__new__(cls, nanoseconds)
        made.offset_s = offset_s
        return made

    def __repr__(self) -> str:
        return f"Time({format_time(self)})"


ZERO_TIME: Final = Time(-62_135_596_800 * _SECOND)


class TimeError(MillstreamError):
    """A text is not a time."""


def format_time(nanoseconds: int) -> str:
    """Return the RFC 3339 text of nanoseconds since 1970: in the zone of a `Time`, otherwise in UTC."""
    offset_s = nanoseconds.offset_s if isinstance(nanoseconds, Time) else 0
    seconds, fraction = divmod(nanoseconds, _SECOND)
    if fraction % 10 and not offset_s:  # nine of ten
        return f"{_whole_second(seconds)}.{fraction:09d}Z"
    text = _whole_second(seconds + offset_s)
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if not offset_s:
        return text + "Z"
    hours, minutes = divmod(abs(offset_s) // 60, _MINUTES_OF_HOUR)
    return f"{text}{'-' if offset_s < 0 else '+'}{hours:02d}:{minutes:02d}"


@lru_cache(maxsize=64)  # many messages share a second
def _whole_second(seconds: int) -> str:
    moment = time.gmtime(seconds)
    return (
        f"{moment.tm_year:04d}-{moment.tm_mon:02d}-{moment.tm_mday:02d}"
        f"T{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}"
    )


def parse_time(text: str) -> Time:
    """Parse an RFC 3339 time; raise TimeError if `text` is not one."""
    found = _UTC.fullmatch(text)
    if found is not None:
        try:
            seconds = int(datetime.fromisoformat(found[1] + "+00:00").timestamp())
        except ValueError:
            pass  # year 0, or a value out of range, which the parser below reports
        else:
            return Time(seconds * _SECOND + int((found[2] or "0").ljust(9, "0")))
    return _Parser(text).time()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def time(self) -> Time:
        year = self._number("2006", 4)
        self._separator("-")
        month = self._number("01", 2)
        if not 1 <= month <= 12:
            raise self._out_of_range("month")
        self._separator("-")
        day = self._number("02", 2)
        self._separator("T")
        hour = self._number("15", 2, least_digits=1)
        if hour > 23:
            raise self._out_of_range("hour")
        self._separator(":")
        minute = self._number("04", 2)
        if minute > 59:
            raise self._out_of_range("minute")
        self._separator(":")
        second = self._number("05", 2)
        if second > 59:
            raise self._out_of_range("second")
        fraction = self._fraction()
        offset_s = self._zone()
        if self._at < len(self._text):
            raise TimeError(f"parsing time {_quoted(self._text)}: extra text: {_quoted(self._rest)}")
        if not 1 <= day <= calendar.monthrange(year or 400, month)[1]:
            raise self._out_of_range("day")
        shifted = year or 400  # Python has no year 0
        seconds = calendar.timegm((shifted, month, day, hour, minute, second))
        if not year:
            seconds -= _YEAR_400_DAYS * 24 * 3600
        return Time((seconds - offset_s) * _SECOND + fraction, offset_s)

    @property
    def _rest(self) -> str:
        return self._text[self._at :]

    def _number(self, element: str, most_digits: int, least_digits: int | None = None) -> int:
        found = _DIGITS.match(self._text, self._at, self._at + most_digits)
        if found is None or len(found[0]) < (least_digits or most_digits):
            raise self._unreadable(element)
        self._at = found.end()
        return int(found[0])

    def _separator(self, separator: str) -> None:
        if not self._text.startswith(separator, self._at):
            raise self._unreadable(separator)
        self._at += 1

    def _fraction(self) -> int:
        found = _FRACTION.match(self._text, self._at)
        if found is None:
            return 0
        self._at = found.end()
        return int(found[1][:9].ljust(9, "0"))

    def _zone(self) -> int:
        if self._text.startswith("Z", self._at):
            self._at += 1
            return 0
        found = _ZONE.match(self._text, self._at)
        if found is None:
            raise self._unreadable("Z07:00")
        self._at = found.end()
        hours, minutes = int(found[2]), int(found[3])
        if hours > 24:
            raise self._out_of_range("time zone offset hour")
        if minutes > 60:
            raise self._out_of_range("time zone offset minute")
        offset_s = (hours * _MINUTES_OF_HOUR + minutes) * 60
        return -offset_s if found[1] == "-" else offset_s

    def _unreadable(self, element: str) -> TimeError:
        return TimeError(
            f'parsing time {_quoted(self._text)} as "{_LAYOUT}": '
            f'cannot parse {_quoted(self._rest)} as "{element}"'
        )

    def _out_of_range(self, what: str) -> TimeError:
        return TimeError(f"parsing time {_quoted(self._text)}: {what} out of range")


def _quoted(text: str) -> str:
    """Return `text` in double quotes, with every byte that is not printable ASCII escaped."""
    shown = (
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in text.encode(errors="replace")
    )
    return f'"{"".join(shown)}"'
