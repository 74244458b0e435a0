"""Parse the delay before a redelivery: `-NAK {"delay": 5000000000}` or `-NAK 5s`."""

from __future__ import annotations

from millstream.golang.duration import DurationError, parse_duration
from millstream.golang.json import FEW_VALUES
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.requests import NakOptions


def delay_of(argument: bytes) -> int | None:
    """Return the delay in ns; None for a redelivery at once, also if the delay is invalid."""
    text = argument.strip()
    if not text:
        return None
    try:
        if text.startswith(b"{"):
            return decode_lenient(text, NakOptions, FEW_VALUES).delay
        return parse_duration(text.decode())
    except (JsonError, DurationError, UnicodeDecodeError):
        return None
