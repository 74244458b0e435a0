"""The columns of a payload by the form of its schema: JSON, Avro, Protobuf."""

import json
from pathlib import Path

import pytest

from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.typed_payload import TypedPayload, typed_payload
from tests.kits.spark.encoded import MESSAGE, RECORD, avro_file, protobuf_file

COLUMNS = "struct<device:string,celsius:double,tags:array<string>>"


def test_json_is_decoded_by_spark() -> None:
    assert typed_payload("") == TypedPayload()
    assert typed_payload(" a int ") == TypedPayload("a int")
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    assert typed_payload(schema) == TypedPayload("`a` bigint")
    assert typed_payload(schema).source_columns == ""


def test_a_record_of_avro_is_decoded_by_the_source(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    for schema in (json.dumps(RECORD), avro_file(tmp_path)):
        found = typed_payload(schema)
        assert found.columns == COLUMNS
        assert found.options == {
            "valueFormat": "avro",
            "valueSchema": schema if schema.startswith("{") else json.dumps(RECORD),
            "onBadValue": "null",
        }
        assert found.source_columns.endswith(f"data binary, value {COLUMNS}, value_error string")


def test_a_message_of_protobuf_is_decoded_by_the_source(tmp_path: Path) -> None:
    file = protobuf_file(tmp_path)
    found = typed_payload(file, MESSAGE)
    assert found.columns == COLUMNS
    assert (found.options["valueSchema"], found.options["valueMessage"]) == (file, MESSAGE)


def test_schemas_without_columns_are_refused(tmp_path: Path) -> None:
    file = protobuf_file(tmp_path)
    for schema, message, text in (
        (file, "plant.Other", 'key "schema_message": there is no message'),
        ("none.desc", MESSAGE, 'key "schema": cannot read none.desc'),
        (file, "plant.Nothing", "need fields, in every part"),
        ("none.avsc", "", 'key "schema": .*No such file'),
    ):
        with pytest.raises(JobError, match=f"^{text}" if text.startswith("key") else text):
            typed_payload(schema, message)


def test_a_schema_of_avro_that_is_wrong_names_the_key() -> None:
    pytest.importorskip("fastavro")
    with pytest.raises(JobError, match=r'^key "schema": there is no type Other'):
        typed_payload('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}')
