"""Mistakes in SQL and schemas are found by Spark before a job runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.spark.pipeline.load import PipelineError, load_pipeline
from millstream.spark.pipeline.sql_check import check_sql
from tests.kits.mistakes.page import pattern_of
from tests.kits.mistakes.sql import SQL, Sql

pytestmark = [pytest.mark.timeout(600)]

PIPELINE = """\
checkpoint = "c"
[[job]]
kind = "transform"
name = "large"
sql = "{sql}"
[job.input.orders]
streams = ["ORDERS"]
json = "{json}"
[job.output]
subject = "large.orders"
"""


@pytest.mark.parametrize("mistake", SQL, ids=str)
def test_a_mistake_is_found_in_one_line(spark: SparkSession, mistake: Sql, tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(PIPELINE.format(sql=mistake.sql, json=mistake.json))
    problems = check_sql(load_pipeline(file), spark)
    line = str(PipelineError(str(file), problems, file.read_text()))
    assert pattern_of(mistake.line).fullmatch(line), f"\nwanted: {mistake.line}\n   got: {line}"
