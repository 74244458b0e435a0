"""Find the lines of a header block without the interpreter lock.

    NATS/1.0\\r\\n            the first line, up to the first LF, is ignored
    Key: Value\\r\\n          blanks and tabs around the value are removed
    nonsense\\r\\n            a line without a colon, or with nothing before it, is left out
    \\r\\n                    the end

Keys are compared byte by byte, case-sensitive.  The values of a key are grouped, in their order, where the
key appeared first.  That compares all keys with each other, so a block of very many lines is first put in
order with a dictionary (``arrow.header_columns.in_order``).
"""

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.libc.string import memchr

MOST_LINES = 64  # lines of a block that needs no sorting
_NUMBERS = 4  # for each line: start and end of key and value
_CR = 13
_LF = 10
_SPACE = 32
_TAB = 9
_COLON = 58


def lines_end(p: bytes | bytearray, start: int, end: int) -> int:
    """Return the end of the lines in the block ``p[start:end]``: before the blank line, if there is one."""
    if end - start >= 2 and p[end - 2] == _CR and p[end - 1] == _LF:
        return end - 2
    return end


def lines_start(p: bytes | bytearray, start: int, end: int) -> int:
    """Return the start of the second line; `end` if there is none."""
    at = _find(p, _LF, start, end) + 1
    return at if 0 < at < end else end


def line_end(p: bytes | bytearray, start: int, end: int) -> int:
    """Return the end of the line that begins at `start`: its CR LF, or `end`."""
    at = start
    while True:
        at = _find(p, _LF, at, end)
        if at < 0:
            return end
        if at > start and p[at - 1] == _CR:
            return at - 1
        at += 1


def find_lines(p: bytes | bytearray, at: int, end: int, lines: Any, most: int, ordered: bool) -> int:
    """Record up to `most` of the lines in ``p[at:end]``; return their number, or -1 if there are more.

    If they are `ordered`, a line without a key is another value of the previous key.
    """
    count = 0
    while at < end:
        stop = line_end(p, at, end)
        colon = _find(p, _COLON, at, stop)
        if colon > at or (ordered and colon == at):
            if count == most:
                return -1
            value = colon + 1
            last = stop
            while value < last and (p[value] == _SPACE or p[value] == _TAB):
                value += 1
            while last > value and (p[last - 1] == _SPACE or p[last - 1] == _TAB):
                last -= 1
            lines[_NUMBERS * count] = at
            lines[_NUMBERS * count + 1] = colon
            lines[_NUMBERS * count + 2] = value
            lines[_NUMBERS * count + 3] = last
            count += 1
        at = stop + 2
    return count


def _find(p: bytes | bytearray, byte: int, start: int, end: int) -> int:
    """Return the position of the byte, or -1."""
    if start >= end:
        return -1
    if cython.compiled:
        source: Any = p
        found = cython.cast("const unsigned char*", memchr(source + start, byte, end - start))
        if found == cython.NULL:
            return -1
        return found - source  # type: ignore[no-any-return]
    return p.find(byte, start, end)
