"""Payloads in Avro and Protobuf: types of columns, values, and payloads that are something else."""

import io
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP
from pyspark.sql.types import DataType, IntegerType, StringType, StructType

from millstream.spark.errors import SchemaError
from millstream.spark.value_formats import ValueFormat
from millstream.tables.errors import OptionError


def decoded(form: ValueFormat, kind: DataType, *payloads: bytes | None) -> tuple[list[Any], list[str | None]]:
    values, reasons = form.decoded(pa.array(payloads, pa.binary()), kind)
    return values.to_pylist(), reasons


def format_of(**options: str) -> ValueFormat:
    form = ValueFormat.parse(options)
    assert form is not None
    return form


READING = {
    "type": "record", "name": "Reading", "namespace": "plant", "doc": "of a device",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "count", "type": ["null", "int"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6,
                                   "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["HOT", "COLD"]}},
        {"name": "before", "type": ["Kind", "null"]},
        {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
    ],
}  # fmt: skip
VALUE = {
    "device": "d1", "count": 7, "price": Decimal("12.50"),
    "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "day": date(2026, 1, 2), "kind": "HOT", "before": None,
    "key": b"ab", "id": "no uuid", "tags": ["a", "b"],
    "counts": {"x": 1},
}  # fmt: skip


class TestAvro:
    @pytest.fixture(autouse=True)
    def needs_fastavro(self) -> None:
        pytest.importorskip("fastavro")

    def encoded(self, schema: Any, value: Any) -> bytes:
        import fastavro

        plain = json.loads(json.dumps(schema).replace('"logicalType": "uuid"', '"doc": ""'))
        target = io.BytesIO()
        fastavro.schemaless_writer(target, fastavro.parse_schema(plain), value)
        return target.getvalue()

    def test_a_record_becomes_a_struct(self, tmp_path: Path) -> None:
        file = tmp_path / "reading.avsc"
        file.write_text(json.dumps(READING))
        form = format_of(valueFormat="avro", valueSchema=str(file))
        assert form.ddl == (
            "struct<device:string,count:int,price:decimal(6,2),at:timestamp,day:date,kind:string,"
            "before:string,key:binary,id:string,tags:array<string>,counts:map<string,bigint>>"
        )
        kind = form.decoder()._type  # type: ignore[attr-defined]
        payload = self.encoded(READING, VALUE)
        [value], [reason] = decoded(form, kind, payload)
        assert reason is None
        assert {**value, "counts": dict(value["counts"])} == VALUE

    def test_a_query_may_leave_out_fields_and_name_no_others(self) -> None:
        form = format_of(valueFormat="avro", valueSchema=json.dumps(READING))
        part = StructType().add("count", IntegerType()).add("device", StringType())
        form.check(part)
        assert decoded(form, part, self.encoded(READING, VALUE)) == (
            [{"count": 7, "device": "d1"}],
            [None],
        )
        for wrong in (
            part.add("more", StringType()),
            StructType().add("device", IntegerType()),
            StringType(),
        ):
            with pytest.raises(SchemaError, match="column value is struct<device:string"):
                form.check(wrong)

    def test_a_plain_value_is_a_plain_column(self) -> None:
        form = format_of(valueFormat="avro", valueSchema='"string"')
        assert form.ddl == "string"
        assert decoded(form, StringType(), self.encoded("string", "hello"), None) == (
            ["hello", None],
            [None, None],
        )

    def test_payloads_of_another_form_are_bad_values(self) -> None:
        schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
        form = format_of(valueFormat="avro", valueSchema=json.dumps(schema))
        kind = StructType().add("s", StringType())
        good = self.encoded(schema, {"s": "hello"})
        payloads = (good[:-1], good + b"x", b"", b"\x02\xff", b"\xff" * 30, b"\x01")
        values, reasons = decoded(form, kind, *payloads)
        assert values == [None] * len(payloads)
        assert reasons[:3] == [
            "the payload ends within the value",
            "1 bytes follow the value",
            "the payload ends within the value",
        ]
        assert all(reasons)

    @pytest.mark.parametrize(
        ("schema", "text"),
        [
            ("{", "is no JSON"),
            ('"nothing"', "there is no type nothing"),
            ('"null"', "always null has no column"),
            ('["int", "string"]', "a union has null and one other type"),
            ('{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}', "take no bytes"),
            ('{"type": "array", "items": {"type": "fixed", "name": "E", "size": 0}}', "take no bytes"),
            ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "at most 38 digits"),
            ('{"type": "enum", "name": "E"}', "no schema of Avro's"),
            ('{"type": 3}', "has no type"),
            (
                '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}',
                "type L contains itself",
            ),
            ("no/such/file.avsc", "cannot read no/such/file.avsc"),
            ("", "needs the option valueSchema"),
        ],
    )
    def test_schemas_without_columns_are_refused(self, schema: str, text: str) -> None:
        with pytest.raises(OptionError, match=text):
            format_of(valueFormat="avro", valueSchema=schema)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(OptionError, match=r"needs fastavro: pip install 'millstream\[avro\]'"):
        format_of(valueFormat="avro", valueSchema='"string"')


class TestProtobuf:
    @pytest.fixture
    def descriptors(self) -> FileDescriptorSet:
        """Return what `protoc` makes of a message of several kinds of fields."""
        time = FileDescriptorProto()
        TIMESTAMP.CopyToProto(time)
        file = FileDescriptorProto(
            name="plant.proto",
            package="plant",
            syntax="proto3",
            dependency=["google/protobuf/timestamp.proto"],
        )
        kind = file.enum_type.add(name="Kind")
        kind.value.add(name="HOT", number=0)
        kind.value.add(name="COLD", number=1)
        reading = file.message_type.add(name="Reading")
        entry = reading.nested_type.add(name="CountsEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
        many, one = Field.LABEL_REPEATED, Field.LABEL_OPTIONAL
        for number, (name, type_, label, type_name) in enumerate(
            [
                ("device", Field.TYPE_STRING, one, None),
                ("raw", Field.TYPE_BYTES, one, None),
                ("small", Field.TYPE_UINT32, one, None),
                ("large", Field.TYPE_UINT64, one, None),
                ("share", Field.TYPE_DOUBLE, one, None),
                ("kind", Field.TYPE_ENUM, one, ".plant.Kind"),
                ("at", Field.TYPE_MESSAGE, one, ".google.protobuf.Timestamp"),
                ("tags", Field.TYPE_STRING, many, None),
                ("counts", Field.TYPE_MESSAGE, many, ".plant.Reading.CountsEntry"),
            ],
            1,
        ):
            reading.field.add(name=name, number=number, type=type_, label=label, type_name=type_name)
        tree = file.message_type.add(name="Tree")
        tree.field.add(name="left", number=1, type=Field.TYPE_MESSAGE, label=one, type_name=".plant.Tree")
        return FileDescriptorSet(file=[time, file])

    @pytest.fixture
    def file(self, descriptors: FileDescriptorSet, tmp_path: Path) -> str:
        file = tmp_path / "plant.desc"
        file.write_bytes(descriptors.SerializeToString())
        return str(file)

    def message(self, descriptors: FileDescriptorSet) -> Any:
        pool = DescriptorPool()
        for file in descriptors.file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName("plant.Reading"))()

    def test_a_message_becomes_a_struct(self, descriptors: FileDescriptorSet, file: str) -> None:
        form = format_of(valueFormat="protobuf", valueSchema=file, valueMessage="plant.Reading")
        assert form.ddl == (
            "struct<device:string,raw:binary,small:bigint,large:decimal(20,0),share:double,kind:string,"
            "at:timestamp,tags:array<string>,counts:map<string,bigint>>"
        )
        message = self.message(descriptors)
        message.device, message.raw, message.small, message.large = "d1", b"\xff", 2**32 - 1, 2**64 - 1
        message.kind = 1
        message.at.seconds, message.at.nanos = 1_767_322_800, 123_456_789
        message.tags.append("a")
        message.counts["x"] = 5
        other = self.message(descriptors)
        other.kind = 9
        kind = form.decoder()._type  # type: ignore[attr-defined]
        values, reasons = decoded(
            form, kind, message.SerializeToString(), b"", other.SerializeToString(), b"\x0a\xff"
        )
        assert values[0] == {
            "device": "d1", "raw": b"\xff", "small": 2**32 - 1, "large": Decimal(2**64 - 1), "share": 0.0,
            "kind": "COLD", "at": datetime(2026, 1, 2, 3, 0, 0, 123_456, tzinfo=UTC), "tags": ["a"],
            "counts": [("x", 5)],
        }  # fmt: skip
        assert (values[1]["at"], values[1]["kind"], values[1]["device"]) == (None, "HOT", "")
        assert values[2]["kind"] == "9"
        assert (values[3], reasons[:3]) == (None, [None, None, None])
        assert reasons[3]

    def test_a_time_beyond_all_calendars_is_a_bad_value(
        self, descriptors: FileDescriptorSet, file: str
    ) -> None:
        form = format_of(valueFormat="protobuf", valueSchema=file, valueMessage="plant.Reading")
        message = self.message(descriptors)
        message.at.seconds = 2**60
        kind = form.decoder()._type  # type: ignore[attr-defined]
        assert decoded(form, kind, message.SerializeToString()) == (
            [None],
            [f"no time is {2**60} seconds from 1970"],
        )

    def test_descriptors_that_do_not_fit_are_refused(
        self, descriptors: FileDescriptorSet, file: str, tmp_path: Path
    ) -> None:
        def parse(schema: str = file, message: str = "plant.Reading") -> None:
            format_of(valueFormat="protobuf", valueSchema=schema, valueMessage=message)

        with pytest.raises(
            OptionError, match=r"no message 'Reading' among google.protobuf.Timestamp, plant.R"
        ):
            parse(message="Reading")
        with pytest.raises(OptionError, match=r"message plant.Tree contains itself"):
            parse(message="plant.Tree")
        with pytest.raises(OptionError, match=r"cannot read none.desc"):
            parse("none.desc")
        alone = tmp_path / "alone.desc"
        alone.write_bytes(FileDescriptorSet(file=descriptors.file[1:]).SerializeToString())
        with pytest.raises(OptionError, match="make it with protoc --include_imports"):
            parse(str(alone))
        alone.write_bytes(b"\xffno descriptors")
        with pytest.raises(OptionError, match="make it with protoc --include_imports"):
            parse(str(alone))
        with pytest.raises(OptionError, match="valueFormat=protobuf and the option valueMessage need each"):
            format_of(valueFormat="protobuf", valueSchema=file)
