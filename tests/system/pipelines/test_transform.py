"""Transform, end to end: streams through SQL and Python into streams and tables; bad payloads go aside."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]


def transform(stream: str, **keys: Any) -> dict[str, Any]:
    source = {"streams": [stream], "json": "id long, price double", **keys.pop("source", {})}
    return {"kind": "transform", "name": "transform", "trigger": "once", "input": {"orders": source}, **keys}


def orders(broker: Any, first: int, count: int) -> None:
    messages = []
    for number in range(first, first + count):
        good = json.dumps({"id": number, "price": number * 1.5}).encode()
        messages.append(("orders.new", b"{broken" if number % 10 == 0 else good, {}))
    broker.publish(messages)


def test_bad_payloads_become_dead_letters_and_the_rest_goes_on(broker, run_pipeline) -> None:
    stream = broker.create("SHOP", "orders.>")
    target = broker.create("LARGE", "large.>")
    dead = broker.create("DEAD", "dead.>")
    orders(broker, 1, 40)
    job = transform(
        stream,
        sql="select value.*, concat('large.', value.id) as subject from orders where value.price > 30",
        output={"subject": "*"},
        dead_letters="dead.shop",
    )
    run_pipeline(broker, job)
    orders(broker, 41, 10)
    run_pipeline(broker, job)
    rows = [(message.subject, json.loads(message.data)) for message in broker.messages(target)]
    assert rows == [(f"large.{n}", {"id": n, "price": n * 1.5}) for n in range(21, 51) if n % 10]
    letters = broker.messages(dead)
    assert [message.data for message in letters] == [b"{broken"] * 5
    headers = [dict(message.headers) for message in letters]
    assert [one["Millstream-Orig-Seq"] for one in headers] == ["10", "20", "30", "40", "50"]
    assert {one["Millstream-Dlq-Reason"] for one in headers} == {
        "the payload is not JSON of the form id long, price double"
    }


@pytest.mark.soak
def test_without_dead_letters_a_bad_payload_is_named_and_ends_the_job(millstream, run_pipeline) -> None:
    stream = millstream.create("SHOP", "orders.>")
    millstream.create("LARGE", "large.>")
    orders(millstream, 10, 1)
    job = transform(stream, sql="select value.price from orders", output={"subject": "large.all"})
    failed = run_pipeline(millstream, job, fails=True)
    assert "stream SHOP, sequence 1: the payload is not JSON" in failed.failures[0].text


@pytest.mark.soak
def test_windows_reach_a_table_once_and_a_stream_at_each_change(
    spark: SparkSession, millstream, run_pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = millstream.create("SHOP", "orders.>")
    target = millstream.create("TOTALS", "totals.>")
    (tmp_path / "totals_by_window.py").write_text(
        "from pyspark.sql import functions as F\n"
        "def totals(views):\n"
        "    window = F.window('at', '10 seconds').alias('window')\n"
        "    sums = views['orders'].groupBy(window).agg(F.sum('value.price').alias('total'))\n"
        "    return sums.select(F.col('window.start').alias('begin'), 'total')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def order(second: int, price: int) -> None:
        at = f"2026-01-01T00:00:{second:02d}Z"
        millstream.publish([("orders.new", json.dumps({"price": price, "at": at}).encode(), {})])

    source = {"json": "price long, at timestamp", "watermark": "value.at 1 second"}
    table = tmp_path / "totals"
    to_table = transform(
        stream, source=source, python="totals_by_window:totals", output={"table": str(table)}
    )
    to_stream = {
        **transform(
            stream,
            source=source,
            sql="select window.start as begin, sum(value.price) as total from orders "
            "group by window(at, '10 seconds')",
            output={"subject": "totals.all", "mode": "update"},
        ),
        "name": "live",
    }
    order(1, 5)
    order(2, 6)
    run_pipeline(millstream, to_table, to_stream)
    order(3, 7)
    order(15, 1)
    run_pipeline(millstream, to_table, to_stream)
    order(50, 100)
    run_pipeline(millstream, to_table, to_stream)
    closed = spark.read.parquet(str(table)).select("begin", "total").orderBy("begin").collect()
    assert [(row.begin.second, row.total) for row in closed] == [(0, 18), (10, 1)]
    live = [json.loads(message.data)["total"] for message in millstream.messages(target)]
    assert sorted(live) == [1, 11, 18, 100]


@pytest.mark.soak
def test_fenced_output_arrives_once(broker, run_pipeline) -> None:
    stream = broker.create("SHOP", "orders.>")
    target = broker.create("FENCED", "fenced.>", "fences.>", allow_atomic=True)
    job = transform(
        stream,
        sql="select value.id from orders",
        output={"subject": "fenced.all", "guarantee": "fenced", "fence_subject": "fences"},
        dead_letters="fenced.dead",
    )
    orders(broker, 1, 30)
    run_pipeline(broker, job)
    orders(broker, 31, 30)
    run_pipeline(broker, job)
    found = [message for message in broker.messages(target) if message.subject == "fenced.all"]
    assert [json.loads(message.data)["id"] for message in found] == [n for n in range(1, 61) if n % 10]
