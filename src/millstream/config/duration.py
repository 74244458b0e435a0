"""Durations in Go's notation: ``1h30m``, ``500ms``, ``1.5s``, ``-1m``; a bare ``0`` needs no unit."""

import re
from typing import Final

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # U+00B5, the micro sign
    "μs": 10**3,  # U+03BC, the Greek letter
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LIMIT: Final = 2**63  # nanoseconds, about 292 years


def parse_duration(text: str) -> float:
    """Return the duration in seconds; raise ValueError with the reason if `text` is not a duration."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    total, position = 0.0, 0
    while match := _PART.match(rest, position):
        total += float(match[1]) * _NANOSECONDS[match[2]]
        position = match.end()
    if not rest or position != len(rest):
        raise ValueError(f'"{text}" is not a duration such as "90s", "1h30m" or "500ms"')
    if total >= _LIMIT:
        raise ValueError(f'the duration "{text}" is too long')
    return (-total if text.startswith("-") else total) / 1e9
