"""The columns of a JSON payload, from a DDL string, a JSON Schema, or a file with a JSON Schema.

A JSON Schema gives columns for the `properties` of an object: `string` (with `format: date-time` or `date`, a
timestamp or a date), `integer`, `number`, `boolean`, `array` and `object`.  What else a schema demands of
values (`required`, `minimum`, …) is not checked.
"""

import json
from pathlib import Path
from typing import Any, Final

from millstream.spark.jobs.errors import JobError

_PLAIN: Final = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_FORMATS: Final = {"date-time": "timestamp", "date": "date"}


def payload_ddl(text: str) -> str:
    """Return the columns as a DDL string; raise JobError if the text is no schema."""
    text = schema_text(text)
    if not text.startswith("{"):
        return text
    try:
        document = json.loads(text)
    except ValueError as error:
        raise JobError(f'key "schema": not JSON: {error}') from None
    if document.get("type") != "object" or not document.get("properties"):
        raise JobError('key "schema": a JSON Schema of an object with properties is wanted')
    return ", ".join(_field(name, one) for name, one in document["properties"].items())


def schema_text(text: str) -> str:
    """Return the text of a schema: what is in the file, if it is the name of one."""
    text = text.strip()
    if not text.endswith((".json", ".avsc")):
        return text
    try:
        return Path(text).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f'key "schema": {error}') from None


def _field(name: str, schema: Any, separator: str = " ") -> str:
    if "`" in name:
        raise JobError(f'key "schema": a column cannot be named {name}')
    return f"`{name}`{separator}{_type(name, schema)}"


def _type(name: str, schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):  # ["string", "null"]: every column may be null
        kinds = [one for one in kind if one != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "array" and schema.get("items"):
        return f"array<{_type(name, schema['items'])}>"
    if kind == "object" and schema.get("properties"):
        inside = ", ".join(_field(each, one, ": ") for each, one in schema["properties"].items())
        return f"struct<{inside}>"
    raise JobError(f'key "schema": property {name} has no type that a column can have')
