"""Protobuf payloads: one message, of a set of descriptors that `protoc` has written.

    protoc --include_imports --descriptor_set_out=readings.desc readings.proto

A field that can tell that it is absent is null then; others have their default.  Enumerations are texts (the
number, if it has no name), `google.protobuf.Timestamp` is a timestamp.  Messages that contain themselves are
refused.
"""

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from millstream.spark.decoders.decoder import Read, check_part
from millstream.tables.errors import OptionError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_FIRST_S: Final = -62_135_596_800  # the year 1
_LAST_S: Final = 253_402_300_799  # the year 9999

Get = Callable[[Any], Any]


class ProtobufDecoder:
    """Payloads of one message; `descriptors` is a set of descriptors in base64."""

    def __init__(self, descriptors: str, message: str) -> None:
        try:
            from google.protobuf import descriptor_pool, message_factory
            from google.protobuf.descriptor_pb2 import FileDescriptorSet
        except ImportError:
            raise OptionError(
                "valueFormat=protobuf needs protobuf: pip install 'millstream[protobuf]'"
            ) from None
        pool = descriptor_pool.DescriptorPool()
        try:
            files = FileDescriptorSet.FromString(base64.b64decode(descriptors, validate=True)).file
            for file in files:
                pool.Add(file)
        except Exception as error:  # TypeError, ValueError, DecodeError
            reason = str(error).strip().splitlines()[0]
            raise OptionError(
                f"option valueSchema is no complete set of descriptors; make it with "
                f"protoc --include_imports --descriptor_set_out: {reason}"
            ) from None
        names = [_joined(file.package, one.name) for file in files for one in file.message_type]
        try:
            descriptor = pool.FindMessageTypeByName(message)
        except KeyError:
            there = ", ".join(sorted(names)[:10]) or "nothing"
            raise OptionError(f"option valueMessage: there is no message {message!r} among {there}") from None
        self._type, self._get = _message(descriptor, ())
        self._class: Any = message_factory.GetMessageClass(descriptor)

    @property
    def ddl(self) -> str:
        return self._type.simpleString()

    def check(self, kind: T.DataType) -> None:
        check_part(kind, self._type)

    def reader(self, kind: T.DataType) -> Read:
        parse, get = self._class.FromString, self._get
        return lambda payload: get(parse(payload))


def _joined(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def _message(descriptor: "Descriptor", outer: tuple[str, ...]) -> tuple[T.DataType, Get]:
    """Return the type of a message, and how to get its value."""
    if descriptor.full_name == _TIMESTAMP:
        return T.TimestampType(), _microseconds
    if descriptor.full_name in outer:
        raise OptionError(f"option valueMessage: message {descriptor.full_name} contains itself")
    outer = (*outer, descriptor.full_name)
    fields: list[T.StructField] = []
    getters: list[tuple[str, Get]] = []
    for one in descriptor.fields:
        kind, get = _field(one, outer)
        fields.append(T.StructField(one.name, kind))
        getters.append((one.name, get))
    return T.StructType(fields), lambda message: {name: get(message) for name, get in getters}


def _field(field: "FieldDescriptor", outer: tuple[str, ...]) -> tuple[T.DataType, Get]:
    name = field.name
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, key_of = _value(inner.fields_by_name["key"], outer)
        value, value_of = _value(inner.fields_by_name["value"], outer)
        return T.MapType(key, value), lambda message: {
            key_of(one): value_of(other) for one, other in getattr(message, name).items()
        }
    kind, convert = _value(field, outer)
    if field.is_repeated:
        return T.ArrayType(kind), lambda message: [convert(one) for one in getattr(message, name)]
    if field.has_presence:
        return kind, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return kind, lambda message: convert(getattr(message, name))


def _value(field: "FieldDescriptor", outer: tuple[str, ...]) -> tuple[T.DataType, Get]:
    """Return the type of one value of a field, and how to convert it."""
    kinds = type(field)
    match field.cpp_type:
        case kinds.CPPTYPE_MESSAGE:
            return _message(field.message_type, outer)
        case kinds.CPPTYPE_ENUM:
            names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
            return T.StringType(), lambda number: names.get(number) or str(number)
        case kinds.CPPTYPE_UINT64:
            return T.DecimalType(20, 0), Decimal
        case kinds.CPPTYPE_STRING:
            return (T.BinaryType() if field.type == kinds.TYPE_BYTES else T.StringType()), _same
    return {
        kinds.CPPTYPE_BOOL: T.BooleanType(),
        kinds.CPPTYPE_INT32: T.IntegerType(),
        kinds.CPPTYPE_UINT32: T.LongType(),
        kinds.CPPTYPE_INT64: T.LongType(),
        kinds.CPPTYPE_FLOAT: T.FloatType(),
        kinds.CPPTYPE_DOUBLE: T.DoubleType(),
    }[field.cpp_type], _same


def _same(value: Any) -> Any:
    return value


def _microseconds(time: Any) -> int:
    if not _FIRST_S <= time.seconds <= _LAST_S:
        raise ValueError(f"no time is {time.seconds} seconds from 1970")
    return int(time.seconds * 1_000_000 + time.nanos // 1000)
