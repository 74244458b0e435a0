"""Defects of a pipeline that a server and Spark find before anything runs."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.spark.jobs.settings import Pipeline
from millstream.spark.pipeline.check import check_pipeline, needs_spark
from millstream.spark.pipeline.load import convert_pipeline
from millstream.spark.pipeline.server_check import check_server
from millstream.spark.pipeline.sql_check import check_sql

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]


def pipeline_of(*jobs: Mapping[str, Any]) -> Pipeline:
    document = {"checkpoint": "c", "job": [dict(job) for job in jobs]}
    pipeline = convert_pipeline(document, "test.toml")
    assert check_pipeline(pipeline) == []
    return pipeline


def transform(json: str = "id long, price double", **keys: Any) -> dict[str, Any]:
    source = {"streams": ["ORDERS"], "json": json, "watermark": "time 10s"}
    output = {"subject": "large.orders"}
    return {"kind": "transform", "name": "large", "input": {"orders": source}, "output": output, **keys}


def test_streams_and_subjects_that_are_missing_are_all_named(millstream: Any) -> None:
    millstream.create("ORDERS", "orders.>")
    nats, where = millstream.nats, millstream.server.client_url
    missing = f"on {where}; create it, or check the name"
    nobody = "; create one, or add the subject to one"
    found = check_server(
        pipeline_of(
            {"kind": "archive", "name": "good", "streams": ["ORDERS"], "table": "t"},
            {"kind": "archive", "name": "bad", "streams": ["ORDERS", "ORDRES", "NONE"], "table": "u"},
            transform(sql="select 1", dead_letters="dead.orders"),
            {"kind": "replay", "name": "again", "table": "t", "target": "BACK", "subject": "back.all"},
            {"kind": "dead-letters", "name": "dead", "stream": "ADVISORIES"},
            {"kind": "compact", "name": "merge", "table": "t"},
        ),
        nats,
    )
    assert found == [
        f'job "bad": there is no stream ORDRES {missing}',
        f'job "bad": there is no stream NONE {missing}',
        f'job "large": key "subject": no stream takes the subject large.orders{nobody}',
        f'job "large": key "dead_letters": no stream takes the subject dead.orders{nobody}',
        f'job "again": there is no stream BACK {missing}',
        f'job "again": key "subject": no stream takes the subject back.all{nobody}',
        f'job "dead": there is no stream ADVISORIES {missing}',
    ]


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (transform(sql="select value.id, value.price from orders"), ""),
        (transform(sql="select window(time, '1 minute') as w, count(*) as n from orders group by 1"), ""),
        (transform("variant", sql="select value:id::long as id from orders"), ""),
        (
            transform(sql="selec * from orders"),
            "key \"sql\": Syntax error at or near 'selec' (line 1, column 1)",
        ),
        (
            transform(sql="select\n  value.prize\nfrom orders"),
            'key "sql": No such struct field `prize` in `id`, `price` (line 2, column 3)',
        ),
        (transform(sql="select * from oders"), 'key "sql": The table or view `oders` cannot be found'),
        (transform(sql="select nosuch(seq) from orders"), 'key "sql": Cannot resolve routine `nosuch`'),
        (transform(sql="select subject + map() from orders"), 'key "sql": Cannot resolve'),
        (
            transform("id long, price dubble", sql="select 1"),
            'input "orders": key "json": Unsupported data type "DUBBLE" (line 1, column 16)',
        ),
        (
            transform(sql="select data from orders", output={"subject": "*"}),
            'output: subject = "*" needs a column "subject" in the result',
        ),
        (
            transform(python="nowhere.to.be:found"),
            'key "python": module nowhere.to.be cannot be imported',
        ),
        (
            {"kind": "archive", "name": "large", "streams": ["A"], "table": "t", "format": "delta"},
            "format delta: this Spark does not have its jars; add them with",
        ),
    ],
)
def test_what_spark_would_not_run_is_told_in_one_line(
    spark: SparkSession, job: dict[str, Any], problem: str
) -> None:
    pipeline = pipeline_of(job)
    assert needs_spark(pipeline)
    found = check_sql(pipeline, spark)
    assert len(found) == (1 if problem else 0), found
    for line in found:
        assert line.startswith(f'job "large": {problem}')
        assert "\n" not in line
        assert "SQLSTATE" not in line


def test_views_of_one_job_are_not_those_of_another(spark: SparkSession) -> None:
    other = transform(sql="select * from orders", input={"others": {"streams": ["A"]}})
    found = check_sql(pipeline_of(transform(sql="select 1"), {**other, "name": "other"}), spark)
    assert len(found) == 1
    assert found[0].startswith('job "other": key "sql": The table or view `orders` cannot be found')


def test_an_archive_is_checked_without_spark() -> None:
    assert not needs_spark(pipeline_of({"kind": "archive", "name": "a", "streams": ["A"], "table": "t"}))
