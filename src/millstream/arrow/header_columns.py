"""Columns for header blocks: a map of lists for each row, and the message id.

    headers    map<string, list<string>>: keys in order of appearance, each with all its values
    msg_id     the first `Nats-Msg-Id`; null if there is none

Filled without the interpreter lock.  Lines must be UTF-8 and at most `MOST_LINES`, or sorted by
``in_order``.
"""

from __future__ import annotations

from array import array
from typing import Any

import cython

from millstream.arrow.columns import Lists, Strings, grow
from millstream.arrow.text import repaired
from millstream.protocol.header_lines import MOST_LINES, line_end

if not cython.compiled:
    from millstream.protocol.header_lines import find_lines  # compiled, it takes pointers and only C sees it

_MOST_LINES = MOST_LINES
_NUMBERS = 4  # for a line, see `find_lines`
_SMALLEST_LINE = 3  # bytes of a header with its line end, in order
_MSG_ID = b"Nats-Msg-Id"
_MSG_ID_SIZE = len(_MSG_ID)


class HeaderColumns:
    """The columns of headers and message ids, or one of them."""

    def __init__(self, *, headers: bool, msg_id: bool) -> None:
        self.wants_headers = headers
        self.wants_msg_id = msg_id
        self.maps = Lists()  # ends of each row's keys
        self.keys = Strings()
        self.lists = Lists()  # ends of each key's values
        self.values = Strings()
        self.msg_id = Strings()
        self.msg_ids = 0  # rows that have one
        self._there: Any = array("B")  # a bit for each row that has one
        self._rows = 0
        self._lines: Any = array("q", bytes(8 * _NUMBERS * _MOST_LINES))
        self._most_lines = _MOST_LINES

    def reserve(self, rows: int, line_bytes: int, most_lines: int) -> None:
        """Make room for rows with `line_bytes` bytes of lines, each with at most `most_lines` lines."""
        lines = line_bytes // _SMALLEST_LINE + rows
        if self.wants_headers:
            self.maps.reserve(rows)
            self.lists.reserve(lines)
            self.keys.reserve(lines, line_bytes)
            self.values.reserve(lines, line_bytes)
        if self.wants_msg_id:
            self.msg_id.reserve(rows, line_bytes)
            grow(self._there, (self._rows + rows) // 8 + 1)
        grow(self._lines, _NUMBERS * most_lines)
        self._most_lines = max(most_lines, self._most_lines)

    def has_many_lines(self, p: Any, start: int, end: int) -> bool:
        """Return True if the lines must be put in order first."""
        if end - start <= _MOST_LINES * _SMALLEST_LINE:
            return False
        lines: Any = self._lines.data.as_longlongs if cython.compiled else self._lines
        return find_lines(p, start, end, lines, _MOST_LINES, False) < 0

    def add(self, p: Any, start: int, end: int, ordered: bool) -> None:
        """Add the header lines of the next row; `ordered` as in ``find_lines``."""
        lines: Any = self._lines.data.as_longlongs if cython.compiled else self._lines
        count = find_lines(p, start, end, lines, self._most_lines, ordered)
        if self.wants_msg_id:
            self._add_msg_id(p, lines, count)
        if self.wants_headers:
            self._add_map(p, lines, count, ordered)
        self._rows += 1

    def _add_map(self, p: Any, lines: Any, count: int, ordered: bool) -> None:
        for first in range(count):
            key = lines[_NUMBERS * first]
            size = lines[_NUMBERS * first + 1] - key
            if size == 0:  # already processed
                continue
            self.keys.add(p, key, size)
            self._add_value(p, lines, first)
            for other in range(first + 1, count):
                line = _NUMBERS * other
                other_size = lines[line + 1] - lines[line]
                if ordered:
                    if other_size:
                        break
                    self._add_value(p, lines, other)
                elif other_size == size and _same(p, key, lines[line], size):
                    self._add_value(p, lines, other)
                    lines[line + 1] = lines[line]
            self.lists.end(self.values.count)
        self.maps.end(self.keys.count)

    def _add_value(self, p: Any, lines: Any, index: int) -> None:
        line = _NUMBERS * index
        self.values.add(p, lines[line + 2], lines[line + 3] - lines[line + 2])

    def _add_msg_id(self, p: Any, lines: Any, count: int) -> None:
        there: Any = self._there.data.as_uchars if cython.compiled else self._there
        if self._rows & 7 == 0:
            there[self._rows >> 3] = 0
        for index in range(count):
            line = _NUMBERS * index
            if lines[line + 1] - lines[line] == _MSG_ID_SIZE and _is_msg_id(p, lines[line]):
                there[self._rows >> 3] |= 1 << (self._rows & 7)
                self.msg_ids += 1
                self.msg_id.add(p, lines[line + 2], lines[line + 3] - lines[line + 2])
                return
        self.msg_id.add(p, 0, 0)

    def lend_validity(self) -> memoryview:
        """Return a bit for each row, set if it has a message id."""
        return memoryview(self._there)[: (self._rows + 7) // 8]

    def clear(self) -> None:
        for column in (self.maps, self.keys, self.lists, self.values, self.msg_id):
            column.clear()
        self.msg_ids = self._rows = 0


def in_order(lines: bytes) -> tuple[bytes, int]:
    """Return the lines as UTF-8 with the values of each key together, and the number of lines."""
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


def _same(p: Any, first: int, second: int, size: int) -> bool:
    index = 0
    while index < size and p[first + index] == p[second + index]:
        index += 1
    return index == size


def _is_msg_id(p: Any, at: int) -> bool:
    name = _MSG_ID
    index = 0
    while index < _MSG_ID_SIZE and p[at + index] == name[index]:
        index += 1
    return index == _MSG_ID_SIZE
