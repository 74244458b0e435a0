"""The functions of jobs over DataFrames that are made by hand: no server."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from millstream.spark.jobs.analytics import failures, latency, poison, read_events
from millstream.spark.jobs.archive import archive_rows
from millstream.spark.jobs.context import explain
from millstream.spark.jobs.deadletters import given_up
from millstream.spark.jobs.errors import JobError, MissingFormat
from millstream.spark.jobs.files import HadoopFiles
from millstream.spark.jobs.inputs import require_format
from millstream.spark.jobs.payloads import dead_rows, good_rows, parse_payload
from millstream.spark.jobs.redrive import redriven
from millstream.spark.jobs.replay import matches_any, replayed
from millstream.spark.jobs.transform import (
    apply_sql,
    is_stateful,
    load_function,
    sink_rows,
)
from millstream.spark.jobs.verify import VerifiedStream, as_ranges, compare
from millstream.spark.schema import default_schema

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Made = tuple[int, str, bytes]


def frame(spark: SparkSession, messages: list[Made], **headers: list[str]) -> DataFrame:
    """Messages of stream S; each second another one."""
    rows = [
        ("S", subject, seq, NOON + timedelta(seconds=seq), headers, data) for seq, subject, data in messages
    ]
    return spark.createDataFrame(rows, default_schema())


def test_payloads_that_are_not_the_json_wanted_go_another_way(spark: SparkSession) -> None:
    payloads = [b'{"id": "a", "price": 1.5}', b"not json", b'{"id": "b", "price": "much"}', b"", b"[1]"]
    messages = frame(spark, [(n, "s.x", data) for n, data in enumerate(payloads, 1)], A=["1"])
    parsed = parse_payload(messages, "id string, price double")
    good = good_rows(parsed, fail=False).selectExpr("seq", "value.id", "value.price").collect()
    assert [tuple(row) for row in good] == [(1, "a", 1.5)]
    dead = dead_rows(parsed, "job").orderBy("msg_id").collect()
    assert [(row.msg_id, bytes(row.data)) for row in dead] == [
        (f"dlq:job:S:{n}", payloads[n - 1]) for n in (2, 3, 4, 5)
    ]
    assert dead[0].headers == {
        "A": ["1"],
        "Millstream-Orig-Stream": ["S"],
        "Millstream-Orig-Seq": ["2"],
        "Millstream-Orig-Time": ["2026-03-01T12:00:02.000000Z"],
        "Millstream-Orig-Subject": ["s.x"],
        "Millstream-Dlq-Reason": ["the payload is not JSON of the form id string, price double"],
    }
    variants = parse_payload(messages, "variant")
    assert [row.seq for row in good_rows(variants, fail=False).orderBy("seq").collect()] == [1, 3, 5]
    with pytest.raises(Exception, match=r"stream S, sequence [23]: the payload is not JSON"):
        good_rows(parsed, fail=True).select("value").collect()


def test_results_become_rows_for_the_sink(spark: SparkSession) -> None:
    views = {"orders": frame(spark, [(1, "s.x", b"7"), (2, "s.y", b"8")])}
    plain = apply_sql(spark, views, "select seq, cast(data as string) as text, 's' as subject from orders")
    assert not is_stateful(plain)
    assert sorted(row.data for row in sink_rows(plain, "job", any_subject=True).collect()) == [
        '{"seq":1,"text":"7"}',
        '{"seq":2,"text":"8"}',
    ]
    assert sink_rows(plain, "job", any_subject=True).columns == ["data", "subject"]
    assert sink_rows(plain, "job", any_subject=False).columns == ["data"]
    sums = apply_sql(spark, views, "select stream, count(*) as n from orders group by stream")
    assert is_stateful(sums)
    [row] = sink_rows(sums, "job", any_subject=False).collect()
    assert (row.data, row.msg_id.partition(":")[0], len(row.msg_id)) == ('{"stream":"S","n":2}', "job", 68)
    with pytest.raises(JobError, match='needs a column "subject"'):
        sink_rows(sums, "job", any_subject=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no_such_module:f", "cannot be imported"),
        ("json:f", "has no function f"),
        ("json:codecs", "is no function"),
    ],
)
def test_a_function_that_is_not_there_is_told(text: str, problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        load_function(text)
    assert load_function("json:dumps") is json.dumps


def test_samples_and_advisories_become_tables(spark: SparkSession) -> None:
    def event(kind: str, **fields: object) -> bytes:
        return json.dumps({"type": kind, "stream": "ORDERS", "consumer": "NEW", **fields}).encode()

    sample = "io.nats.jetstream.metric.v1.consumer_ack"
    advisory = "io.nats.jetstream.advisory.v1"
    events = [
        event(sample, stream_seq=n, ack_time=n * 1_000_000, deliveries=2 if n > 40 else 1)
        for n in range(1, 51)
    ]
    events += [
        event(f"{advisory}.terminated", stream_seq=60, deliveries=1, reason="bad"),
        event(f"{advisory}.max_deliver", stream_seq=61, deliveries=5),
        event(f"{advisory}.nak", stream_seq=62, deliveries=1),
        event(f"{advisory}.consumer_action"),
        b"not json",
    ]
    read = read_events(frame(spark, [(n, "e", data) for n, data in enumerate(events, 1)])).cache()
    [row] = latency(read, "1 hour", "1 minute").collect()
    assert (row.stream, row.consumer, row.acks, row.redelivered) == ("ORDERS", "NEW", 50, 10)
    assert (row.p50_ms, row.p95_ms, row.p99_ms, row.max_ms) == (25.0, 48.0, 50.0, 50.0)
    assert (row.redelivery_ratio, row.max_deliveries) == (0.2, 2)
    assert (row.window_end - row.window_start) == timedelta(hours=1)
    found = {(one.kind, one.reason): one.messages for one in failures(read, "1 hour", "1 minute").collect()}
    assert found == {("terminated", "bad"): 1, ("max_deliver", ""): 1, ("nak", ""): 1}
    assert {(one.stream_seq, one.kind) for one in poison(read).collect()} == {
        (60, "terminated"),
        (61, "max_deliver"),
    }
    read.unpersist()


def test_only_messages_without_a_letter_get_one(spark: SparkSession) -> None:
    def event(kind: str, sequence: int, **fields: object) -> bytes:
        told = {"stream": "ORDERS", "consumer": "NEW", "stream_seq": sequence, "deliveries": 5, **fields}
        return json.dumps({"type": f"io.nats.jetstream.advisory.v1.{kind}", **told}).encode()

    events = [
        event("max_deliver", 1),
        event("max_deliver", 2, dead_letter="dlq.orders"),
        event("terminated", 3, reason="bad", dead_letter="dlq.orders"),
        event("terminated", 4, reason="bad", dead_letter=""),
        event("nak", 5),
    ]
    found = given_up(frame(spark, [(n, "e", data) for n, data in enumerate(events, 1)]))
    assert sorted(row.stream_seq for row in found.collect()) == [1, 4]


def test_differences_between_stream_and_table_are_found(spark: SparkSession) -> None:
    stream = [(n, "s", b"%d" % n) for n in range(1, 501)]
    table = [made for made in stream if made[0] not in (7, 8, 300)]
    table[100] = (table[100][0], "s", b"changed")
    table += [stream[399], (900, "s", b"more")]
    result = VerifiedStream("S", 1, 1000)
    compare(frame(spark, stream), frame(spark, table), 100, result)
    assert (result.stream_rows, result.table_rows) == (500, 499)
    assert result.missing_in_table == [(7, 8), (300, 300)]
    assert result.different == [(103, 103)]
    assert result.doubled == [(400, 400)]
    assert result.only_in_table == [(900, 900)]
    assert not result.is_good(strict=False)
    assert "S: missing in table: 7-8, 300" in result.lines()
    assert as_ranges([1, 2, 2, 3, 7]) == [(1, 3), (7, 7)]


def test_replayed_rows_say_where_they_came_from(spark: SparkSession) -> None:
    rows = archive_rows(frame(spark, [(3, "s.x", b"d")], A=["1"], **{"Nats-Msg-Id": ["old"]}))
    [row] = replayed(rows, "again.{stream}.{subject}").collect()
    assert (row.subject, row.msg_id) == ("again.S.s.x", "S:3")
    assert row.headers == {
        "A": ["1"],
        "Millstream-Orig-Stream": ["S"],
        "Millstream-Orig-Seq": ["3"],
        "Millstream-Orig-Time": ["2026-03-01T12:00:03.000000Z"],
        "Millstream-Orig-Subject": ["s.x"],
    }
    letters = frame(spark, [(9, "dlq", b"d")], A=["1"], **{"Millstream-Orig-Subject": ["s.x"]}).unionByName(
        frame(spark, [(10, "dlq", b"")])
    )
    [back] = redriven(letters, "{subject}").collect()
    assert (back.subject, back.headers, back.msg_id, back.letter) == ("s.x", {"A": ["1"]}, "redrive:S:9", 9)
    subjects = spark.createDataFrame([("a.b",), ("a.b.c",), ("axb",), ("b",)], "subject string")
    for patterns, expected in ((["a.*"], {"a.b"}), (["a.>"], {"a.b", "a.b.c"}), (["b", "a.b"], {"a.b", "b"})):
        found = subjects.where(matches_any(subjects.subject, patterns)).collect()
        assert {one.subject for one in found} == expected


def test_a_day_is_a_day_in_utc_whatever_the_zone_of_the_session(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    late = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
    rows = session.createDataFrame([("S", "s", 1, late, {}, b"")], default_schema())
    assert str(archive_rows(rows).first().day) == "2026-03-01"  # type: ignore[union-attr]


def test_a_format_without_its_jars_is_told(spark: SparkSession) -> None:
    require_format(spark, "parquet")
    with pytest.raises(MissingFormat, match=rf"delta-spark_{spark.version[:3]}_2\.13"):
        require_format(spark, "delta")
    require_format(spark, "iceberg")  # needs no jars


def test_a_jar_of_another_spark_is_told(spark: SparkSession) -> None:
    assert spark._jvm is not None
    failed = RuntimeError("An error occurred while calling o1.load")
    failed.java_exception = spark._jvm.java.lang.NoSuchMethodError("'void some.Class.<init>()'")  # type: ignore[attr-defined]
    assert explain(failed) == "a jar is not for this version of Spark: 'void some.Class.<init>()'"
    failed.java_exception = spark._jvm.java.lang.RuntimeException("no jar")  # type: ignore[attr-defined]
    assert explain(failed) == "no jar"


def test_files_of_hadoop_do_what_local_files_do(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(f"file://{tmp_path}/x", spark)
    assert (files.exists("a"), files.names("a"), files.folders("")) == (False, [], [])
    files.write("a/b.json", "one")
    files.write("a/b.json", "two é")
    assert files.read("a/b.json") == "two é"
    assert [name for name in files.names("a") if not name.startswith(".")] == ["b.json"]
    # Killed between the two steps that Hadoop needs to replace a file:
    files.write("a/b.json", "old")
    (tmp_path / "x/a/b.json").rename(tmp_path / "x/a/b.json.next")
    assert files.read("a/b.json") == "old"
    files.write("a/b.json", "new")
    assert files.read("a/b.json") == "new"
    assert [name for name in files.names("a") if not name.startswith(".")] == ["b.json"]
    files.move("a", "c/d")
    assert (files.folders(""), files.folders("c")) == (["c"], ["d"])
    files.remove("c")
    assert not files.exists("c/d/b.json")
    with pytest.raises(FileNotFoundError):
        files.read("c/d/b.json")
