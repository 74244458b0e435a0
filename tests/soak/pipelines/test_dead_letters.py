"""Dead letters, redrive and analytics, end to end, with consumers that really give messages up."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]

EVENTS = ("$JS.EVENT.METRIC.CONSUMER.ACK.>", "$JS.EVENT.ADVISORY.CONSUMER.>")


def consume(broker: Any, stream: str, answers: dict[int, list[bytes]], **config: Any) -> None:
    """Fetch messages one by one with a fresh consumer and answer as it is said for each sequence."""
    settings = {
        "durable_name": "WORKER",
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "ack_wait": 30_000_000_000,
        "sample_freq": "100%",
        **config,
    }
    broker.link.api(f"CONSUMER.DURABLE.CREATE.{stream}.WORKER", {"stream_name": stream, "config": settings})
    inbox = "answers.one"
    sid = broker.link.subscribe(inbox)
    for _ in range(sum(map(len, answers.values()))):
        broker.link.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.WORKER", b'{"batch":1}', reply=inbox)
        message = broker.link.next_message(20)
        assert message is not None
        assert message.reply, message
        sequence = int(message.reply.split(b".")[5])
        broker.link.request(message.reply.decode(), answers[sequence].pop(0))
    broker.link.unsubscribe(sid)


def wait_for_events(broker: Any, stream: str, count: int) -> None:
    """Advisories are sent without anybody waiting for them."""
    for _ in range(200):
        if broker.count(stream) >= count:
            return
        broker.link.flush()
        broker.link.next_message(0.05)
    raise AssertionError(f"{stream} has {broker.count(stream)} events, not {count}")


@pytest.mark.soak
def test_given_up_messages_become_letters_and_go_back(broker, run_pipeline) -> None:
    broker.create("EVENTS", *EVENTS)
    work = broker.create("WORK", "work.>", retention="workqueue")
    letters = broker.create("LETTERS", "dlq.>", retention="workqueue")
    broker.fill("work", 4)
    # 1 is terminated, 2 is refused twice and that was it, 3 is acknowledged, 4 is terminated.
    answers = {1: [b"+TERM bad order"], 2: [b"-NAK", b"-NAK"], 3: [b"+ACK"], 4: [b"+TERM gone"]}
    consume(broker, work, answers, max_deliver=2)
    one_more = f"$JS.API.CONSUMER.MSG.NEXT.{work}.WORKER"
    broker.link.publish(one_more, b'{"batch":1,"no_wait":true}', reply="x.y")
    wait_for_events(broker, "EVENTS", 7)
    job = {"kind": "dead-letters", "name": "letters", "stream": "EVENTS", "trigger": "once"}
    run_pipeline(broker, job)
    run_pipeline(broker, {**job, "name": "letters-again"})  # from the start: the ids hold
    found = {dict(one.headers)["Millstream-Orig-Seq"]: one for one in broker.messages(letters)}
    assert set(found) == {"1", "2", "4"}
    headers = dict(found["2"].headers)
    assert found["2"].subject == "dlq.WORK.WORKER"
    assert found["2"].data == b"message 2"
    assert (headers["Number"], headers["Millstream-Orig-Subject"]) == ("2", "work.2")
    assert (headers["Millstream-Dlq-Reason"], headers["Millstream-Dlq-Deliveries"]) == ("max_deliver", "2")
    # A work queue forgets what was terminated: the letter is there all the same.
    gone = dict(found["1"].headers)
    assert (found["1"].data, gone["Millstream-Dlq-Gone"]) == (b"", "true")
    assert gone["Millstream-Dlq-Reason"] == "terminated: bad order"

    assert [one.sequence for one in broker.messages(work)] == [2]
    redrive = {"kind": "redrive", "name": "back", "stream": letters}
    run_pipeline(broker, redrive)
    run_pipeline(broker, redrive)
    [back] = broker.messages(work)
    assert (back.subject, back.data) == ("work.2", b"message 2")
    assert back.sequence == 5
    assert dict(back.headers) == {"Number": "2", "Nats-Msg-Id": f"redrive:LETTERS:{found['2'].sequence}"}
    assert {dict(one.headers)["Millstream-Orig-Seq"] for one in broker.messages(letters)} == {"1", "4"}


@pytest.mark.soak
def test_samples_and_advisories_are_counted(spark: SparkSession, broker, run_pipeline, tmp_path) -> None:
    broker.create("EVENTS", *EVENTS)
    broker.create("ORDERS", "orders.>")
    broker.fill("orders", 6)
    answers = {number: [b"+ACK"] for number in range(1, 7)} | {3: [b"+TERM spoiled"], 4: [b"-NAK", b"+ACK"]}
    consume(broker, "ORDERS", answers)
    wait_for_events(broker, "EVENTS", 8)
    events = broker.count("EVENTS")
    tables = tmp_path / "deliveries"
    job = {"kind": "analytics", "name": "deliveries", "stream": "EVENTS", "table": str(tables),
           "trigger": "once", "mode": "update", "window": "1 hour"}  # fmt: skip
    run_pipeline(broker, job)
    assert broker.count("EVENTS") == events  # reading it did not feed it
    latency = spark.read.parquet(str(tables / "latency")).collect()
    assert sum(row.acks for row in latency) == 5
    assert sum(row.redelivered for row in latency) == 1
    assert {(row.stream, row.consumer) for row in latency} == {("ORDERS", "WORKER")}
    assert all(0 <= row.p50_ms <= row.p95_ms <= row.p99_ms <= row.max_ms for row in latency)
    failures = spark.read.parquet(str(tables / "failures")).collect()
    assert {(row.kind, row.reason, row.messages) for row in failures} == {
        ("terminated", "spoiled", 1),
        ("nak", "", 1),
    }
    [poison] = spark.read.parquet(str(tables / "poison")).collect()
    assert (poison.stream_seq, poison.kind, poison.reason) == (3, "terminated", "spoiled")
    assert json.dumps(poison.deliveries) == "1"
