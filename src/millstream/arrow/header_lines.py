"""The lines of a header block, found without the interpreter.

    NATS/1.0\\r\\n            the first line, up to the first LF, is not looked at
    Key: Value\\r\\n          blanks and tabs around the value are no part of it
    nonsense\\r\\n            a line without a colon, or with nothing before it, is left out
    \\r\\n                    the end

Keys are told apart to the letter, and byte by byte.  Values of one key belong together, in their order, where
the key stood first.  To find that out keys are compared with each other, so a block of very many lines is put
in order first (``in_order``), by somebody who has a dictionary.
"""

from typing import Any

import cython

from millstream.arrow.text import repaired

if cython.compiled:
    from cython.cimports.libc.string import memchr

MOST_LINES = 64  # of a block that is taken as it is
_NUMBERS = 4  # for each line: where key and value begin and end
_CR = 13
_LF = 10
_SPACE = 32
_TAB = 9
_COLON = 58


def lines_end(p: bytes, start: int, end: int) -> int:
    """Where the lines of the block ``p[start:end]`` end: before the blank line, if there is one."""
    if end - start >= 2 and p[end - 2] == _CR and p[end - 1] == _LF:
        return end - 2
    return end


def lines_start(p: bytes, start: int, end: int) -> int:
    """Where those behind the first line begin; `end` if there are none."""
    at = _find(p, _LF, start, end) + 1
    return at if 0 < at < end else end


def line_end(p: bytes, start: int, end: int) -> int:
    """Where the line that begins at `start` ends: at its CR LF, or at `end`."""
    at = start
    while True:
        at = _find(p, _LF, at, end)
        if at < 0:
            return end
        if at > start and p[at - 1] == _CR:
            return at - 1
        at += 1


def find_lines(p: bytes, at: int, end: int, lines: Any, most: int, ordered: bool) -> int:
    """Write down up to `most` of the lines ``p[at:end]``; how many there are, or -1 if more.

    If they are `ordered`, one without a key has another value of the key before it.
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


def in_order(lines: bytes) -> tuple[bytes, int]:
    """The lines as UTF-8, the values of a key following it, and how many lines that are."""
    values: dict[bytes, list[bytes]] = {}
    at = 0
    while at < len(lines):
        stop = line_end(lines, at, len(lines))
        key, colon, value = lines[at:stop].partition(b":")
        if key and colon:
            values.setdefault(key, []).append(value.strip(b" \t"))
        at = stop + 2
    made = []
    for key, some in values.items():
        made.append(b"%b:%b" % (repaired(key), repaired(some[0])))
        made += [b":" + repaired(value) for value in some[1:]]
    return b"\r\n".join(made), len(made)


def _find(p: bytes, byte: int, start: int, end: int) -> int:
    """Where the byte is, or -1."""
    if start >= end:
        return -1
    if cython.compiled:
        source: Any = p
        found = cython.cast("const unsigned char*", memchr(source + start, byte, end - start))
        if found == cython.NULL:
            return -1
        return found - source  # type: ignore[no-any-return]
    return p.find(byte, start, end)
