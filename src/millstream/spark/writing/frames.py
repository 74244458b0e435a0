# cython: boundscheck=False, wraparound=False
"""Encode rows as messages: copy from Arrow's memory into frames, without an object per row.

``TextColumn`` and ``HeaderColumn`` are views of a column in Arrow's memory.  ``RowFrames`` goes through the
rows of one record batch and writes subject, headers (the row's own, its id, TTL and expectation) and payload
to a ``PublishWindow`` (`encode`) or into a batch that is acknowledged as a whole (`encode_batched`).

A row that cannot become a message stops it: `problem` says why, and the returned row is that row.  `bad_rows`
handles it.  Not here: the identity of a row (`identity`).
"""

from typing import Any

import cython

from millstream.link.publish_window import FrameBuffer, PublishWindow, Receipts, publishable_at
from millstream.protocol.headers import START

_NATS = b"nats-"
_MSG_ID_NAME = b"nats-msg-id"
_START = START
_MSG_ID = b"Nats-Msg-Id: "
_TTL = b"Nats-TTL: "
_EXPECTED = b"Nats-Expected-Last-Subject-Sequence: "
_COLON = b": "
_SEPARATOR = ord(":")
_CRLF = b"\r\n"
_CR = ord("\r")
_LF = ord("\n")
_LOWER = 0x20
_NUMBER_ROOM = 64  # bytes for digits and line ends
_EMPTY = b""


class TextColumn:
    """Strings or bytes: `offsets` are 32-bit numbers; the first is that of row 0."""

    def __init__(self, validity: Any, offsets: Any, values: Any, bit: int) -> None:
        self.nullable = validity is not None
        self._validity = validity if validity is not None else _EMPTY
        self._offsets = offsets
        self._values = values
        self._bit = bit  # bit of row 0 in `validity`

    def is_null(self, row: int) -> bool:
        if not self.nullable:
            return False
        at = self._bit + row
        return (self._validity[at >> 3] >> (at & 7)) & 1 == 0

    def begin(self, row: int) -> int:
        return self._offsets[row]  # type: ignore[no-any-return]

    def size(self, row: int) -> int:
        return self._offsets[row + 1] - self._offsets[row]  # type: ignore[no-any-return]

    def at(self, begin: int, size: int) -> Any:
        """Return the bytes at this position; compiled, a pointer to them."""
        if cython.compiled:
            return cython.address(self._values[begin])
        return bytes(self._values[begin : begin + size])

    def text(self, row: int) -> bytes:
        """Return a copy of the value; empty if it is null."""
        if self.is_null(row):
            return b""
        begin = self.begin(row)
        return bytes(self._values[begin : begin + self.size(row)])


class HeaderColumn:
    """A map for each row: names, and for each name one value or a list of them."""

    def __init__(
        self, validity: Any, offsets: Any, bit: int, names: TextColumn, lists: Any, values: TextColumn
    ) -> None:
        self.nullable = validity is not None
        self._validity = validity if validity is not None else _EMPTY
        self._offsets = offsets
        self._bit = bit
        self.names = names
        self.listed = lists is not None
        self._lists = lists if lists is not None else offsets
        self.values = values

    def first(self, row: int) -> int:
        return self._offsets[row]  # type: ignore[no-any-return]

    def after(self, row: int) -> int:
        """Return the position after the last entry of the row; a null row has no entries."""
        at = self._bit + row
        if self.nullable and (self._validity[at >> 3] >> (at & 7)) & 1 == 0:
            return self._offsets[row]  # type: ignore[no-any-return]
        return self._offsets[row + 1]  # type: ignore[no-any-return]

    def first_value(self, entry: int) -> int:
        return self._lists[entry] if self.listed else entry

    def after_values(self, entry: int) -> int:
        return self._lists[entry + 1] if self.listed else entry + 1


class RowFrames:
    """The rows of one record batch.  Missing columns are None."""

    def __init__(
        self,
        *,
        row_count: int,
        max_payload: int,
        subject: bytes,
        fixed_lines: bytes,
        id_start: bytes,
        first_id: int,
        allow_nats_headers: bool,
        subjects: TextColumn | None,
        data: TextColumn,
        headers: HeaderColumn | None,
        ids: TextColumn | None,
        streams: TextColumn | None,
        sequences: TextColumn | None,
        ttls: TextColumn | None,
        expected: TextColumn | None,
    ) -> None:
        self.row_count = row_count
        self.max_payload = max_payload
        self.first_id = first_id  # number of row 0 in the partition
        self.id_start = id_start  # empty: rows without an id get none
        self.problem = ""
        self.measured = 0
        self.sent: list[int] = []  # the row of each message, in the order in which they were added
        self._subject = subject
        self._fixed_lines = fixed_lines
        self._allow_nats_headers = allow_nats_headers
        self._subjects = subjects
        self._data = data
        self._headers = headers
        self._ids = ids
        self._streams = streams
        self._sequences = sequences
        self._ttls = ttls
        self._expected = expected
        self._lines = FrameBuffer()
        self._has_id = False
        self._subject_size = 0
        self._payload_size = 0
        if not cython.compiled:
            self._subject_at = b""
            self._payload_at = b""

    # -- to a window --------------------------------------------------------------------------------

    def encode(self, window: PublishWindow, receipts: Receipts, row: int, flush_at: int) -> int:
        """Publish rows from `row` on while there is room; return the next row."""
        self.problem = ""
        while row < self.row_count and window.free() > 0 and window.frames.size < flush_at:
            if not self._prepare(row):
                break
            self._add(window, receipts, row)
            row += 1
        return row

    def encode_again(
        self, window: PublishWindow, receipts: Receipts, rows: list[int], place: int, flush_at: int
    ) -> int:
        """Publish rows again, from index `place` of `rows` on; return the next index."""
        while place < len(rows) and window.free() > 0 and window.frames.size < flush_at:
            row = rows[place]
            self._prepare(row)
            self._add(window, receipts, row)
            place += 1
        return place

    def _add(self, window: PublishWindow, receipts: Receipts, row: int) -> None:
        lines = self._lines
        if cython.compiled:
            header_at: Any = lines._store
            window.put(
                receipts, self._subject_at, self._subject_size, header_at, lines.size,
                self._payload_at, self._payload_size,
            )  # fmt: skip
        else:
            block = lines.peek()
            window.put(
                receipts, self._subject_at, self._subject_size, block, len(block),
                self._payload_at, self._payload_size,
            )  # fmt: skip
        self.sent.append(row)

    # -- to a batch ---------------------------------------------------------------------------------

    def measure(self, row: int, most_rows: int, most_bytes: int) -> int:
        """Count rows from `row` on, up to `most_rows` or `most_bytes`; return the next row.

        `measured` is their size without what a batch adds, so it does not depend on record batches.
        """
        self.problem = ""
        self.measured = 0
        stop = min(row + most_rows, self.row_count)
        while row < stop and self.measured < most_bytes:
            if not self._prepare(row):
                break
            self.measured += self._subject_size + self._lines.size + self._payload_size
            row += 1
        return row

    def encode_batched(
        self, frames: FrameBuffer, batch_line: bytes, number: int, row: int, last_number: int, most_bytes: int
    ) -> int:
        """Write rows from `row` on as messages `number` to `last_number` of a batch; return the next row.

        `batch_line` is the header line up to the number.  Stops early when `frames` has `most_bytes`.
        """
        self.problem = ""
        while row < self.row_count and number <= last_number and frames.size < most_bytes:
            if not self._prepare_batched(row, batch_line, number):
                break
            lines = self._lines
            if cython.compiled:
                header_at: Any = lines._store
                frames.put_unanswered(
                    self._subject_at, self._subject_size, header_at, lines.size,
                    self._payload_at, self._payload_size,
                )  # fmt: skip
            else:
                block = lines.peek()
                frames.put_unanswered(
                    self._subject_at, self._subject_size, block, len(block),
                    self._payload_at, self._payload_size,
                )  # fmt: skip
            number += 1
            row += 1
        return row

    # -- one row ------------------------------------------------------------------------------------

    def _prepare_batched(self, row: int, batch_line: bytes, number: int) -> bool:
        lines = self._lines
        lines.clear()
        lines.make_room(len(_START) + len(batch_line) + _NUMBER_ROOM)
        lines.put(_START, 0, len(_START))
        lines.put(batch_line, 0, len(batch_line))
        lines.put_number(number)
        lines.put(_CRLF, 0, 2)
        return self._finish(row)

    def _prepare(self, row: int) -> bool:
        lines = self._lines
        lines.clear()
        lines.make_room(len(_START))
        lines.put(_START, 0, len(_START))
        return self._finish(row)

    def _finish(self, row: int) -> bool:
        """Write the rest of the row; return False and set `problem` if it cannot become a message."""
        lines = self._lines
        if not self._take_subject(row):
            return False
        if self._fixed_lines:
            lines.make_room(len(self._fixed_lines))
            lines.put(self._fixed_lines, 0, len(self._fixed_lines))
        self._has_id = False
        if self._headers is not None and not self._put_headers(row):
            return False
        if not self._has_id and not self._put_id(row):
            return False
        if self._ttls is not None and not self._put_column(_TTL, self._ttls, row, "ttl"):
            return False
        if self._expected is not None and not self._put_column(
            _EXPECTED, self._expected, row, "expected_last_subject_seq"
        ):
            return False
        if lines.size == len(_START):
            lines.clear()  # no headers
        else:
            lines.make_room(2)
            lines.put(_CRLF, 0, 2)
        data = self._data
        if data.is_null(row):
            self._payload_size = 0
            self._payload_at = _EMPTY
        else:
            begin = data.begin(row)
            self._payload_size = data.size(row)
            self._payload_at = data.at(begin, self._payload_size)
        if lines.size + self._payload_size > self.max_payload:
            self.problem = (
                f"it has {lines.size + self._payload_size} bytes ({lines.size} of headers), "
                f"the server takes {self.max_payload}"
            )
            return False
        return True

    def _take_subject(self, row: int) -> bool:
        column = self._subjects
        if column is None:
            self._subject_size = len(self._subject)
            self._subject_at = self._subject
            return True
        if column.is_null(row):
            self.problem = "its subject is null"
            return False
        self._subject_size = column.size(row)
        self._subject_at = column.at(column.begin(row), self._subject_size)
        if not publishable_at(self._subject_at, self._subject_size):
            text = column.text(row).decode(errors="replace")
            self.problem = f"{text!r} is no subject to publish to"
            return False
        return True

    def _put_headers(self, row: int) -> bool:
        headers = self._headers
        assert headers is not None
        names = headers.names
        values = headers.values
        for entry in range(headers.first(row), headers.after(row)):
            size = names.size(entry)
            at = names.at(names.begin(entry), size)
            if not is_header_name(at, size):
                self.problem = f"{names.text(entry).decode(errors='replace')!r} is no name of a header"
                return False
            if size >= len(_NATS) and same_letters(at, _NATS, len(_NATS)):
                if not self._allow_nats_headers:
                    self.problem = (
                        f"the header {names.text(entry).decode(errors='replace')!r} is the server's own; "
                        "the option allowNatsHeaders would let it pass"
                    )
                    return False
                if size == len(_MSG_ID_NAME) and same_letters(at, _MSG_ID_NAME, size):
                    self._has_id = True
            for value in range(headers.first_value(entry), headers.after_values(entry)):
                if values.is_null(value):
                    continue
                value_size = values.size(value)
                value_at = values.at(values.begin(value), value_size)
                if not is_header_value(value_at, value_size):
                    name = names.text(entry).decode(errors="replace")
                    self.problem = f"the value of the header {name!r} has a line end in it"
                    return False
                lines = self._lines
                lines.make_room(size + value_size + _NUMBER_ROOM)
                lines.put_at(at, size)
                lines.put(_COLON, 0, 2)
                lines.put_at(value_at, value_size)
                lines.put(_CRLF, 0, 2)
        return True

    def _put_id(self, row: int) -> bool:
        """Write the row's id: its own, that of the message it was read from, or its number."""
        if self._ids is not None and not self._ids.is_null(row) and self._ids.size(row) > 0:
            return self._put_column(_MSG_ID, self._ids, row, "msg_id")
        if not self.id_start:
            return True
        lines = self._lines
        streams = self._streams
        sequences = self._sequences
        if (
            streams is not None
            and sequences is not None
            and not streams.is_null(row)
            and not sequences.is_null(row)
        ):
            size = streams.size(row)
            at = streams.at(streams.begin(row), size)
            if not is_header_value(at, size):
                self.problem = "its column stream has a line end in it"
                return False
            digits = sequences.size(row)
            lines.make_room(len(_MSG_ID) + size + digits + _NUMBER_ROOM)
            lines.put(_MSG_ID, 0, len(_MSG_ID))
            lines.put_at(at, size)
            lines.put_byte(_SEPARATOR)
            lines.put_at(sequences.at(sequences.begin(row), digits), digits)
        else:
            lines.make_room(len(_MSG_ID) + len(self.id_start) + _NUMBER_ROOM)
            lines.put(_MSG_ID, 0, len(_MSG_ID))
            lines.put(self.id_start, 0, len(self.id_start))
            lines.put_number(self.first_id + row)
        lines.put(_CRLF, 0, 2)
        return True

    def _put_column(self, name: bytes, column: TextColumn, row: int, what: str) -> bool:
        if column.is_null(row):
            return True
        size = column.size(row)
        at = column.at(column.begin(row), size)
        if not is_header_value(at, size):
            self.problem = f"its column {what} has a line end in it"
            return False
        lines = self._lines
        lines.make_room(len(name) + size + _NUMBER_ROOM)
        lines.put(name, 0, len(name))
        lines.put_at(at, size)
        lines.put(_CRLF, 0, 2)
        return True

    # -- of a row that is bad -----------------------------------------------------------------------

    def subject_of(self, row: int) -> bytes:
        return self._subject if self._subjects is None else self._subjects.text(row)

    def payload_of(self, row: int) -> bytes:
        return self._data.text(row)


def is_header_name(p: bytes, size: int) -> bool:
    """Return True if these bytes may be a header name; compiled, `p` is a pointer."""
    if size == 0:
        return False
    for i in range(size):  # noqa: SIM110 (compiled: no generator)
        if p[i] <= 0x20 or p[i] == 0x7F or p[i] == 0x3A:  # :
            return False
    return True


def is_header_value(p: bytes, size: int) -> bool:
    """Return True if these bytes contain no line end; compiled, `p` is a pointer."""
    for i in range(size):  # noqa: SIM110
        if p[i] == _CR or p[i] == _LF:
            return False
    return True


def same_letters(p: bytes, lower: bytes, size: int) -> bool:
    """Return True if the first `size` bytes equal `lower`, in any case; compiled, both are pointers."""
    for i in range(size):  # noqa: SIM110
        if (p[i] | _LOWER if 0x41 <= p[i] <= 0x5A else p[i]) != lower[i]:
            return False
    return True
