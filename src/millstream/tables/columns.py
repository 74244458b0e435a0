"""Build Arrow record batches from messages, column by column, without an object per message.

`Columns` copies the parts of a row from a connection's buffer to growing pieces of memory and passes those to
Arrow without another copy.  Headers become `map<string, array<string>>`: names in order of first appearance,
with all values of a name together.  Names are case-sensitive, blanks around a value are removed, and bytes
that are not UTF-8 are replaced; `headers_raw` keeps the original.

Not here: where messages come from (`intake`).
"""

from typing import Any

import cython
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.buffer import same_bytes
from millstream.tables.memory import Memory, Texts, find_byte

_CR = ord("\r")
_LF = ord("\n")
_SPACE = ord(" ")
_TAB = ord("\t")
_COLON = ord(":")
_DOT = ord(".")

_FIRST_END = bytes(4)
_FEW_HEADERS = 32  # compared one by one; more go through a dict
_MESSAGE_ID = b"Nats-Msg-Id"
_MESSAGE_ID_SIZE = len(_MESSAGE_ID)


class Columns:
    """The rows of a growing batch.

    `with_headers` False leaves the column `headers` empty, which saves parsing them.
    """

    def __init__(self, columns: tuple[str, ...], stream: str, *, with_headers: bool = True) -> None:
        self.rows = 0
        self.volume = 0
        self._stream = stream
        self._want_subject = "subject" in columns
        self._want_seq = "seq" in columns
        self._want_time = "time" in columns
        self._want_time_ns = "time_ns" in columns
        self._want_size = "size" in columns
        self._want_headers = "headers" in columns
        self._parse_headers = with_headers
        self._want_data = "data" in columns
        self._want_id = "msg_id" in columns
        self._want_tokens = "tokens" in columns
        self._want_raw = "headers_raw" in columns
        self._subjects = Texts()
        self._seqs = Memory()
        self._times = Memory()
        self._times_ns = Memory()
        self._sizes = Memory()
        self._map_ends = Memory()
        self._keys = Texts()
        self._list_ends = Memory()
        self._values = Texts()
        self._data = Texts()
        self._ids = Texts()
        self._ids_known = Memory()  # one byte for each row
        self._token_ends = Memory()
        self._tokens = Texts()
        self._raw = Texts()
        if not cython.compiled:
            self._places = [0] * (4 * _FEW_HEADERS)
        self._begin_lists()

    def _begin_lists(self) -> None:
        for ends in (self._map_ends, self._list_ends, self._token_ends):
            if ends.size == 0:
                ends.append(_FIRST_END)
        self._key_count = 0
        self._value_count = 0
        self._token_count = 0

    # -- one row ------------------------------------------------------------------------------------

    def add(
        self,
        p: bytes | bytearray,
        subject: int,
        subject_size: int,
        seq: int,
        time_ns: int,
        header: int,
        header_end: int,
        payload: int,
        payload_size: int,
        size: int,
    ) -> None:
        """Append a message; the numbers are positions in `p`, which is a pointer in the compiled build.

        The header block comes without its final blank line; `size` is that of the stored payload.
        """
        # The first line is not a header; a block without further lines counts as none.
        lines = find_byte(p, _LF, header, header_end) + 1 if header_end > header else 0
        if lines <= 0 or lines >= header_end:
            lines = header = header_end
        if self._want_subject:
            self._subjects.add_text(p, subject, subject_size)
        if self._want_seq:
            self._seqs.add8(seq)
        if self._want_time:
            self._times.add8(time_ns // 1000)
        if self._want_time_ns:
            self._times_ns.add8(time_ns)
        if self._want_size:
            self._sizes.add4(size)
        if self._want_data:
            self._data.add(p, payload, payload_size)
        if self._want_headers:
            if self._parse_headers and lines < header_end:
                self._add_headers(p, lines, header_end)
            self._map_ends.add4(self._key_count)
        if self._want_id:
            self._add_id(p, lines, header_end)
        if self._want_tokens:
            self._add_tokens(p, subject, subject + subject_size)
        if self._want_raw:
            if header < header_end:
                self._raw.values.copy(p, header, header_end - header)
                self._raw.values.append(b"\r\n")
            self._raw.ends.add4(self._raw.values.size)
        self.rows += 1
        self.volume += subject_size + (header_end - header) + payload_size

    def _add_headers(self, p: bytes | bytearray, start: int, end: int) -> None:
        """Append all headers of a message; values of one name are together, in their order."""
        count = self._find_headers(p, start, end)
        if count < 0:
            self._add_many(p[start:end])
        else:
            self._add_found(p, count)

    def _find_headers(self, p: bytes | bytearray, start: int, end: int) -> int:
        """Record the positions of names and values; return their number, or -1 if there are too many."""
        count = 0
        at = start
        while at < end:
            line_end = self._line_end(p, at, end)
            colon = find_byte(p, _COLON, at, line_end)
            if colon > at:
                if count == _FEW_HEADERS:
                    return -1
                self._places[4 * count] = at
                self._places[4 * count + 1] = colon - at
                value = colon + 1
                value_end = line_end
                while value < value_end and (p[value] == _SPACE or p[value] == _TAB):
                    value += 1
                while value_end > value and (p[value_end - 1] == _SPACE or p[value_end - 1] == _TAB):
                    value_end -= 1
                self._places[4 * count + 2] = value
                self._places[4 * count + 3] = value_end - value
                count += 1
            at = line_end + 2
        return count

    def _add_found(self, p: bytes | bytearray, count: int) -> None:
        for i in range(count):
            if self._places[4 * i + 1] < 0:
                continue  # appended with the first header of that name
            self._keys.add_text(p, self._places[4 * i], self._places[4 * i + 1])
            self._values.add_text(p, self._places[4 * i + 2], self._places[4 * i + 3])
            self._value_count += 1
            for j in range(i + 1, count):
                if self._same_name(p, i, j):
                    self._values.add_text(p, self._places[4 * j + 2], self._places[4 * j + 3])
                    self._value_count += 1
                    self._places[4 * j + 1] = -1
            self._list_ends.add4(self._value_count)
            self._key_count += 1

    def _same_name(self, p: bytes | bytearray, i: int, j: int) -> bool:
        count = self._places[4 * i + 1]
        if self._places[4 * j + 1] != count:
            return False
        return same_bytes(p, self._places[4 * i], self._places[4 * j], count)

    def _add_many(self, lines: bytes | bytearray) -> None:
        """Append the headers of a message that has too many to compare each with each."""
        found: dict[bytes, list[bytes]] = {}
        for line in bytes(lines).split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if name and colon:
                found.setdefault(name, []).append(value.strip(b" \t"))
        for name, values in found.items():
            self._keys.add_text(name, 0, len(name))
            for value in values:
                self._values.add_text(value, 0, len(value))
            self._value_count += len(values)
            self._list_ends.add4(self._value_count)
            self._key_count += 1

    def _line_end(self, p: bytes | bytearray, start: int, end: int) -> int:
        """Return the position of the CR LF that ends a header line."""
        at = start
        while True:
            at = find_byte(p, _LF, at, end)
            if at < 0:
                return end
            if at > start and p[at - 1] == _CR:
                return at - 1
            at += 1

    def _add_id(self, p: bytes | bytearray, at: int, end: int) -> None:
        """Append the first message id; found the way the server finds it."""
        known = 0
        while at < end:
            line_end = self._line_end(p, at, end)
            colon = find_byte(p, _COLON, at, line_end)
            if colon - at == _MESSAGE_ID_SIZE and p[at:colon] == _MESSAGE_ID:
                value = colon + 1
                while value < line_end and (p[value] == _SPACE or p[value] == _TAB):
                    value += 1
                while line_end > value and (p[line_end - 1] == _SPACE or p[line_end - 1] == _TAB):
                    line_end -= 1
                self._ids.add_text(p, value, line_end - value)
                known = 1
                break
            at = line_end + 2
        if known == 0:
            self._ids.add_text(p, 0, 0)
        self._ids_known.append(b"\x01" if known else b"\x00")

    def _add_tokens(self, p: bytes | bytearray, start: int, end: int) -> None:
        at = start
        for i in range(start, end + 1):
            if i == end or p[i] == _DOT:
                self._tokens.add_text(p, at, i - at)
                self._token_count += 1
                at = i + 1
        self._token_ends.add4(self._token_count)

    # -- batches out --------------------------------------------------------------------------------

    def flush(self, schema: Any) -> Any:
        """Return the rows as a record batch of this schema, and start an empty one."""
        arrays = [self._array(field.name, field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self.rows = 0
        self.volume = 0
        self._begin_lists()
        return batch

    def _array(self, name: str, kind: Any) -> Any:
        match name:
            case "stream":
                return pa.repeat(pa.scalar(self._stream, kind), self.rows)
            case "subject":
                return self._texts(kind, self._subjects, self.rows)
            case "seq":
                return _numbers(kind, self._seqs, self.rows)
            case "time":
                return _numbers(kind, self._times, self.rows)
            case "time_ns":
                return _numbers(kind, self._times_ns, self.rows)
            case "size":
                return _numbers(kind, self._sizes, self.rows)
            case "data":
                return self._texts(kind, self._data, self.rows)
            case "headers_raw":
                return self._texts(kind, self._raw, self.rows)
            case "msg_id":
                known = pa.array(memoryview(self._ids_known.take()), pa.uint8()).cast(pa.bool_())
                texts = self._texts(kind, self._ids, self.rows)
                return texts if self.rows == 0 else pc.if_else(known, texts, pa.scalar(None, kind))
            case "tokens":
                words = self._texts(kind.value_type, self._tokens, self._token_count)
                return _lists(kind, self._token_ends, self.rows, words)
            case "headers":
                keys = self._texts(kind.key_type, self._keys, self._key_count)
                values = self._texts(kind.item_type.value_type, self._values, self._value_count)
                lists = _lists(kind.item_type, self._list_ends, self._key_count, values)
                entries = pa.StructArray.from_arrays([keys, lists], fields=[kind.key_field, kind.item_field])
                return _lists(kind, self._map_ends, self.rows, entries)
        raise KeyError(name)

    def _texts(self, kind: Any, texts: Texts, count: int) -> Any:
        ends, values = texts.hand_over()
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(values)])


def _numbers(kind: Any, memory: Memory, count: int) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(memory.hand_over())])


def _lists(kind: Any, ends: Memory, count: int, children: Any) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends.hand_over())], children=[children])
