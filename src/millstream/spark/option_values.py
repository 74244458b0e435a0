"""Convert the text of an option to a value: numbers, sizes, durations, times, lists.

Every function takes the option's name for its error, and raises `OptionError` for text that means nothing.
Not here: which options there are (`option_table`).
"""

import re
from datetime import UTC, datetime
from typing import Final

from millstream.base.durations import read_seconds
from millstream.tables.errors import OptionError

_NUMBER_AND_UNIT: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]*)")

_BYTES: Final = {
    "": 1, "b": 1,
    "k": 1024, "kb": 1024, "kib": 1024,
    "m": 1024**2, "mb": 1024**2, "mib": 1024**2,
    "g": 1024**3, "gb": 1024**3, "gib": 1024**3,
}  # fmt: skip


def boolean(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise OptionError(f"option {name} is true or false, not {text!r}")


def integer(name: str, text: str, *, least: int = 1) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        raise OptionError(f"option {name} is a whole number, not {text!r}") from None
    if value < least:
        raise OptionError(f"option {name} is at least {least}, not {value}")
    return value


def size(name: str, text: str) -> int:
    """Bytes: `8m`, `512k`, `1g` or a plain number."""
    found = _NUMBER_AND_UNIT.fullmatch(text.strip())
    factor = _BYTES.get(found[2].lower()) if found else None
    if found is None or factor is None or float(found[1]) <= 0:
        raise OptionError(f"option {name} is a size such as 8m or 524288, not {text!r}")
    return int(float(found[1]) * factor)


def duration(name: str, text: str) -> float:
    """Seconds: `120s`, `15m`, `500ms`, `10 minutes`, or a plain number of seconds."""
    seconds = _seconds(name, text)
    if seconds <= 0:
        raise OptionError(f"option {name} is a duration above zero, not {text!r}")
    return seconds


def words(name: str, text: str) -> tuple[str, ...]:
    """The parts of a comma list, in order; none may be empty or come twice."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise OptionError(f"option {name} has an empty part: {text!r}")
    if len(set(parts)) != len(parts):
        raise OptionError(f"option {name} names something twice: {text!r}")
    return parts


def choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed`, in its own spelling, whatever the case it was written in."""
    for known in allowed:
        if known.lower() == text.strip().lower():
            return known
    raise OptionError(f"option {name} is one of {', '.join(allowed)}, not {text!r}")


def pattern(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise OptionError(f"option {name} is not a regular expression: {error}") from None


def moment(name: str, text: str, now_ns: int) -> int:
    """Nanoseconds since 1970: of milliseconds, of ISO 8601, or of a time before `now_ns` (`-10 minutes`)."""
    text = text.strip()
    if text.isdigit():
        return int(text) * 1_000_000
    if text.startswith("-"):
        return now_ns + round(_seconds(name, text) * 1_000_000_000)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"option {name} is milliseconds since 1970, ISO 8601, or a time ago such as '-10 minutes', "
            f"not {text!r}"
        ) from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    seconds = int(parsed.replace(microsecond=0).timestamp())
    return seconds * 1_000_000_000 + parsed.microsecond * 1000


def _seconds(name: str, text: str) -> float:
    try:
        return read_seconds(text)
    except ValueError as error:
        raise OptionError(f"option {name} {error}") from None
