"""Payloads that the source decodes: JSON of a schema, variants, and payloads of another form; no JVM."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from millstream.spark.errors import BadValue, SchemaError
from millstream.spark.option_table import Use
from millstream.spark.options import SourceOptions
from millstream.tables.errors import OptionError
from tests.kits.spark.source import Lab, rows, schema_of, source_of

FORM = StructType().add("device", StringType()).add("n", IntegerType())
ERROR = {"value_error": StringType()}
GOOD = b'{"device": "d1", "n": 1, "more": true}'
DDL = "device string, n int"


@pytest.fixture
def stream(lab: Lab) -> str:
    name = "VALUES"
    lab.create_again(name, subjects=["values.>"])
    for payload in (GOOD, b"no JSON", b'{"device": 7}', b"{}", b"", b'{"n": 2147483648}', b"[]", b"\xff"):
        lab.link.request("values.x", payload)
    return name


def test_json_is_decoded_to_the_columns_of_its_schema(lab: Lab, stream: str) -> None:
    options = lab.options(stream, valueFormat="json", valueSchema=DDL, onBadValue="null")
    found = rows(options, ("seq", "value", "value_error", "data"), value=FORM, **ERROR)
    assert [(row["seq"], row["value"]) for row in found if row["value_error"] is None] == [
        (1, {"device": "d1", "n": 1}),
        (4, {"device": None, "n": None}),
    ]
    reasons = {row["seq"]: row["value_error"] for row in found if row["value_error"]}
    assert sorted(reasons) == [2, 3, 5, 6, 7, 8]
    assert all(row["value"] is None for row in found if row["value_error"])
    assert reasons[3] == "Expected `str | null`, got `int` - at `$.device`"
    assert found[1]["data"] == b"no JSON"


def test_values_of_every_type(lab: Lab) -> None:
    lab.create_again("VALUES", subjects=["values.>"])
    document = {
        "small": 1, "price": "1.50", "share": 2, "at": "2026-01-02T03:04:05.000006Z", "tags": ["a", None],
        "counts": {"x": 1}, "inner": {"n": 5, "other": 1},
    }  # fmt: skip
    lab.link.request("values.x", json.dumps(document).encode())
    lab.link.request("values.x", b'{"small": 128}')
    lab.link.request("values.x", b'{"price": "12345678.9"}')
    kind = (
        StructType().add("small", ByteType()).add("price", DecimalType(5, 2)).add("share", DoubleType())
        .add("at", TimestampType()).add("tags", ArrayType(StringType()))
        .add("counts", MapType(StringType(), LongType())).add("inner", StructType().add("n", LongType()))
    )  # fmt: skip
    options = lab.options("VALUES", valueFormat="json", onBadValue="null")
    good, *bad = rows(options, ("value", "value_error"), value=kind, **ERROR)
    assert good["value"] == {
        "small": 1,
        "price": Decimal("1.50"),
        "share": 2.0,
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "tags": ["a", None],
        "counts": [("x", 1)],
        "inner": {"n": 5},
    }
    assert [row["value"] for row in bad] == [None, None]
    assert all(row["value_error"] for row in bad)


def test_a_variant_takes_any_json(lab: Lab, stream: str) -> None:
    options = lab.options(stream, valueFormat="variant", onBadValue="null")
    found = rows(options, ("seq", "value", "value_error"), value=VariantType(), **ERROR)
    values = {
        row["seq"]: VariantVal(row["value"]["value"], row["value"]["metadata"]).toPython()
        for row in found
        if row["value"]
    }
    assert values == {
        1: {"device": "d1", "n": 1, "more": True},
        3: {"device": 7},
        4: {},
        6: {"n": 2147483648},
        7: [],
    }
    assert [row["seq"] for row in found if row["value_error"]] == [2, 5, 8]


def test_a_bad_value_ends_the_query_and_is_named_or_is_dropped(lab: Lab, stream: str) -> None:
    with pytest.raises(BadValue, match=r"^stream VALUES, seq 2: the payload is no json of the wanted form: "):
        rows(lab.options(stream, valueFormat="json", valueSchema=DDL), ("value",), value=FORM)
    dropped = lab.options(stream, valueFormat="json", valueSchema=DDL, onBadValue="drop")
    assert [row["seq"] for row in rows(dropped, ("seq", "value"), value=FORM)] == [1, 4]
    # a query that does not want the values does not decode them
    assert len(rows(lab.options(stream, valueFormat="json", valueSchema=DDL), ("seq",))) == 8


def test_values_of_a_bucket_are_decoded_too(lab: Lab) -> None:
    lab.create_again("KV_names", subjects=["$KV.names.>"], max_msgs_per_subject=5, allow_rollup_hdrs=True)
    for key, value in (("a", GOOD), ("b", b"no JSON")):
        lab.link.request(f"$KV.names.{key}", value)
    options = lab.options(None, bucket="names", valueFormat="json", valueSchema=DDL, onBadValue="drop")
    assert rows(options, ("key", "value"), value=FORM) == [{"key": "a", "value": {"device": "d1", "n": 1}}]
    options |= {"onBadValue": "fail"}
    with pytest.raises(BadValue, match=r"^key b, revision 2: the payload is no json"):
        rows(options, ("key", "value"), value=FORM)


def test_the_schema_names_the_type_of_the_value(lab: Lab) -> None:
    given = {"nats.servers": "nats://127.0.0.1:1", "subscribe": "S"}
    json_ = given | {
        "valueFormat": "json",
        "valueSchema": '{"type": "object", "properties": {"n": {"type": "integer"}}}',
    }
    assert str(source_of(json_).schema()).endswith(
        "headers map<string,array<string>>, value struct<`n` bigint>"
    )
    variant = given | {"valueFormat": "variant", "onBadValue": "null"}
    assert str(source_of(variant).schema()).endswith(", value variant, value_error string")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"valueFormat": "avro"}, "valueFormat=avro needs the option valueSchema"),
        ({"valueFormat": "protobuf", "valueMessage": "M"}, "needs the option valueSchema"),
        ({"valueFormat": "json", "valueMessage": "M"}, "valueMessage need each other"),
        ({"valueFormat": "xml"}, "valueFormat"),
        ({"valueSchema": "a int"}, "option valueSchema does nothing without valueFormat"),
        ({"onBadValue": "null"}, "option onBadValue does nothing without valueFormat"),
        ({"valueFormat": "variant", "valueSchema": "a int"}, "a variant has none"),
        ({"valueFormat": "variant", "kafkaSchema": "true"}, "together with kafkaSchema"),
        ({"valueFormat": "variant", "pushDownFilters": "true"}, "together with valueFormat"),
        ({"valueFormat": "json", "valueSchema": '{"type": "string"}'}, "option valueSchema: a JSON Schema"),
        ({"valueFormat": "variant", "onBadValue": "deadLetter"}, "onBadValue"),
    ],
)
def test_options_that_mean_nothing_are_refused(more: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        SourceOptions.parse({"nats.servers": "nats://127.0.0.1:1", "subscribe": "S"} | more, Use.BATCH)


@pytest.mark.parametrize(
    ("types", "more", "text"),
    [
        ({"value": StringType()}, {}, "column value is a struct, not string"),
        ({"value": StructType().add("a", NullType())}, {}, "type void cannot be decoded from JSON"),
        ({"value": FORM}, {"valueFormat": "variant"}, "column value is variant, not struct"),
        ({"seq": LongType()}, {"onBadValue": "drop"}, "onBadValue=drop needs the column value"),
        ({"value_error": StringType()}, {}, "value_error needs the column value"),
    ],
)
def test_schemas_that_do_not_fit_are_refused(types: dict[str, Any], more: dict[str, str], text: str) -> None:
    given = {"nats.servers": "nats://127.0.0.1:1", "subscribe": "S", "valueFormat": "json"}
    with pytest.raises(SchemaError, match=text):
        source_of(given | more).reader(schema_of(types, types))
