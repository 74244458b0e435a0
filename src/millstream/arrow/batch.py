"""Build one record batch: copy rows from the bytes of a segment's file into columns.

    batch = Batch(b"ORDERS", ("subject", "seq", "data"))
    while not batch.full:
        index += batch.take(data, place, picks, index, end)

``take`` passes over the records twice, both times without the interpreter lock: to verify them and measure
the room they need, and to copy.  Rare cases are handled in between, with the lock: text that is not UTF-8 and
header blocks of very many lines are normalised in a separate buffer.

Erased records are left out.  Damaged records are left out and listed in `damaged`.  Not here: which messages
(``picks``), how a batch is sent (``ipc``).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import cython

from millstream.arrow.columns import Lists, Numbers32, Numbers64, Strings, grow
from millstream.arrow.header_columns import HeaderColumns, in_order
from millstream.arrow.picks import Picks
from millstream.arrow.text import is_utf8, repaired
from millstream.base.checksum import crc_of
from millstream.protocol.header_lines import MOST_LINES, lines_end, lines_start
from millstream.store.record import HEADER_SIZE, MAX_RECORD, Kind

MOST_ROWS = 10_000
MOST_BYTES = 2 * 1024 * 1024  # bytes of the records that rows come from; the last one may exceed it
_MOST_ROWS = MOST_ROWS
_MOST_BYTES = MOST_BYTES

_MESSAGE = int(Kind.MESSAGE)
_HEADERS = int(Kind.HEADERS)
_ERASED = int(Kind.ERASED)
_HEADER_SIZE = HEADER_SIZE
_SIZE_MASK = MAX_RECORD
_KIND_SHIFT = 28
_DOT = 46
_MOST_LINES = MOST_LINES

# The entries of a row between the two passes: positions in the buffer, sizes, and the rest.
_SUBJECT = 0
_SUBJECT_SIZE = 1
_LINES = 2  # headers without the first line and the blank one
_LINES_SIZE = 3
_RAW = 4  # headers unchanged
_RAW_SIZE = 5
_DATA = 6
_DATA_SIZE = 7
_STATE = 8
_SEQ = 9
_TIME = 10
_NUMBERS = 11

_PLAIN = 0  # can be copied unchanged
_ODD = 1  # part of it must be normalised
_MENDED = 2  # subject and headers are in the separate buffer

_SOUND = 0
_GONE = 1
_FLAWED = 2


class Batch:
    """The rows so far, and their memory."""

    def __init__(self, stream: bytes, columns: Sequence[str]) -> None:
        self.rows = 0
        self.record_bytes = 0
        self.damaged: list[int] = []  # sequences
        self.stream = Strings()
        self.subject = Strings()
        self.seq = Numbers64()
        self.time = Numbers64()
        self.data = Strings()
        self.headers = HeaderColumns(headers="headers" in columns, msg_id="msg_id" in columns)
        self.time_ns = Numbers64()
        self.size = Numbers32()
        self.tokens = Lists()
        self.token_texts = Strings()
        self.headers_raw = Strings()
        self._name = stream
        self._wants_stream = "stream" in columns
        self._wants_subject = "subject" in columns
        self._wants_seq = "seq" in columns
        self._wants_time = "time" in columns
        self._wants_data = "data" in columns
        self._wants_time_ns = "time_ns" in columns
        self._wants_size = "size" in columns
        self._wants_tokens = "tokens" in columns
        self._wants_headers_raw = "headers_raw" in columns
        self._reads_headers = self.headers.wants_headers or self.headers.wants_msg_id
        self._table: Any = array("q")
        self._flaws: Any = array("q")
        self._flaw_count = 0
        self._noted = 0  # rows in `_table`
        self._odd = 0  # how many of them are odd
        self._most_lines = 0  # of one header block
        self._subject_bytes = 0  # sum over the rows
        self._line_bytes = 0
        self._raw_bytes = 0
        self._data_bytes = 0
        self._beside = b""

    @property
    def full(self) -> bool:
        return self.rows >= _MOST_ROWS or self.record_bytes >= _MOST_BYTES

    def clear(self) -> None:
        """Start the next batch; all borrowed columns must have been released."""
        for column in (self.stream, self.subject, self.data, self.token_texts, self.headers_raw):
            column.clear()
        for numbers in (self.seq, self.time, self.time_ns):
            numbers.clear()
        self.size.clear()
        self.tokens.clear()
        self.headers.clear()
        self.rows = self.record_bytes = 0
        self.damaged = []

    def take(self, data: bytes, place: int, picks: Picks, start: int, end: int) -> int:
        """Add messages ``picks[start:end]`` from `data`, which is at `place` of their file.

        Returns how many were processed: fewer than all if the batch is full.
        """
        if not 0 <= start <= end <= picks.count:
            raise ValueError("there are no such messages")
        grow(self._table, _NUMBERS * (end - start))
        grow(self._flaws, end - start)
        dealt_with = self._note(data, place, picks, start, end)
        for index in range(self._flaw_count):
            self.damaged.append(self._flaws[index])
        if self._odd:
            self._mend(data)
        self._reserve()
        self._fill(data, self._beside)
        self.rows += self._noted
        self._beside = b""
        return dealt_with

    # -- first time: what is there ----------------------------------------------------------------

    def _note(self, data: bytes, place: int, picks: Picks, start: int, end: int) -> int:
        self._noted = self._odd = self._flaw_count = 0
        self._subject_bytes = self._line_bytes = self._raw_bytes = self._data_bytes = 0
        self._most_lines = _MOST_LINES
        p = data
        have = len(data)
        offsets = picks._offsets.data.as_longlongs if cython.compiled else picks._offsets
        seqs = picks._seqs.data.as_longlongs if cython.compiled else picks._seqs
        table = self._table.data.as_longlongs if cython.compiled else self._table
        flaws = self._flaws.data.as_longlongs if cython.compiled else self._flaws
        index = start
        with cython.nogil:
            while index < end:
                if self.rows + self._noted >= _MOST_ROWS or self.record_bytes >= _MOST_BYTES:
                    break
                if self._note_one(p, have, place, offsets[index], seqs[index], table) == _FLAWED:
                    flaws[self._flaw_count] = seqs[index]
                    self._flaw_count += 1
                index += 1
        return index - start

    def _note_one(self, p: Any, have: int, place: int, offset: int, seq: int, table: Any) -> int:
        at = offset - place
        if at < 0 or have - at < _HEADER_SIZE:
            return _FLAWED
        first = _number(p, at)
        size = first & _SIZE_MASK
        kind = first >> _KIND_SHIFT
        subject_size = p[at + 24] | (p[at + 25] << 8)
        subject = at + _HEADER_SIZE
        rest = size - _HEADER_SIZE - subject_size
        if rest < 0 or have - at < size:
            return _FLAWED
        if _number(p, at + 4) != (crc_of(p, at + 8, at + size) ^ crc_of(p, at, at + 4) ^ offset):
            return _FLAWED
        if _long(p, at + 8) != seq:
            return _FLAWED
        if kind == _ERASED:
            return _GONE
        block_size = 0
        if kind == _HEADERS:
            if rest < 4:
                return _FLAWED
            block_size = _number(p, subject)
            subject += 4
            rest -= 4
            if block_size > rest:
                return _FLAWED
        elif kind != _MESSAGE:
            return _FLAWED
        block = subject + subject_size
        data = block + block_size
        last = lines_end(p, block, data)
        lines = lines_start(p, block, last)
        raw_size = block_size if lines < last else 0  # a first line alone counts as no headers
        odd = (self._wants_subject or self._wants_tokens) and not is_utf8(p, subject, block)
        if lines < last and not odd:
            if self._reads_headers:
                odd = not is_utf8(p, lines, last) or self.headers.has_many_lines(p, lines, last)
            if self._wants_headers_raw and last == data:
                odd = True
        row = self._noted * _NUMBERS
        table[row + _SUBJECT] = subject
        table[row + _SUBJECT_SIZE] = subject_size
        table[row + _LINES] = lines
        table[row + _LINES_SIZE] = last - lines
        table[row + _RAW] = block
        table[row + _RAW_SIZE] = raw_size
        table[row + _DATA] = data
        table[row + _DATA_SIZE] = rest - block_size
        table[row + _STATE] = _ODD if odd else _PLAIN
        table[row + _SEQ] = seq
        table[row + _TIME] = _signed(p, at + 16)
        if odd:
            self._odd += 1
        self._noted += 1
        self._subject_bytes += subject_size
        self._line_bytes += last - lines
        self._raw_bytes += raw_size
        self._data_bytes += rest - block_size
        self.record_bytes += size
        return _SOUND

    def _mend(self, data: bytes) -> None:
        """Write the normalised form of odd rows to the separate buffer."""
        table = self._table
        beside = bytearray()
        for number in range(self._noted):
            row = number * _NUMBERS
            if table[row + _STATE] != _ODD:
                continue
            table[row + _STATE] = _MENDED
            subject = repaired(_part(data, table, row + _SUBJECT))
            lines, count = in_order(_part(data, table, row + _LINES))
            raw = _part(data, table, row + _RAW)
            if raw and not raw.endswith(b"\r\n"):
                raw += b"\r\n"
            for place, part in ((_SUBJECT, subject), (_LINES, lines), (_RAW, raw)):
                table[row + place], table[row + place + 1] = len(beside), len(part)
                beside += part
            self._subject_bytes += len(subject)
            self._line_bytes += len(lines) + 2
            self._raw_bytes += len(raw)
            self._most_lines = max(self._most_lines, count)
        self._beside = bytes(beside)

    def _reserve(self) -> None:
        rows = self._noted
        if self._wants_stream:
            self.stream.reserve(rows, rows * len(self._name))
        if self._wants_subject:
            self.subject.reserve(rows, self._subject_bytes)
        if self._wants_data:
            self.data.reserve(rows, self._data_bytes)
        if self._reads_headers:
            self.headers.reserve(rows, self._line_bytes, self._most_lines)
        if self._wants_headers_raw:
            self.headers_raw.reserve(rows, self._raw_bytes)
        if self._wants_tokens:
            self.tokens.reserve(rows)
            self.token_texts.reserve(self._subject_bytes + rows, self._subject_bytes)
        self.seq.reserve(rows)
        self.time.reserve(rows)
        self.time_ns.reserve(rows)
        self.size.reserve(rows)

    # -- second time: into the columns ------------------------------------------------------------

    def _fill(self, data: bytes, beside: bytes) -> None:
        p = data
        b = beside
        name = self._name
        name_size = len(self._name)
        table = self._table.data.as_longlongs if cython.compiled else self._table
        with cython.nogil:
            for index in range(self._noted):
                row = index * _NUMBERS
                if self._wants_stream:
                    self.stream.add(name, 0, name_size)
                if self._wants_seq:
                    self.seq.add(table[row + _SEQ])
                if self._wants_time:
                    self.time.add(table[row + _TIME] // 1000)
                if self._wants_data:
                    self.data.add(p, table[row + _DATA], table[row + _DATA_SIZE])
                if self._wants_time_ns:
                    self.time_ns.add(table[row + _TIME])
                if self._wants_size:
                    self.size.add(table[row + _DATA_SIZE])
                mended = table[row + _STATE] == _MENDED
                source = b if mended else p
                if self._wants_subject:
                    self.subject.add(source, table[row + _SUBJECT], table[row + _SUBJECT_SIZE])
                if self._wants_tokens:
                    self._split(source, table[row + _SUBJECT], table[row + _SUBJECT_SIZE])
                if self._reads_headers:
                    lines = table[row + _LINES]
                    self.headers.add(source, lines, lines + table[row + _LINES_SIZE], mended)
                if self._wants_headers_raw:
                    self.headers_raw.add(source, table[row + _RAW], table[row + _RAW_SIZE])

    def _split(self, p: Any, at: int, size: int) -> None:
        start = at
        end = at + size
        while at < end:
            if p[at] == _DOT:
                self.token_texts.add(p, start, at - start)
                start = at + 1
            at += 1
        self.token_texts.add(p, start, end - start)
        self.tokens.end(self.token_texts.count)


def _part(data: bytes, table: Any, place: int) -> bytes:
    """Return the bytes at a position and size in the table."""
    return data[table[place] : table[place] + table[place + 1]]


def _number(p: Any, at: int) -> int:
    if cython.compiled:
        value = p[at + 3]
        value = value << 8 | p[at + 2]
        value = value << 8 | p[at + 1]
        return value << 8 | p[at]  # type: ignore[no-any-return]
    return int.from_bytes(p[at : at + 4], "little")


def _long(p: Any, at: int) -> int:
    if cython.compiled:
        value = _number(p, at + 4)
        return value << 32 | _number(p, at)
    return int.from_bytes(p[at : at + 8], "little")


def _signed(p: Any, at: int) -> int:
    if cython.compiled:
        return _long(p, at)  # its C type makes it signed
    return int.from_bytes(p[at : at + 8], "little", signed=True)
