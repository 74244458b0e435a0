"""Payloads as values, decoded in the tasks of the source: JSON of a schema, or any JSON as a variant.

    valueFormat=json      a struct by `valueSchema`: columns as in SQL, or a JSON Schema
    valueFormat=variant   Spark's type for JSON without a schema

Spark parses the schema, so that tasks and plans, which have no session, get it as a type.

A field that is missing or null is null, one that the schema does not name is left out.  A payload that is no
JSON, or has a field of another type, is a bad value: it fails the query with its place, or is null beside its
reason in the column `value_error`, or its row is dropped.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Self, TypedDict

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

from millstream.spark import option_values as values
from millstream.spark.errors import SchemaError
from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.payload_schema import payload_ddl
from millstream.spark.schema import arrow_schema
from millstream.tables.errors import OptionError

JSON: Final = "json"
VARIANT: Final = "variant"
FAIL: Final = "fail"
NULL: Final = "null"
DROP: Final = "drop"
_ELSEWHERE: Final = {"avro": "from_avro", "protobuf": "from_protobuf"}
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


@dataclass(frozen=True)
class ValueFormat:
    """The form of payloads, and what becomes of those that do not have it."""

    name: str
    schema: str  # columns as DDL; empty for a variant, and where the query's own schema has the type
    on_bad: str

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self | None:
        """Return the format that options choose, by their proper names; None for payloads as they are."""
        named = given.get("valueFormat")
        if named is None:
            for name in ("valueSchema", "onBadValue"):
                if name in given:
                    raise OptionError(f"option {name} does nothing without valueFormat")
            return None
        function = _ELSEWHERE.get(named.strip().lower())
        if function is not None:
            raise OptionError(
                f"valueFormat={named} is not supported; read the column data and use {function} of Spark"
            )
        name = values.choice("valueFormat", named, (JSON, VARIANT))
        if name == VARIANT and "valueSchema" in given:
            raise OptionError("option valueSchema is for valueFormat=json, a variant has none")
        on_bad = values.choice("onBadValue", given.get("onBadValue", FAIL), (FAIL, NULL, DROP))
        return cls(name, _ddl(given.get("valueSchema", "")), on_bad)

    @property
    def ddl(self) -> str:
        """The type of the column `value`, for a query without a schema of its own."""
        if self.name == VARIANT:
            return "variant"
        if not self.schema:
            raise OptionError("valueFormat=json needs the option valueSchema, or a schema with the value")
        return f"struct<{self.schema}>"

    def check(self, kind: DataType) -> None:
        """Raise SchemaError unless values can be decoded to a type."""
        if self.name == VARIANT and not isinstance(kind, VariantType):
            raise SchemaError(f"column value is variant, not {kind.simpleString()}; cast it in the query")
        if self.name == JSON:
            if not isinstance(kind, StructType):
                raise SchemaError(f"column value is a struct, not {kind.simpleString()}")
            _python_type(kind)

    def decoded(self, payloads: Any, kind: DataType) -> tuple[Any, list[str | None]]:
        """Return the values of payloads as an Arrow array, and the reason for each that is bad."""
        import pyarrow as pa

        form = arrow_schema(StructType().add("value", kind)).field("value").type
        found = list(self._each(payloads.to_pylist(), kind))
        rows, reasons = [value for value, _ in found], [reason for _, reason in found]
        try:
            return pa.array(rows, form), reasons
        except (pa.ArrowException, OverflowError, ValueError):  # a number that its type cannot hold
            for at, row in enumerate(rows):
                try:
                    pa.array([row], form)
                except (pa.ArrowException, OverflowError, ValueError) as error:
                    rows[at], reasons[at] = None, str(error).splitlines()[0]
            return pa.array(rows, form), reasons

    def _each(self, payloads: list[bytes | None], kind: DataType) -> Iterator[tuple[Any, str | None]]:
        decode = _variant if self.name == VARIANT else msgspec.json.Decoder(_python_type(kind)).decode
        for payload in payloads:
            if payload is None:
                yield None, None
                continue
            try:
                yield decode(payload), None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
                yield None, str(error) or type(error).__name__


def _ddl(text: str) -> str:
    try:
        return payload_ddl(text)
    except JobError as error:
        raise OptionError(str(error).replace('key "schema"', "option valueSchema")) from None


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
