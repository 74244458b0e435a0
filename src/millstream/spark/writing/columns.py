"""Find the columns that a sink takes, and their place in a record batch.

    data                        binary or string; required; null is an empty payload
    subject                     string; required without the option `subject`, which wins
    headers                     map<string,array<string>> or map<string,string>
    msg_id                      string; the id by which the stream detects duplicates
    ttl                         string ("1h", "never") or whole seconds
    expected_last_subject_seq   long
    stream, seq                 of the message that the row was read from: its id, if it has no other

Columns that only the source has (`time` and others) are ignored, so a stream can be written as it was read.
Any other column is an error, because its content would be lost.
"""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from millstream.spark.errors import SchemaError
from millstream.spark.schema import COLUMNS as SOURCE_COLUMNS
from millstream.spark.writing.frames import HeaderColumn, RowFrames, TextColumn

_TEXT: Final = (StringType, BinaryType)
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_ALLOWED: Final[dict[str, tuple[type[DataType], ...]]] = {
    "data": _TEXT,
    "subject": (StringType,),
    "headers": (MapType,),
    "msg_id": (StringType,),
    "ttl": (StringType, *_WHOLE),
    "expected_last_subject_seq": _WHOLE,
    "stream": (StringType,),
    "seq": _WHOLE,
}


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The index of each used column in a record batch, by name."""

    places: dict[str, int]

    def __contains__(self, name: str) -> bool:
        return name in self.places

    @classmethod
    def of(cls, schema: StructType, *, subject_given: bool) -> "ColumnLayout":
        """Find the columns; raise SchemaError if one is missing, unknown or of the wrong type."""
        places = {}
        for place, field in enumerate(schema.fields):
            allowed = _ALLOWED.get(field.name)
            if allowed is None:
                if field.name in SOURCE_COLUMNS:
                    continue
                raise SchemaError(
                    f"the jetstream sink has no column {field.name!r}; it takes {', '.join(_ALLOWED)}. "
                    "Drop it, or put it into data, with to_json(struct(*)) for example"
                )
            if field.name in places:
                raise SchemaError(f"column {field.name} is there twice")
            if not isinstance(field.dataType, allowed) or not _is_text_map(field.dataType):
                raise SchemaError(
                    f"column {field.name} can not be {field.dataType.simpleString()} in the jetstream sink"
                )
            places[field.name] = place
        if "data" not in places:
            raise SchemaError("the jetstream sink needs a column data, binary or string")
        if subject_given:
            places.pop("subject", None)
        elif "subject" not in places:
            raise SchemaError("the jetstream sink needs a column subject, or the option subject")
        return cls(places)


def _is_text_map(kind: DataType) -> bool:
    """Return True unless it is a map of something else than strings to strings or lists of strings."""
    if not isinstance(kind, MapType):
        return True
    value = kind.valueType.elementType if isinstance(kind.valueType, ArrayType) else kind.valueType
    return isinstance(kind.keyType, StringType) and isinstance(value, StringType)


@dataclass(frozen=True, slots=True)
class RowRules:
    """Settings for every row of a task."""

    subject: bytes = b""  # empty: the column has it
    fixed_lines: bytes = b""  # header lines of every message
    id_start: bytes = b""  # empty: rows without an id get none
    allow_nats_headers: bool = False


def row_frames(
    batch: pa.RecordBatch, layout: ColumnLayout, rules: RowRules, *, first_row: int, max_payload: int
) -> RowFrames:
    """Return the frames of `batch`, whose first row is number `first_row` of its partition."""

    def column(name: str) -> TextColumn | None:
        place = layout.places.get(name)
        return None if place is None else text_column(batch.column(place))

    data = column("data")
    assert data is not None
    headers = layout.places.get("headers")
    by_source = bool(rules.id_start) and "stream" in layout and "seq" in layout
    return RowFrames(
        row_count=batch.num_rows,
        max_payload=max_payload,
        subject=rules.subject,
        fixed_lines=rules.fixed_lines,
        id_start=rules.id_start,
        first_id=first_row,
        allow_nats_headers=rules.allow_nats_headers,
        subjects=column("subject"),
        data=data,
        headers=None if headers is None else header_column(batch.column(headers)),
        ids=column("msg_id"),
        streams=column("stream") if by_source else None,
        sequences=column("seq") if by_source else None,
        ttls=column("ttl"),
        expected=column("expected_last_subject_seq"),
    )


def text_column(array: pa.Array) -> TextColumn:
    """Return a view of strings or bytes; numbers are converted to text first."""
    kind = array.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        wide = pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
        array = array.cast(pa.binary() if wide else pa.string())
    validity, offsets, values = array.buffers()
    return TextColumn(_validity(array, validity), _offsets(array, offsets), _bytes(values), array.offset)


def header_column(array: pa.Array) -> HeaderColumn:
    """Return a view of maps from strings to strings or lists of strings."""
    validity, offsets = array.buffers()[:2]
    items = array.items
    lists = None
    values = items
    if not (pa.types.is_string(items.type) or pa.types.is_large_string(items.type)):
        if pa.types.is_large_list(items.type):
            items = items.cast(pa.list_(pa.string()))
        if items.null_count:  # a null list may still have content
            items = pa.array([value or [] for value in items.to_pylist()], pa.list_(pa.string()))
        lists = _offsets(items, items.buffers()[1])
        values = items.values
    return HeaderColumn(
        _validity(array, validity),
        _offsets(array, offsets),
        array.offset,
        text_column(array.keys),
        lists,
        text_column(values),
    )


def _validity(array: pa.Array, buffer: pa.Buffer | None) -> Any:
    return _bytes(buffer) if buffer is not None and array.null_count else None


def _bytes(buffer: pa.Buffer | None) -> Any:
    return b"" if buffer is None or buffer.size == 0 else memoryview(buffer).cast("B")


def _offsets(array: pa.Array, buffer: pa.Buffer | None) -> Any:
    """Return the offsets of the rows of `array`, and one more."""
    if buffer is None or len(array) == 0:
        return memoryview(bytes(4)).cast("i")
    start = 4 * array.offset
    return memoryview(buffer)[start : start + 4 * (len(array) + 1)].cast("B").cast("i")
