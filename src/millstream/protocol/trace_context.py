"""Find the W3C trace context of a message: its header `traceparent`, if that trace is sampled.

    traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 version, trace id, span id of the sender, flags; 01: sampled

Compiled, because every message with headers is looked at while spans are recorded.
"""

import re
from typing import NamedTuple

CONTEXT_SIZE = 55
_CONTEXT_SIZE = CONTEXT_SIZE
_NAME = b"traceparent:"
_NAME_SIZE = len(_NAME)
# No version ff, and no id of zeros.
_CONTEXT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
_LF = ord("\n")
_BLANK = ord(" ")
_DASH = ord("-")
_ZERO = ord("0")
_LOWER = 0x20  # the bit that makes a letter small


class TraceContext(NamedTuple):
    """A sampled trace, and the span in it that sent a message."""

    trace_id: str
    span_id: str


def find_sampled(p: bytes, start: int, size: int) -> int:
    """Return where the first `traceparent` in a block of headers begins, -1 if there is none.

    It has the right size and dashes, and the flag of sampled traces; `read_context` reads the rest.
    """
    at = start
    stop = start + size
    while at + 1 + _NAME_SIZE + _CONTEXT_SIZE < stop:
        if p[at] != _LF or not _is_name(p, at + 1):
            at += 1
            continue
        at += 1 + _NAME_SIZE
        while at < stop and p[at] == _BLANK:
            at += 1
        if at + _CONTEXT_SIZE >= stop or p[at + _CONTEXT_SIZE] > _BLANK:
            return -1
        if p[at + 2] != _DASH or p[at + 35] != _DASH or p[at + 52] != _DASH:
            return -1
        return at if _is_odd(p[at + 54]) else -1
    return -1


def _is_name(p: bytes, at: int) -> bool:
    name = _NAME
    for index in range(_NAME_SIZE):  # noqa: SIM110 - compiled
        if (p[at + index] | _LOWER) != name[index]:
            return False
    return True


def _is_odd(digit: int) -> bool:
    """Return True for an odd hexadecimal digit: `0` is even, and so is the `a`, whose code is odd."""
    return digit > _ZERO and digit % 2 == (1 if digit <= _ZERO + 9 else 0)


def read_context(text: bytes) -> TraceContext | None:
    """Return the trace context in `CONTEXT_SIZE` bytes, None if they are not valid."""
    found = _CONTEXT.fullmatch(text)
    return TraceContext(found[1].decode(), found[2].decode()) if found is not None else None


def make_context(trace_id: str, span_id: str) -> str:
    """Return the value of `traceparent` for a span of a sampled trace."""
    return f"00-{trace_id}-{span_id}-01"
