"""Streams that count."""

from tests.kits.conformance.publishing import Scenario


def test_a_message_adds_and_is_stored_as_the_sum(js: Scenario) -> None:
    for name, storage in (("M", "memory"), ("F", "file")):
        js.create(name, subjects=[f"{name}.>"], storage=storage, allow_msg_counter=True)
        for value in ("1", "+5", "-10", "0", "007", "-0", "+0"):
            js.publish(f"{name}.a", b"", {"Nats-Incr": value})
        js.publish(f"{name}.b", b"", {"A": "b", "Nats-Incr": "2", "C": "d"})
        js.stored(name)
        js.state(name)


def test_sums_have_as_many_digits_as_they_need(js: Scenario) -> None:
    js.create(allow_msg_counter=True)
    js.publish("s.a", b"", {"Nats-Incr": "9" * 30})
    js.publish("s.a", b"", {"Nats-Incr": "1"})
    js.publish("s.a", b"", {"Nats-Incr": "-" + "9" * 40})
    js.stored()


def test_what_is_no_increment_is_refused(js: Scenario) -> None:
    js.create(allow_msg_counter=True)
    for value in ("x", "1.5", "1e3", "--1", "+", "-", " 1", "1 ", "0x10", "1_000", "٣", ""):
        js.publish("s.a", b"", {"Nats-Incr": value})
    js.publish("s.a", b"")
    js.publish("s.a", b"", {"A": "b"})
    js.publish("s.a", b"1", {"Nats-Incr": "1"})
    js.publish("s.a", b"1", {"Nats-Incr": "x"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": "x"})
    js.state()


def test_increments_go_with_few_other_headers(js: Scenario) -> None:
    js.create(allow_msg_counter=True)
    js.publish("s.a", b"", {"Nats-Incr": "1", "Nats-Msg-Id": "x"})
    js.publish("s.a", b"", {"Nats-Incr": "1", "Nats-Msg-Id": "x"})
    for header, value in (
        ("Nats-Rollup", "sub"),
        ("Nats-Expected-Stream", "S"),
        ("Nats-Expected-Last-Sequence", "1"),
        ("Nats-Expected-Last-Subject-Sequence", "1"),
        ("Nats-Expected-Last-Subject-Sequence-Subject", "s.a"),
        ("Nats-Expected-Last-Msg-Id", "x"),
        ("Nats-TTL", "1s"),
        ("Nats-Schedule", "@every 1s"),
        ("Nats-Stream-Source", "x"),
        ("Nats-Counter-Sources", '{"O":{"o.a":"7"}}'),
        ("Nats-Counter-Sources", "bad"),
    ):
        js.publish("s.a", b"", {"Nats-Incr": "1", header: value})
    js.stored()


def test_only_some_streams_count(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"", {"Nats-Incr": "1"})
    js.publish("s.a", b"1", {"Nats-Incr": "1"})
    js.publish("s.a", b"", {"Nats-Incr": "x"})
    js.publish("s.a", b"", {"Nats-Incr": ""})
    js.update(allow_msg_counter=True)


def test_removing_messages_takes_a_counter_back(js: Scenario) -> None:
    js.create(allow_msg_counter=True)
    for value in ("1", "2", "4"):
        js.publish("s.a", b"", {"Nats-Incr": value})
    js.api("STREAM.MSG.DELETE.S", {"seq": 3})
    js.publish("s.a", b"", {"Nats-Incr": "10"})
    js.api("STREAM.PURGE.S")
    js.publish("s.a", b"", {"Nats-Incr": "10"})
    js.stored()


def test_a_counter_keeps_its_sum_when_older_messages_go(js: Scenario) -> None:
    js.create(allow_msg_counter=True, max_msgs_per_subject=1)
    for value in ("1", "2", "4"):
        js.publish("s.a", b"", {"Nats-Incr": value})
    js.stored()


def test_counters_count_after_the_subject_was_transformed(js: Scenario) -> None:
    js.create(allow_msg_counter=True, subject_transform={"src": "s.*", "dest": "t.all"})
    js.publish("s.a", b"", {"Nats-Incr": "1"})
    js.publish("s.b", b"", {"Nats-Incr": "1"})
    js.stored()


def test_a_counter_is_republished_with_its_sum(js: Scenario) -> None:
    js.create(allow_msg_counter=True, republish={"src": ">", "dest": "r.>"})
    js.listen("r.>")
    js.publish("s.a", b"", {"Nats-Incr": "1"})
    js.publish("s.a", b"", {"Nats-Incr": "1"})
    js.heard("r.>", 2)


def test_a_batch_counts(js: Scenario) -> None:
    js.create(allow_msg_counter=True, allow_atomic=True, allow_batched=True)
    js.publish("s.a", b"", {"Nats-Incr": "1", "Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    js.publish("s.b", b"", {"Nats-Incr": "2", "Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2"})
    js.publish(
        "s.a",
        b"",
        {"Nats-Incr": "4", "Nats-Batch-Id": "b", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "1"},
    )
    js.publish("s.a", b"", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})
    js.listen("f.>")
    js.send("s.a", "f.b1.10.fail.1.0.$FI", b"", {"Nats-Incr": "8"})
    js.send("s.a", "f.b1.10.fail.2.2.$FI", b"", {"Nats-Incr": "16"})
    js.heard("f.>", 2)
    js.stored()
