"""The columns of a stream, and the columns that a query selects.

    stream string, subject string, seq long, time timestamp, headers map<string,array<string>>, data binary

Further columns must be named in `.schema(...)`: `time_ns` (Spark keeps microseconds, JetStream nanoseconds),
`size` of the payload, `msg_id` (null if there is none), `tokens` (the subject, split) and `headers_raw`, the
header block as published, including bytes that are not UTF-8.

Any subset in any order works, and a query without `data` transfers no payloads: Spark does not prune columns
of Python sources, so the schema is the way to do it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millstream.spark.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow

COLUMNS: Final[dict[str, DataType]] = {
    "stream": StringType(),
    "subject": StringType(),
    "seq": LongType(),
    "time": TimestampType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
    "data": BinaryType(),
    "time_ns": LongType(),
    "size": IntegerType(),
    "msg_id": StringType(),
    "tokens": ArrayType(StringType()),
    "headers_raw": BinaryType(),
}
DEFAULT_COLUMNS: Final = ("stream", "subject", "seq", "time", "headers", "data")


def default_schema() -> StructType:
    return StructType([StructField(name, COLUMNS[name]) for name in DEFAULT_COLUMNS])


def chosen_columns(schema: StructType, known: Mapping[str, DataType] = COLUMNS) -> tuple[str, ...]:
    """Return the names of the selected columns; raise `SchemaError` for an unknown name or wrong type."""
    names = []
    for wanted in schema.fields:
        kind = known.get(wanted.name)
        if kind is None:
            raise SchemaError(
                f"the jetstream source has no column {wanted.name!r}; it has {', '.join(known)}"
            )
        if _shape(wanted.dataType) != _shape(kind):
            raise SchemaError(
                f"column {wanted.name} is {kind.simpleString()}, not {wanted.dataType.simpleString()}; "
                "cast it in the query"
            )
        if wanted.name in names:
            raise SchemaError(f"the schema names column {wanted.name} twice")
        names.append(wanted.name)
    return tuple(names)


def arrow_schema(schema: StructType) -> "pyarrow.Schema":
    """Return the Arrow schema in which Spark accepts record batches of this schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _shape(kind: DataType) -> str:
    """Return a type without its nullability."""
    return kind.simpleString()
