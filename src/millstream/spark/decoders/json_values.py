"""JSON payloads: of a schema, as a struct, or any JSON as a variant.

A field that is missing or null is null, one that the schema does not name is left out.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypedDict

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from millstream.spark.decoders.decoder import Read
from millstream.spark.errors import SchemaError
from millstream.tables.errors import OptionError

_BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_PLAIN: Final[dict[type[DataType], Any]] = {
    StringType: str,
    BooleanType: bool,
    FloatType: float,
    DoubleType: float,
    TimestampType: datetime,
    DateType: date,
    DecimalType: Decimal,
    BinaryType: bytes,  # base64 in JSON
}


class JsonDecoder:
    """JSON objects with the fields of a struct; `columns` is DDL, or empty if the query names the type."""

    def __init__(self, columns: str) -> None:
        self._columns = columns

    @property
    def ddl(self) -> str:
        if not self._columns:
            raise OptionError("valueFormat=json needs the option valueSchema, or a schema with the value")
        return f"struct<{self._columns}>"

    def check(self, kind: DataType) -> None:
        if not isinstance(kind, StructType):
            raise SchemaError(f"column value is a struct, not {kind.simpleString()}")
        _python_type(kind)

    def reader(self, kind: DataType) -> Read:
        read: Read = msgspec.json.Decoder(_python_type(kind)).decode
        return read


class VariantDecoder:
    """Any JSON, as Spark's type for JSON without a schema."""

    ddl = "variant"

    def check(self, kind: DataType) -> None:
        if not isinstance(kind, VariantType):
            raise SchemaError(f"column value is variant, not {kind.simpleString()}; cast it in the query")

    def reader(self, kind: DataType) -> Read:
        return _variant


def _variant(payload: bytes) -> dict[str, bytes]:
    msgspec.json.decode(payload, type=msgspec.Raw)  # its errors are short
    value = VariantVal.parseJson(payload.decode())
    return {"value": value.value, "metadata": value.metadata}


def _python_type(kind: DataType) -> Any:
    """Return the type to which msgspec decodes JSON for a column; raise SchemaError if there is none."""
    bits = _BITS.get(type(kind))
    if bits is not None:
        return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    match kind:
        case ArrayType():
            return list[_python_type(kind.elementType) | None]  # type: ignore[misc]
        case MapType() if isinstance(kind.keyType, StringType):
            return dict[str, _python_type(kind.valueType) | None]  # type: ignore[misc]
        case StructType():
            fields = {one.name: _python_type(one.dataType) | None for one in kind.fields}
            return TypedDict("Fields", fields, total=False)  # type: ignore[operator]
    raise SchemaError(f"column value: type {kind.simpleString()} cannot be decoded from JSON")
