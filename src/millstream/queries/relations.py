"""The relations of a query: streams and buckets with the columns that SQL sees.

    ORDERS       stream, subject, seq, time, headers, data, size; `data` is text
    raw.ORDERS   all columns of formats/arrow.md; `data` is a BLOB
    kv.CONFIG    key, value, revision, operation, time: the last entry of each key

Bytes of a payload that are not UTF-8 are U+FFFD in a text; the relation `raw` has them.  A relation says
which part of its stream a scan needs, and turns the stream's record batches into its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from millstream.jsapi import headers as wire
from millstream.queries.substrait import Span, Spans
from millstream.tables.schema import COLUMN_TYPES, USUAL_COLUMNS, stream_schema
from millstream.tables.source import Selection

KV: Final = "kv"
RAW: Final = "raw"
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
        if self.schema not in ("", KV, RAW) or _STREAM_NAME.fullmatch(self.name) is None:
            return ""
        return f"{BUCKET_PREFIX}{self.name}" if self.schema == KV else self.name

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class StreamRelation:
    """A stream; with `raw`, in all its columns and with payloads as they are."""

    def __init__(self, stream: str, *, raw: bool = False) -> None:
        self.stream: Final = stream
        self._raw = raw
        if raw:
            self.schema: Any = stream_schema(COLUMN_TYPES)
        else:
            fields = [(name, pa.string() if name == "data" else COLUMN_TYPES[name]) for name in USUAL_COLUMNS]
            self.schema = pa.schema(fields)

    def selection(self, columns: Sequence[str], spans: Spans) -> Selection:
        """Return the part of the stream that has the rows within the spans."""
        return _selection(
            tuple(columns),
            spans.get("seq", Span()),
            spans.get("time", Span()),
            spans.get("subject", Span()).values,
            is_empty=any(span.is_empty for span in spans.values()) or _is_other(spans, self.stream),
        )

    def shaped(self, batch: Any, columns: Sequence[str]) -> Any:
        """Return a batch of the stream as one of the relation."""
        if self._raw or "data" not in columns:
            return batch
        at = batch.schema.get_field_index("data")
        return batch.set_column(at, pa.field("data", pa.string()), as_text(batch.column(at)))


class BucketRelation:
    """The entries of a bucket; a view over it keeps the last one of each key."""

    schema: Final = pa.schema(list(_BUCKET_COLUMNS.items()))

    def __init__(self, bucket: str) -> None:
        self.stream: Final = f"{BUCKET_PREFIX}{bucket}"
        self._prefix = f"$KV.{bucket}."

    def selection(self, columns: Sequence[str], spans: Spans) -> Selection:
        """Return the part of the stream that has the rows within the spans."""
        keys = spans.get("key", Span()).values
        return _selection(
            tuple(dict.fromkeys(need for name in columns for need in _BUCKET_NEEDS[name])),
            spans.get("revision", Span()),
            spans.get("time", Span()),
            None if keys is None else frozenset(f"{self._prefix}{key}" for key in keys),
            is_empty=any(span.is_empty for span in spans.values()),
        )

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


Relation = StreamRelation | BucketRelation


def relation_of(name: RelationName, stream: str) -> Relation:
    """Return the relation of a name whose stream exists."""
    if name.schema == KV:
        return BucketRelation(stream.removeprefix(BUCKET_PREFIX))
    return StreamRelation(stream, raw=name.schema == RAW)


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
