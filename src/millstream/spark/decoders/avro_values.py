"""Avro payloads: one value in the binary encoding, without a file header and without a schema id.

The schema is the writer's, as Avro's JSON.  A union may have `null` and one other type.  Refused are types
that contain themselves, and arrays of items that take no bytes: a payload of a few bytes could say that it
has any number of them.
"""

import io
import json
from typing import Any, Final

from pyspark.sql import types as T

from millstream.spark.decoders.decoder import Read, check_part
from millstream.tables.errors import OptionError

_PLAIN: Final[dict[str, T.DataType]] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
}
_LOGICAL: Final[dict[tuple[str, str], T.DataType]] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
_MOST_DIGITS: Final = 38


class AvroDecoder:
    """Payloads of one Avro schema."""

    def __init__(self, text: str) -> None:
        try:
            import fastavro
        except ImportError:
            raise OptionError("valueFormat=avro needs fastavro: pip install 'millstream[avro]'") from None
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise OptionError(f"option valueSchema is no JSON: {error}") from None
        self._type, plain = _Types().read(schema, "")
        try:
            self._schema = fastavro.parse_schema(plain)
        except Exception as error:
            raise OptionError(f"option valueSchema is no schema of Avro's: {error}") from None

    @property
    def ddl(self) -> str:
        return self._type.simpleString()

    def check(self, kind: T.DataType) -> None:
        check_part(kind, self._type)

    def reader(self, kind: T.DataType) -> Read:
        from fastavro import schemaless_reader

        schema = self._schema

        def read(payload: bytes) -> Any:
            source = io.BytesIO(payload)
            try:
                value = schemaless_reader(source, schema, None)
            except EOFError:
                raise ValueError("the payload ends within the value") from None
            if source.tell() != len(payload):
                raise ValueError(f"{len(payload) - source.tell()} bytes follow the value")
            return value

        return read


class _Types:
    """The types of a schema; names refer to types that came before."""

    def __init__(self) -> None:
        self._named: dict[str, T.DataType | None] = {}  # None: not complete
        self._empty: set[str] = set()  # names of types whose values may take no bytes

    def read(self, schema: Any, space: str) -> tuple[T.DataType, Any]:
        """Return the type of a column, and the schema without what is left as it is stored."""
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return self._reference(schema, space), schema
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, dict | list):
            return self.read(kind, space)
        if not isinstance(kind, str):
            raise _refusal(f"{json.dumps(schema)} has no type")
        match kind:
            case "record":
                return self._record(schema, space)
            case "array":
                items, plain = self.read(schema.get("items"), space)
                if self._is_empty(plain, space):
                    raise _refusal("items of an array take no bytes")
                return T.ArrayType(items), {"type": kind, "items": plain}
            case "map":
                values, plain = self.read(schema.get("values"), space)
                return T.MapType(T.StringType(), values), {"type": kind, "values": plain}
            case "enum" | "fixed":
                return self._named_value(schema, space)
        return self._logical(schema, kind), _stored(schema, kind) if kind in _PLAIN else schema

    def _logical(self, schema: Any, kind: str) -> T.DataType:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int) or precision > _MOST_DIGITS:
                raise _refusal(f"a decimal has at most {_MOST_DIGITS} digits")
            return T.DecimalType(precision, scale)
        if kind == "fixed":
            return T.BinaryType()
        if (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        return self._reference(kind, "")

    def _reference(self, name: str, space: str) -> T.DataType:
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "null":
            raise _refusal("a value that is always null has no column")
        full = _full_name(name, space)
        if full not in self._named:
            raise _refusal(f"there is no type {name}")
        found = self._named[full]
        if found is None:
            raise _refusal(f"type {name} contains itself")
        return found

    def _union(self, parts: list[Any], space: str) -> tuple[T.DataType, Any]:
        others = [one for one in parts if one not in ("null", {"type": "null"})]
        if len(others) != 1:
            raise _refusal("a union has null and one other type")
        kind, plain = self.read(others[0], space)
        return kind, [plain if one is others[0] else "null" for one in parts]

    def _record(self, schema: Any, space: str) -> tuple[T.DataType, Any]:
        full, space = self._declared(schema, space)
        fields, plain = [], []
        self._named[full] = None
        for one in schema.get("fields") or []:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise _refusal(f"a field of {full} has no name")
            kind, stored = self.read(one.get("type"), space)
            fields.append(T.StructField(one["name"], kind))
            plain.append({"name": one["name"], "type": stored})
        if all(self._is_empty(one["type"], space) for one in plain):
            self._empty.add(full)
        found = self._named[full] = T.StructType(fields)
        return found, {"type": "record", "name": full, "fields": plain}

    def _named_value(self, schema: Any, space: str) -> tuple[T.DataType, Any]:
        full, _ = self._declared(schema, space)
        if schema["type"] == "fixed" and schema.get("size") == 0:
            self._empty.add(full)
        found = T.StringType() if schema["type"] == "enum" else self._logical(schema, "fixed")
        self._named[full] = found
        return found, {**_stored(schema, schema["type"]), "name": full}

    def _declared(self, schema: Any, space: str) -> tuple[str, str]:
        """Return the full name that a schema declares, and the namespace inside it."""
        name = schema.get("name")
        if not isinstance(name, str):
            raise _refusal(f"a type {schema['type']} has no name")
        full = _full_name(name, schema.get("namespace") or space)
        if full in self._named:
            raise _refusal(f"type {full} is declared twice")
        return full, full.rpartition(".")[0]

    def _is_empty(self, plain: Any, space: str) -> bool:
        name = plain.get("name") if isinstance(plain, dict) else plain
        return isinstance(name, str) and _full_name(name, space) in self._empty


def _stored(schema: Any, kind: str) -> Any:
    """Return a schema without a logical type for which there is no column: the stored value is read."""
    if (kind, schema.get("logicalType")) in _LOGICAL or schema.get("logicalType") == "decimal":
        return schema
    return {key: value for key, value in schema.items() if key != "logicalType"}


def _full_name(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name and name not in _PLAIN else name


def _refusal(reason: str) -> OptionError:
    return OptionError(f"option valueSchema: {reason}")
