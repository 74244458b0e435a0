"""The columns of a payload, from DDL or JSON Schema."""

import json
from pathlib import Path

import pytest

from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.payload_schema import payload_ddl

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "count": {"type": ["integer", "null"]},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}, "day": {"type": "string",
                  "format": "date"}}},
    },
}  # fmt: skip
COLUMNS = (
    "`id` string, `count` bigint, `price` double, `paid` boolean, `at` timestamp, `tags` array<string>, "
    "`place` struct<`lat`: double, `day`: date>"
)


def test_a_schema_becomes_columns(tmp_path: Path) -> None:
    assert payload_ddl(" id string, price double ") == "id string, price double"
    assert payload_ddl(json.dumps(ORDER)) == COLUMNS
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    assert payload_ddl(str(file)) == COLUMNS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ('{"type": "array"}', "a JSON Schema of an object with properties is wanted"),
        ('{"type": "object", "properties": {"x": {}}}', "property x has no type"),
        (
            '{"type": "object", "properties": {"x": {"type": ["string", "integer"]}}}',
            "property x has no type",
        ),
        ('{"type": "object", "properties": {"x": {"type": "array"}}}', "property x has no type"),
        ('{"type": "object", "properties": {"`": {"type": "string"}}}', "cannot be named"),
        ("/nowhere/order.json", "No such file"),
    ],
)
def test_other_texts_are_refused(text: str, problem: str) -> None:
    with pytest.raises(JobError, match=f'key "schema": .*{problem}'):
        payload_ddl(text)
