"""The fields of a payload as columns of a table: what they are, and how a payload is decoded.

JSON       `schema` is DDL or a JSON Schema; Spark decodes
Avro       `schema` is a record of Avro's, as JSON or as a file with it; the source decodes
Protobuf   `schema` is a file of descriptors, `schema_message` the name of a message; the source decodes
"""

import json
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame

from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.payload_schema import payload_ddl, schema_text
from millstream.spark.jobs.payloads import DAMAGED, parse_payload
from millstream.spark.schema import default_schema
from millstream.spark.shapes import VALUE, VALUE_ERROR
from millstream.spark.value_formats import AVRO, NULL, PROTOBUF, ValueFormat
from millstream.tables.errors import OptionError

_NO_FIELDS: Final = "struct<>"


@dataclass(frozen=True)
class TypedPayload:
    """The columns of a payload as DDL, empty if there are none, and the source's options for its decoding."""

    columns: str = ""
    options: dict[str, str] = field(default_factory=dict)  # empty: Spark decodes JSON

    @property
    def source_columns(self) -> str:
        """Return the columns to read from the source as DDL; empty for its own."""
        if not self.options:
            return ""
        messages = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in default_schema().fields)
        return f"{messages}, {VALUE} {self.columns}, {VALUE_ERROR} string"

    def parsed(self, messages: DataFrame) -> DataFrame:
        """Add `value`, the decoded payload, and `_damaged`, the reason why there is none, or null."""
        if self.options:
            return messages.withColumnRenamed(VALUE_ERROR, DAMAGED)
        return parse_payload(messages, self.columns)


def typed_payload(schema: str, message: str = "") -> TypedPayload:
    """Return the columns of a schema; raise JobError if it is none."""
    if not schema.strip():
        return TypedPayload()
    if message.strip():
        return _decoded(PROTOBUF, schema, message)
    text = schema_text(schema)
    return _decoded(AVRO, text) if _is_record(text) else TypedPayload(payload_ddl(text))


def _is_record(text: str) -> bool:
    try:
        document = json.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("type") == "record"


def _decoded(name: str, schema: str, message: str = "") -> TypedPayload:
    given = {"valueFormat": name, "valueSchema": schema, "valueMessage": message, "onBadValue": NULL}
    options = {key: value for key, value in given.items() if value}
    try:
        form = ValueFormat.parse(options)
    except OptionError as error:
        text = str(error).replace("option valueSchema", 'key "schema"')
        text = text.replace("option valueMessage", 'key "schema_message"')
        raise JobError(text if text.startswith("key ") else f'key "schema": {text}') from None
    assert form is not None
    columns = form.ddl
    if not columns.startswith("struct<") or _NO_FIELDS in columns:
        raise JobError('key "schema": the columns of a table need fields, in every part of the schema')
    return TypedPayload(columns, options)
