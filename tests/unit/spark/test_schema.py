"""Columns that a query may ask for."""

import pytest
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from millstream.spark.errors import SchemaError
from millstream.spark.schema import COLUMNS, arrow_schema, chosen_columns, default_schema


def schema(*names: str) -> StructType:
    return StructType([StructField(name, COLUMNS[name]) for name in names])


def test_the_default_schema_is_the_documented_one() -> None:
    assert default_schema().simpleString() == (
        "struct<stream:string,subject:string,seq:bigint,time:timestamp,headers:map<string,array<string>>,data:binary>"
    )


def test_any_subset_in_any_order_works() -> None:
    assert chosen_columns(schema("seq", "tokens", "stream")) == ("seq", "tokens", "stream")


def test_what_may_be_null_does_not_matter() -> None:
    wanted = StructType(
        [StructField("headers", MapType(StringType(), ArrayType(StringType(), False), False), False)]
    )
    assert chosen_columns(wanted) == ("headers",)


def test_other_columns_and_other_types_are_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'payload'; it has stream, subject, seq"):
        chosen_columns(StructType([StructField("payload", LongType())]))
    with pytest.raises(SchemaError, match="column data is binary, not string; cast it"):
        chosen_columns(StructType([StructField("data", StringType())]))
    with pytest.raises(SchemaError, match="names column seq twice"):
        chosen_columns(schema("seq", "seq"))


def test_times_are_microseconds_of_utc_which_is_all_that_spark_takes() -> None:
    assert str(arrow_schema(schema("time")).field("time").type) == "timestamp[us, tz=UTC]"
