"""The relations of a query: streams, buckets and tables with the columns that SQL sees.

    ORDERS       stream, subject, seq, time, headers, data, size; `data` is text
    raw.ORDERS   all columns of formats/arrow.md; `data` is a BLOB
    kv.CONFIG    key, value, revision, operation, time: the last entry of each key
    whole.ORDERS the stream and its archive as one: the columns of ORDERS
    shop.orders  an Iceberg table of the namespace `shop` with its own columns; `data` is text

Bytes of a payload that are not UTF-8 are U+FFFD in a text; the relation `raw` has them.  A relation says
which part of its stream or table a scan needs, and turns the record batches of that into its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from millstream.jsapi import headers as wire
from millstream.queries.substrait import Span, Spans
from millstream.tables.schema import COLUMN_TYPES, USUAL_COLUMNS, stream_schema
from millstream.tables.source import Selection

KV: Final = "kv"
RAW: Final = "raw"
WHOLE: Final = "whole"
OWN_SCHEMAS: Final = ("", KV, RAW, WHOLE)  # other schemas are namespaces of tables
BUCKET_PREFIX: Final = "KV_"
_STREAM_NAME: Final = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")
_BUCKET_COLUMNS: Final = {
    "key": pa.string(),
    "value": pa.string(),
    "revision": pa.int64(),
    "operation": pa.string(),
    "time": COLUMN_TYPES["time"],
}
_BUCKET_NEEDS: Final = {
    "key": ("subject",),
    "value": ("data", "headers"),
    "revision": ("seq",),
    "operation": ("headers",),
    "time": ("time",),
}


@dataclass(frozen=True, slots=True)
class RelationName:
    """A relation as a query names it: the schema, which may be empty, and the name in it."""

    schema: str
    name: str

    @property
    def stream(self) -> str:
        """The stream to read; empty if no stream can have the name."""
        if self.schema not in OWN_SCHEMAS or _STREAM_NAME.fullmatch(self.name) is None:
            return ""
        return f"{BUCKET_PREFIX}{self.name}" if self.schema == KV else self.name

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class FoundRelation(msgspec.Struct, frozen=True):
    """The place of a relation's rows: a stream, a table, or both."""

    stream: str = ""
    table: str = ""
    schema: bytes = b""  # of a table alone: its columns as an Arrow schema


@dataclass(frozen=True, slots=True)
class RelationPart:
    """The part of a relation that a scan needs: of a stream, of a table, or of both."""

    stream: str
    table: str
    selection: Selection
    spans: Spans = field(default_factory=dict)  # of a table alone: limits of its columns


class StreamRelation:
    """A stream, perhaps with its archive; with `raw`, in all its columns and with payloads as they are."""

    def __init__(self, stream: str, *, table: str = "", raw: bool = False) -> None:
        self._stream = stream
        self._table = table
        self._raw = raw
        if raw:
            self.schema: Any = stream_schema(COLUMN_TYPES)
        else:
            fields = [(name, pa.string() if name == "data" else COLUMN_TYPES[name]) for name in USUAL_COLUMNS]
            self.schema = pa.schema(fields)

    def scan(self, columns: Sequence[str], spans: Spans) -> RelationPart:
        """Return the part of the stream that has the rows within the spans."""
        selection = _selection(
            tuple(columns),
            spans.get("seq", Span()),
            spans.get("time", Span()),
            spans.get("subject", Span()).values,
            is_empty=any(span.is_empty for span in spans.values()) or _is_other(spans, self._stream),
        )
        return RelationPart(self._stream, self._table, selection)

    def shaped(self, batch: Any, columns: Sequence[str]) -> Any:
        """Return a batch of the stream as one of the relation."""
        return batch if self._raw or "data" not in columns else _with_text(batch)


class BucketRelation:
    """The entries of a bucket; a view over it keeps the last one of each key."""

    schema: Final = pa.schema(list(_BUCKET_COLUMNS.items()))

    def __init__(self, bucket: str) -> None:
        self._stream = f"{BUCKET_PREFIX}{bucket}"
        self._prefix = f"$KV.{bucket}."

    def scan(self, columns: Sequence[str], spans: Spans) -> RelationPart:
        """Return the part of the stream that has the rows within the spans."""
        keys = spans.get("key", Span()).values
        selection = _selection(
            tuple(dict.fromkeys(need for name in columns for need in _BUCKET_NEEDS[name])),
            spans.get("revision", Span()),
            spans.get("time", Span()),
            None if keys is None else frozenset(f"{self._prefix}{key}" for key in keys),
            is_empty=any(span.is_empty for span in spans.values()),
        )
        return RelationPart(self._stream, "", selection)

    def shaped(self, batch: Any, columns: Sequence[str]) -> Any:
        """Return a batch of the stream as one of the relation."""
        arrays = [self._array(batch, name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([self.schema.field(c) for c in columns]))

    def _array(self, batch: Any, name: str) -> Any:
        match name:
            case "key":
                return pc.utf8_slice_codeunits(batch.column("subject"), len(self._prefix))
            case "value":
                is_put = pc.equal(_operations(batch), "put")
                return pc.if_else(is_put, as_text(batch.column("data")), pa.scalar(None, pa.string()))
            case "operation":
                return _operations(batch)
        return batch.column({"revision": "seq"}.get(name, name))


class TableRelation:
    """An Iceberg table alone."""

    def __init__(self, table: str, schema: bytes) -> None:
        self._table = table
        own = pa.ipc.read_schema(pa.py_buffer(schema))
        self._has_text = "data" in own.names and pa.types.is_binary(own.field("data").type)
        fields = [
            pa.field("data", pa.string()) if self._has_text and one.name == "data" else one for one in own
        ]
        self.schema: Final = pa.schema(fields)

    def scan(self, columns: Sequence[str], spans: Spans) -> RelationPart:
        """Return the part of the table that has the rows within the spans."""
        known = {name: span for name, span in spans.items() if not (self._has_text and name == "data")}
        wanted = tuple(columns) or (self.schema.names[0],)
        empty = () if any(span.is_empty for span in spans.values()) else None
        return RelationPart("", self._table, Selection(columns=wanted, subjects=empty), known)

    def shaped(self, batch: Any, columns: Sequence[str]) -> Any:
        """Return a batch of the table as one of the relation."""
        return _with_text(batch) if self._has_text and "data" in columns else batch


Relation = StreamRelation | BucketRelation | TableRelation


def relation_of(name: RelationName, found: FoundRelation) -> Relation:
    """Return the relation of a name that exists."""
    if not found.stream:
        return TableRelation(found.table, found.schema)
    if name.schema == KV:
        return BucketRelation(found.stream.removeprefix(BUCKET_PREFIX))
    return StreamRelation(found.stream, table=found.table, raw=name.schema == RAW)


def _with_text(batch: Any) -> Any:
    """Return the batch with `data` as text."""
    at = batch.schema.get_field_index("data")
    return batch.set_column(at, pa.field("data", pa.string()), as_text(batch.column(at)))


def as_text(column: Any) -> Any:
    """Return bytes as text, without a copy if they are UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if raw is None else raw.decode("utf-8", "replace") for raw in column.to_pylist()]
        return pa.array(texts, pa.string())


def _operations(batch: Any) -> Any:
    """Return put, delete or purge for each message of a bucket's stream."""
    said = _header(batch, wire.KV_OPERATION)
    marker = _header(batch, wire.MARKER_REASON)
    deleted = pc.or_(_is(said, wire.KV_OPERATION_DELETE), _is(marker, wire.MARKER_REASON_REMOVE))
    purged = pc.or_(_is(said, wire.KV_OPERATION_PURGE), pc.is_valid(marker))
    return pc.case_when(pc.make_struct(deleted, purged), "delete", "purge", "put")


def _header(batch: Any, name: str) -> Any:
    """Return the first value of a header for each message; null if there is none."""
    values = pc.map_lookup(batch.column("headers"), name, "first")
    return pc.list_element(values, 0)


def _is(column: Any, text: str) -> Any:
    return pc.fill_null(pc.equal(column, text), False)


def _selection(
    columns: tuple[str, ...],
    sequences: Span,
    times: Span,
    subjects: frozenset[str] | None,
    *,
    is_empty: bool,
) -> Selection:
    wanted = subjects
    if subjects is not None:
        wanted = frozenset(each for each in subjects if _is_subject(each))  # no message has another one
    return Selection(
        columns=columns or ("seq",),
        low=max(1, sequences.low or 1),
        high=sequences.high,
        from_ns=None if times.low is None else max(0, times.low) * 1000,
        until_ns=None if times.high is None else max(0, times.high + 1) * 1000,
        subjects=() if is_empty else None if wanted is None else tuple(sorted(wanted)),
    )


def _is_other(spans: Spans, stream: str) -> bool:
    names = spans.get("stream", Span()).values
    return names is not None and stream not in names


def _is_subject(text: str) -> bool:
    return all(
        token and token not in ("*", ">") and not set(token) & set(" \t\r\n") for token in text.split(".")
    )
