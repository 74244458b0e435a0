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
from millstream.protocol.header_lines import lines_start
from millstream.tables.memory import Memory, Texts

if not cython.compiled:
    from millstream.protocol.header_lines import find_lines  # compiled, it takes pointers and only C sees it

_DOT = ord(".")

_FIRST_END = bytes(4)
_FEW_LINES = 32  # compared one by one; more go through a dict
_NUMBERS = 4  # for a line, see `find_lines`
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
            self._lines = [0] * (_NUMBERS * _FEW_LINES)
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
        lines = lines_start(p, header, header_end)
        if lines == header_end:
            header = header_end
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
        if self._want_id or self._want_headers:
            self._add_lines(p, lines, header_end)
        if self._want_tokens:
            self._add_tokens(p, subject, subject + subject_size)
        if self._want_raw:
            if header < header_end:
                self._raw.values.copy(p, header, header_end - header)
                self._raw.values.append(b"\r\n")
            self._raw.ends.add4(self._raw.values.size)
        self.rows += 1
        self.volume += subject_size + (header_end - header) + payload_size

    def _add_lines(self, p: bytes | bytearray, start: int, end: int) -> None:
        """Append the headers and the message id of a message."""
        count = find_lines(p, start, end, self._lines, _FEW_LINES, False)
        if count < 0:
            self._add_many(p[start:end])
            return
        if self._want_id:
            self._add_id(p, count)
        if self._want_headers:
            if self._parse_headers:
                self._add_headers(p, count)
            self._map_ends.add4(self._key_count)

    def _add_headers(self, p: bytes | bytearray, count: int) -> None:
        """Append the lines found; values of one name are together, in their order."""
        for i in range(count):
            first = _NUMBERS * i
            size = self._lines[first + 1] - self._lines[first]
            if size == 0:
                continue  # appended with the first header of that name
            self._keys.add_text(p, self._lines[first], size)
            self._add_value(p, first)
            for j in range(i + 1, count):
                other = _NUMBERS * j
                if self._lines[other + 1] - self._lines[other] == size and same_bytes(
                    p, self._lines[first], self._lines[other], size
                ):
                    self._add_value(p, other)
                    self._lines[other + 1] = self._lines[other]
            self._list_ends.add4(self._value_count)
            self._key_count += 1

    def _add_value(self, p: bytes | bytearray, line: int) -> None:
        self._values.add_text(p, self._lines[line + 2], self._lines[line + 3] - self._lines[line + 2])
        self._value_count += 1

    def _add_id(self, p: bytes | bytearray, count: int) -> None:
        """Append the first message id; found the way the server finds it."""
        for i in range(count):
            line = _NUMBERS * i
            key = self._lines[line]
            size = self._lines[line + 1] - key
            if size == _MESSAGE_ID_SIZE and p[key : key + size] == _MESSAGE_ID:
                self._ids.add_text(p, self._lines[line + 2], self._lines[line + 3] - self._lines[line + 2])
                self._ids_known.append(b"\x01")
                return
        self._ids.add_text(p, 0, 0)
        self._ids_known.append(b"\x00")

    def _add_many(self, lines: bytes | bytearray) -> None:
        """Append the headers and the id of a message that has too many to compare each with each."""
        found: dict[bytes, list[bytes]] = {}
        for line in bytes(lines).split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if name and colon:
                found.setdefault(name, []).append(value.strip(b" \t"))
        if self._want_id:
            ids = found.get(_MESSAGE_ID)
            first = ids[0] if ids else b""
            self._ids.add_text(first, 0, len(first))
            self._ids_known.append(b"\x01" if ids else b"\x00")
        if not self._want_headers:
            return
        if self._parse_headers:
            for name, values in found.items():
                self._keys.add_text(name, 0, len(name))
                for value in values:
                    self._values.add_text(value, 0, len(value))
                self._value_count += len(values)
                self._list_ends.add4(self._value_count)
                self._key_count += 1
        self._map_ends.add4(self._key_count)

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
