"""Parse decimal numbers from untrusted text in time that does not grow with the square of the digits.

``int`` takes quadratic time and raises ValueError for more than 4,300 digits.  No number of the protocol
needs more than twenty.
"""

from __future__ import annotations

import re
from typing import Final

BEYOND: Final = 10**20  # stands for every number of more than twenty digits

_WORD: Final = 2**64
_AT_ONCE: Final = 18
_INTEGER: Final = re.compile(rb"([+-]?)0*([0-9]+)")


def read_whole(text: bytes | str) -> int | None:
    """Return the value of ASCII digits, at most BEYOND; None for any other text."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    return read_integer(raw) if raw.isdigit() else None


def read_integer(text: bytes | str) -> int | None:
    """Return the value of ASCII digits with an optional sign, within ±BEYOND; None for any other text."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    found = _INTEGER.fullmatch(raw)
    if found is None:
        return None
    number = int(found[2]) if len(found[2]) <= 20 else BEYOND
    return -number if found[1] == b"-" else number


def read_wrapped(digits: bytes | str) -> int:
    """Return the value of ASCII digits modulo 2**64."""
    total = 0
    for at in range(0, len(digits), _AT_ONCE):
        part = digits[at : at + _AT_ONCE]
        total = (total * 10 ** len(part) + int(part)) % _WORD
    return total
