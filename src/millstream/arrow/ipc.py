"""Arrow's IPC stream format: a schema, record batches, an end.

    | ffffffff | size of the metadata i32 | metadata, a FlatBuffer | body |      each message; size 0: the end

The body of a batch is the buffers of its columns in a row, each aligned to 64 bytes.  It is not assembled:
``batch_message`` returns the parts, which are the columns' own memory, for a vectored write.

The format is documented at https://arrow.apache.org/docs/format/Columnar.html; our `custom_metadata` of
messages in docs/formats/arrow.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from millstream.arrow.batch import Batch
from millstream.arrow.flatbuffer import Number, Structs, Table, Value, Vector, encode
from millstream.arrow.schema import ColumnField, ColumnKind

Part = bytes | memoryview

END: Final = b"\xff\xff\xff\xff\0\0\0\0"
_CONTINUES: Final = b"\xff\xff\xff\xff"
_VERSION: Final = Number("h", 4)  # V5
_SCHEMA: Final = 1
_RECORD_BATCH: Final = 3
_ALIGNMENT: Final = 64
_PADDING: Final = bytes(_ALIGNMENT)
_MICROSECONDS: Final = Number("h", 2)
_BIG_ENDIAN: Final = sys.byteorder == "big"

_TYPES: Final = {
    ColumnKind.INT64: (2, Table({0: Number("i", 64), 1: Number("B", 1)})),
    ColumnKind.INT32: (2, Table({0: Number("i", 32), 1: Number("B", 1)})),
    ColumnKind.BINARY: (4, Table({})),
    ColumnKind.STRING: (5, Table({})),
    ColumnKind.TIMESTAMP: (10, Table({0: _MICROSECONDS, 1: "UTC"})),
    ColumnKind.LIST: (12, Table({})),
    ColumnKind.STRUCT: (13, Table({})),
    ColumnKind.MAP: (17, Table({0: Number("B", 0)})),
}


def schema_message(fields: Sequence[ColumnField], metadata: Mapping[str, str]) -> bytes:
    schema = Table(
        {
            0: Number("h", int(_BIG_ENDIAN)),
            1: Vector([_field(field) for field in fields]),
            2: _pairs(metadata),
        }
    )
    return _message(_SCHEMA, schema, 0, {})


def batch_message(batch: Batch, fields: Sequence[ColumnField], metadata: Mapping[str, str]) -> list[Part]:
    """Return the parts of the message; release the views among them before `batch` changes."""
    body = _Body()
    for field in fields:
        _COLUMNS[field.name](body, batch)
    header = Table(
        {0: Number("q", batch.rows), 1: Structs(2, body.nodes), 2: Structs(2, body.buffers)},
    )
    return [_message(_RECORD_BATCH, header, body.size, metadata), *body.parts]


def _message(kind: int, header: Table, body_size: int, metadata: Mapping[str, str]) -> bytes:
    slots: dict[int, Value] = {0: _VERSION, 1: Number("B", kind), 2: header, 3: Number("q", body_size)}
    if metadata:
        slots[4] = _pairs(metadata)
    data = encode(Table(slots))
    return _CONTINUES + len(data).to_bytes(4, "little") + data


def _pairs(metadata: Mapping[str, str]) -> Vector:
    return Vector([Table({0: key, 1: value}) for key, value in metadata.items()])


def _field(field: ColumnField) -> Table:
    number, detail = _TYPES[field.kind]
    return Table(
        {
            0: field.name,
            1: Number("B", int(field.nullable)),
            2: Number("B", number),
            3: detail,
            5: Vector([_field(child) for child in field.children]),
        }
    )


class _Body:
    """The buffers of a batch, collected column by column in the order of the schema."""

    def __init__(self) -> None:
        self.nodes: list[int] = []  # rows and nulls of each array, the outer before the inner
        self.buffers: list[int] = []  # offset and size of each
        self.parts: list[Part] = []
        self.size = 0

    def array(self, rows: int, *buffers: memoryview, nulls: int = 0, validity: Part = b"") -> None:
        self.nodes += (rows, nulls)
        self._add(validity)
        for buffer in buffers:
            self._add(buffer)

    def _add(self, buffer: Part) -> None:
        size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        self.buffers += (self.size, size)
        if not size:
            return
        padding = -size % _ALIGNMENT
        self.parts.append(buffer.cast("B") if isinstance(buffer, memoryview) else buffer)
        if padding:
            self.parts.append(_PADDING[:padding])
        self.size += size + padding


def _put_headers(body: _Body, batch: Batch) -> None:
    headers = batch.headers
    body.array(batch.rows, headers.maps.lend())
    body.array(headers.keys.count)
    body.array(headers.keys.count, *headers.keys.lend())
    body.array(headers.keys.count, headers.lists.lend())
    body.array(headers.values.count, *headers.values.lend())


def _put_msg_id(body: _Body, batch: Batch) -> None:
    headers = batch.headers
    nulls = batch.rows - headers.msg_ids
    validity: Part = headers.lend_validity() if nulls else b""
    body.array(batch.rows, *headers.msg_id.lend(), nulls=nulls, validity=validity)


def _put_tokens(body: _Body, batch: Batch) -> None:
    body.array(batch.rows, batch.tokens.lend())
    body.array(batch.token_texts.count, *batch.token_texts.lend())


_COLUMNS: Final[dict[str, Callable[[_Body, Batch], None]]] = {
    "stream": lambda body, batch: body.array(batch.rows, *batch.stream.lend()),
    "subject": lambda body, batch: body.array(batch.rows, *batch.subject.lend()),
    "seq": lambda body, batch: body.array(batch.rows, batch.seq.lend()),
    "time": lambda body, batch: body.array(batch.rows, batch.time.lend()),
    "headers": _put_headers,
    "data": lambda body, batch: body.array(batch.rows, *batch.data.lend()),
    "time_ns": lambda body, batch: body.array(batch.rows, batch.time_ns.lend()),
    "size": lambda body, batch: body.array(batch.rows, batch.size.lend()),
    "msg_id": _put_msg_id,
    "tokens": _put_tokens,
    "headers_raw": lambda body, batch: body.array(batch.rows, *batch.headers_raw.lend()),
}
