"""The interface of decoders, and what those share whose schema names every type."""

from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql.types import DataType, StructType

from millstream.spark.errors import SchemaError

Read = Callable[[bytes], Any]  # raises an exception for a payload that does not have the form


class Decoder(Protocol):
    """A format of payloads."""

    @property
    def ddl(self) -> str:
        """Return the type of the column `value`, for a query without a schema of its own."""

    def check(self, kind: DataType) -> None:
        """Raise SchemaError unless payloads can be decoded to a type."""

    def reader(self, kind: DataType) -> Read:
        """Return a function that decodes one payload to a value that Arrow takes for this type."""


def check_part(kind: DataType, whole: DataType) -> None:
    """Raise SchemaError unless a type is another one, or a struct with some of its fields."""
    if not _is_part(kind, whole):
        raise SchemaError(
            f"column value is {whole.simpleString()}, not {kind.simpleString()}; leave out fields or cast it"
        )


def _is_part(kind: DataType, whole: DataType) -> bool:
    if not isinstance(kind, StructType) or not isinstance(whole, StructType):
        return kind.simpleString() == whole.simpleString()
    types = {one.name: one.dataType for one in whole.fields}
    return all(one.name in types and _is_part(one.dataType, types[one.name]) for one in kind.fields)
