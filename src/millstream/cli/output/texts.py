"""Readable texts for values: sizes, counts, times, durations, payloads.

Text from outside (subjects, headers, payloads, names) is always escaped: `safe` replaces characters that a
terminal would act on, and line ends.
"""

import base64
from datetime import UTC, datetime
from typing import Any, Final

from millstream.base.owned import visible
from millstream.golang.time import TimeError, parse_time

_SECOND: Final = 1_000_000_000
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))
_NEVER: Final = "0001-01-01T00:00:00Z"


def safe(value: object, most: int = 0) -> str:
    """Return a text without control characters; longer than `most` characters, it is cut with `…`."""
    text = value if isinstance(value, str) else str(value)
    if not text.isprintable():
        text = visible(text)
    return f"{text[: most - 1]}…" if most and len(text) > most else text


def payload_text(payload: bytes, most: int = 0) -> str:
    """Return a readable payload: text with escapes, or the number of bytes if it is binary."""
    if b"\0" in payload[:1024]:
        return _binary(payload)
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return _binary(payload)
    return safe(text, most)


def _binary(payload: bytes) -> str:
    shown = payload[:32].hex(" ")
    return f"({size_text(len(payload))} of binary data: {shown}{' …' if len(payload) > 32 else ''})"


def payload_fields(payload: bytes) -> dict[str, str]:
    """Return a payload for JSON: `data` if it is text, `base64` otherwise, as in the gateway's API."""
    try:
        return {"data": payload.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(payload).decode()}


def header_fields(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Return headers for JSON: a list of values for each name."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def size_text(count: float) -> str:
    """Return a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def count_text(count: float) -> str:
    """Return a number with commas."""
    return f"{count:,.0f}"


def limit_text(value: object, size: bool = False) -> str:
    """Return the text of a limit; 0 and negative numbers mean no limit."""
    if not isinstance(value, int) or value <= 0:
        return "unlimited"
    return size_text(value) if size else count_text(value)


def duration_text(nanoseconds: object) -> str:
    """Return a duration such as ``2h30m``, ``1.5s`` or ``20ms``; ``-`` for none."""
    if not isinstance(nanoseconds, int | float) or nanoseconds <= 0:
        return "-"
    seconds = nanoseconds / _SECOND
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}µs"
    if seconds < 1:
        return f"{seconds * 1e3:.4g}ms"
    if seconds < 60:
        return f"{seconds:.4g}s"
    text, left = "", round(seconds)
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            text += f"{count}{unit}"
    return text + (f"{left}s" if left else "")


def time_text(value: object) -> str:
    """Return a time of the API in the zone of this machine; ``never`` for Go's zero."""
    nanoseconds = _nanoseconds(value)
    if nanoseconds is None:
        return "never"
    moment = datetime.fromtimestamp(nanoseconds / _SECOND, UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def since_text(value: object, now_s: float) -> str:
    """Return how long ago a time of the API was; ``never`` for Go's zero."""
    nanoseconds = _nanoseconds(value)
    if nanoseconds is None:
        return "never"
    return duration_text(max(round(now_s - nanoseconds / _SECOND), 0) * _SECOND).replace("-", "0s")


def _nanoseconds(value: object) -> int | None:
    if not isinstance(value, str) or value in ("", _NEVER):
        return None
    try:
        return parse_time(value)
    except TimeError:
        return None


def list_text(values: Any, most: int = 0) -> str:
    """Return the items of a list in one line; with `most`, the first ones and how many more there are."""
    items = [safe(each) for each in values or []]
    if most and len(items) > most:
        return f"{', '.join(items[:most])}, … {len(items) - most} more"
    return ", ".join(items)
