"""The columns in which a source offers messages: its own, Kafka's, or those of a key-value bucket.

    own      stream, subject, seq, time, headers, data, … (`schema`)
    kafka    key, value, topic, partition, offset, timestamp, timestampType, headers: for jobs that come from
             Kafka.  The key is the subject, the partition is always 0, the offset is the sequence
    bucket   key, value, operation, revision, time: one row for each change of a key

A shape reads columns of its own and computes the others from them, batch by batch, in the task.  With
`valueFormat`, `DecodedShape` adds the payload as a value to the columns of the source, or decodes the value
of a bucket.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millstream.jsapi import headers as wire
from millstream.spark.errors import BadValue, SchemaError
from millstream.spark.options import BUCKET, KAFKA, OWN
from millstream.spark.schema import COLUMNS, DEFAULT_COLUMNS, arrow_schema, chosen_columns
from millstream.spark.value_formats import DROP, FAIL, NULL, ValueFormat

if TYPE_CHECKING:
    import pyarrow as pa

VALUE: Final = "value"
VALUE_ERROR: Final = "value_error"
LOG_APPEND_TIME: Final = 1  # Kafka's number for times that the server has set

Column = Callable[["pa.RecordBatch"], Any]


@dataclass(frozen=True)
class Derived:
    """A column: its type, the columns of a message that it is made of, and how."""

    type: DataType
    sources: tuple[str, ...]
    make: Column


@dataclass(frozen=True)
class Shape:
    """Columns by name; `derived` is empty for the source's own."""

    name: str
    derived: Mapping[str, Derived]

    @property
    def types(self) -> Mapping[str, DataType]:
        return {name: one.type for name, one in self.derived.items()} if self.derived else COLUMNS

    def schema(self) -> StructType:
        """Return the columns that a query without a schema gets."""
        names = list(self.derived) or list(DEFAULT_COLUMNS)
        return StructType([StructField(name, self.types[name]) for name in names])

    def check(self, schema: StructType) -> None:
        """Raise SchemaError for a column that this shape does not have."""
        chosen_columns(schema, self.types)

    def native(self, schema: StructType, *more: str) -> StructType:
        """Return the columns of messages that have to be read for a query."""
        if not self.derived:
            return schema
        wanted = {source for one in schema.fields for source in self.derived[one.name].sources} | set(more)
        names = [name for name in COLUMNS if name in wanted] or ["seq"]
        return StructType([StructField(name, COLUMNS[name]) for name in names])

    def converted(self, batches: Iterable[Any], schema: StructType) -> Iterator[Any]:
        """Yield the batches in the columns of the query."""
        if not self.derived:
            yield from batches
            return
        import pyarrow as pa

        form = arrow_schema(schema)
        makers = [self.derived[one.name].make for one in schema.fields]
        for batch in batches:
            columns = [make(batch).cast(field.type) for make, field in zip(makers, form, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=form)


def _same(name: str) -> Column:
    return lambda batch: batch.column(name)


def _constant(value: int) -> Column:
    def make(batch: "pa.RecordBatch") -> Any:
        import pyarrow as pa

        return pa.repeat(pa.scalar(value, pa.int32()), batch.num_rows)

    return make


def _kafka_headers(batch: "pa.RecordBatch") -> Any:
    """Return the headers as Kafka's list of pairs; a header with two values is in it twice."""
    import pyarrow as pa
    import pyarrow.compute as pc

    headers = batch.column("headers")
    values = headers.items  # a list of values for each name
    names = headers.keys.take(pc.list_parent_indices(values))
    pairs = pa.StructArray.from_arrays([names, pc.list_flatten(values).cast(pa.binary())], ["key", "value"])
    first = values.offsets[0].as_py() if len(values.offsets) else 0
    offsets = pc.subtract(values.offsets.take(headers.offsets), first)
    return pa.ListArray.from_arrays(offsets.cast(pa.int32()), pairs)


def bucket_keys(batch: "pa.RecordBatch") -> Any:
    """Return the keys of a bucket's messages: the subject without `$KV.<bucket>.`."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(batch.column("subject"), r"^[^.]*\.[^.]*\.", "", max_replacements=1)


def bucket_operations(batch: "pa.RecordBatch") -> Any:
    """Return put, delete or purge for each message of a bucket."""
    import pyarrow as pa
    import pyarrow.compute as pc

    headers = batch.column("headers")
    said, marker = (_first_value(headers, name) for name in (wire.KV_OPERATION, wire.MARKER_REASON))
    removed = pc.fill_null(pc.equal(marker, wire.MARKER_REASON_REMOVE), False)
    deleted = pc.or_(pc.fill_null(pc.equal(said, wire.KV_OPERATION_DELETE), False), removed)
    purged = pc.or_(pc.fill_null(pc.equal(said, wire.KV_OPERATION_PURGE), False), pc.is_valid(marker))
    operations = pc.if_else(deleted, "delete", pc.if_else(purged, "purge", "put"))
    return operations.cast(pa.string())


def _bucket_values(batch: "pa.RecordBatch") -> Any:
    """Return the values; null for keys that are deleted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = batch.column("data")
    return pc.if_else(pc.equal(bucket_operations(batch), "put"), data, pa.scalar(None, data.type))


def _first_value(headers: Any, name: str) -> Any:
    import pyarrow.compute as pc

    found = pc.map_lookup(headers, query_key=name, occurrence="first")
    return pc.list_element(pc.if_else(pc.greater(pc.list_value_length(found), 0), found, None), 0)


_PAIR: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

OWN_SHAPE: Final = Shape(OWN, {})
KAFKA_SHAPE: Final = Shape(
    KAFKA,
    {
        "key": Derived(BinaryType(), ("subject",), _same("subject")),
        "value": Derived(BinaryType(), ("data",), _same("data")),
        "topic": Derived(StringType(), ("stream",), _same("stream")),
        "partition": Derived(IntegerType(), (), _constant(0)),
        "offset": Derived(LongType(), ("seq",), _same("seq")),
        "timestamp": Derived(TimestampType(), ("time",), _same("time")),
        "timestampType": Derived(IntegerType(), (), _constant(LOG_APPEND_TIME)),
        "headers": Derived(ArrayType(_PAIR), ("headers",), _kafka_headers),
    },
)
BUCKET_SHAPE: Final = Shape(
    BUCKET,
    {
        "key": Derived(StringType(), ("subject",), bucket_keys),
        "value": Derived(BinaryType(), ("data", "headers"), _bucket_values),
        "operation": Derived(StringType(), ("headers",), bucket_operations),
        "revision": Derived(LongType(), ("seq",), _same("seq")),
        "time": Derived(TimestampType(), ("time",), _same("time")),
    },
)
SHAPES: Final = {one.name: one for one in (OWN_SHAPE, KAFKA_SHAPE, BUCKET_SHAPE)}


class DecodedShape:
    """Another shape with the columns `value`, which is the decoded payload, and `value_error`."""

    def __init__(self, base: Shape, form: ValueFormat) -> None:
        self._base = base
        self._form = form
        own = base.name == OWN
        self._payload = "data" if own else VALUE
        self._place = ("stream", "seq") if own else ("key", "revision")

    def schema(self) -> str:
        """Return the columns that a query without a schema gets, as DDL: Spark has the parser for it."""
        columns = [
            f"{one.name} {one.dataType.simpleString()}"
            for one in self._base.schema().fields
            if one.name != self._payload
        ]
        errors = [f"{VALUE_ERROR} string"] if self._form.on_bad == NULL else []
        return ", ".join([*columns, f"{VALUE} {self._form.ddl}", *errors])

    def check(self, schema: StructType) -> None:
        """Raise SchemaError for a column that this shape does not have."""
        names = [one.name for one in schema.fields]
        if self._form.on_bad == DROP and VALUE not in names:
            raise SchemaError("onBadValue=drop needs the column value")
        if VALUE_ERROR in names and VALUE not in names:
            raise SchemaError("the column value_error needs the column value")
        if VALUE in names:
            self._form.check(schema[VALUE].dataType)
        types = {**self._base.types, VALUE: BinaryType(), VALUE_ERROR: StringType()}
        chosen_columns(StructType([_undecoded(one) for one in schema.fields]), types)

    def native(self, schema: StructType, *more: str) -> StructType:
        """Return the columns of messages that have to be read for a query."""
        return self._base.native(self._inner(schema), *more)

    def converted(self, batches: Iterable[Any], schema: StructType) -> Iterator[Any]:
        """Yield the batches in the columns of the query; raise BadValue for the first bad one if it fails."""
        import pyarrow as pa

        inner = self._inner(schema)
        plain = self._base.converted(batches, inner)
        if VALUE not in schema.names:
            yield from plain
            return
        form = arrow_schema(schema)
        for batch in plain:
            values, reasons = self._form.decoded(batch.column(self._payload), schema[VALUE].dataType)
            if self._form.on_bad == FAIL:
                self._refuse(batch, reasons)
            made = {VALUE: values, VALUE_ERROR: pa.array(reasons, pa.string())}
            columns = [made[name] if name in made else batch.column(name) for name in form.names]
            result = pa.RecordBatch.from_arrays(columns, schema=form)
            if self._form.on_bad == DROP:
                result = result.filter(pa.array([reason is None for reason in reasons]))
            yield result

    def _inner(self, schema: StructType) -> StructType:
        """Return the columns of the other shape that are needed."""
        names = [name for name in schema.names if name not in (VALUE, VALUE_ERROR)]
        if VALUE in schema.names:
            names += [name for name in (self._payload, *self._place) if name not in names]
        return StructType([StructField(name, self._base.types[name]) for name in names])

    def _refuse(self, batch: "pa.RecordBatch", reasons: list[str | None]) -> None:
        at = next((at for at, reason in enumerate(reasons) if reason is not None), None)
        if at is not None:
            place = ", ".join(f"{name} {batch.column(name)[at].as_py()}" for name in self._place)
            raise BadValue(f"{place}: the payload is no {self._form.name} of the wanted form: {reasons[at]}")


def _undecoded(one: StructField) -> StructField:
    return StructField(VALUE, BinaryType()) if one.name == VALUE else one


def offered_shape(shape: str, form: ValueFormat | None) -> Shape | DecodedShape:
    """Return the shape of a query, by the name of its columns and the format of its values."""
    return SHAPES[shape] if form is None else DecodedShape(SHAPES[shape], form)
