"""Decimal numbers in text that comes from outside: a million digits cost no more than twenty, and never fail.

``int`` takes time that grows with the square of the digits and refuses more than 4,300 of them with a
ValueError that nobody expects.  No number of the protocol needs more than twenty.
"""

from __future__ import annotations

import re
from typing import Final

BEYOND: Final = 10**20  # stands for all numbers that have more than twenty digits

_WORD: Final = 2**64
_AT_ONCE: Final = 18
_INTEGER: Final = re.compile(rb"([+-]?)0*([0-9]+)")


def read_whole(text: bytes | str) -> int | None:
    """The number that ASCII digits make, at most BEYOND; None for every other text."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    return read_integer(raw) if raw.isdigit() else None


def read_integer(text: bytes | str) -> int | None:
    """The same with a sign, which may be missing; from -BEYOND to BEYOND."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    found = _INTEGER.fullmatch(raw)
    if found is None:
        return None
    number = int(found[2]) if len(found[2]) <= 20 else BEYOND
    return -number if found[1] == b"-" else number


def read_wrapped(digits: bytes | str) -> int:
    """The number that digits make, without the multiples of 2**64 that it exceeds a word by."""
    total = 0
    for at in range(0, len(digits), _AT_ONCE):
        part = digits[at : at + _AT_ONCE]
        total = (total * 10 ** len(part) + int(part)) % _WORD
    return total
