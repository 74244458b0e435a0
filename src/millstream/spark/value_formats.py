"""Payloads as values, decoded in the tasks of the source.

    valueFormat=json       a struct by `valueSchema`: columns as in SQL, or a JSON Schema
    valueFormat=variant    Spark's type for JSON without a schema
    valueFormat=avro       `valueSchema`: a schema of Avro's, or the name of its file
    valueFormat=protobuf   `valueSchema`: the name of a file of descriptors, `valueMessage`: that of a message

Schemas are read in the driver; tasks and plans, which have no session, get types and texts.

A payload of another form is a bad value: it fails the query with its place, or is null beside its reason in
the column `value_error`, or its row is dropped.  Not here: how payloads are decoded (`decoders`).
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql.types import DataType, StructType

from millstream.base.reasons import file_reason
from millstream.spark import option_values as values
from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.payload_schema import payload_ddl
from millstream.spark.schema import arrow_schema
from millstream.tables.errors import OptionError

if TYPE_CHECKING:
    from millstream.spark.decoders.decoder import Decoder

JSON: Final = "json"
VARIANT: Final = "variant"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
FAIL: Final = "fail"
NULL: Final = "null"
DROP: Final = "drop"


@dataclass(frozen=True)
class ValueFormat:
    """The form of payloads, and what becomes of those that do not have it."""

    name: str
    schema: str  # DDL, Avro's JSON, or descriptors in base64; empty if there is none, or the query has it
    on_bad: str
    message: str = ""  # of Protobuf

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self | None:
        """Return the format that options choose, by their proper names; None for payloads as they are."""
        named = given.get("valueFormat")
        if named is None:
            for name in ("valueSchema", "valueMessage", "onBadValue"):
                if name in given:
                    raise OptionError(f"option {name} does nothing without valueFormat")
            return None
        name = values.choice("valueFormat", named, (JSON, VARIANT, AVRO, PROTOBUF))
        if name == VARIANT and "valueSchema" in given:
            raise OptionError("option valueSchema is for a format with a schema, a variant has none")
        if (name == PROTOBUF) != ("valueMessage" in given):
            raise OptionError("valueFormat=protobuf and the option valueMessage need each other")
        on_bad = values.choice("onBadValue", given.get("onBadValue", FAIL), (FAIL, NULL, DROP))
        schema = _schema(name, given.get("valueSchema", ""))
        form = cls(name, schema, on_bad, given.get("valueMessage", "").strip())
        form.decoder()  # raises OptionError
        return form

    def decoder(self) -> "Decoder":
        """Return the decoder; raise OptionError if there is none for the schema."""
        match self.name:
            case "avro":
                from millstream.spark.decoders.avro_values import AvroDecoder

                return AvroDecoder(self.schema)
            case "protobuf":
                from millstream.spark.decoders.protobuf_values import ProtobufDecoder

                return ProtobufDecoder(self.schema, self.message)
        from millstream.spark.decoders.json_values import JsonDecoder, VariantDecoder

        return VariantDecoder() if self.name == VARIANT else JsonDecoder(self.schema)

    @property
    def ddl(self) -> str:
        """The type of the column `value`, for a query without a schema of its own."""
        return self.decoder().ddl

    def check(self, kind: DataType) -> None:
        """Raise SchemaError unless values can be decoded to a type."""
        self.decoder().check(kind)

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
        read = self.decoder().reader(kind)
        for payload in payloads:
            if payload is None:
                yield None, None
                continue
            try:
                yield read(payload), None
            except Exception as error:  # whatever a decoder makes of a payload, it is the payload's fault
                yield None, str(error) or type(error).__name__


def _schema(name: str, given: str) -> str:
    """Return a schema as text: files are read here."""
    if name == AVRO:
        if not given.strip():
            raise OptionError("valueFormat=avro needs the option valueSchema")
        return given if given.lstrip()[0] in '{["' else _content(given).decode(errors="replace")
    if name == PROTOBUF:
        if not given.strip():
            raise OptionError("valueFormat=protobuf needs the option valueSchema: a file of descriptors")
        return base64.b64encode(_content(given)).decode()
    try:
        return payload_ddl(given)
    except JobError as error:
        raise OptionError(str(error).replace('key "schema"', "option valueSchema")) from None


def _content(file: str) -> bytes:
    try:
        return Path(file.strip()).read_bytes()
    except OSError as error:
        raise OptionError(f"option valueSchema: cannot read {file.strip()}: {file_reason(error)}") from None
