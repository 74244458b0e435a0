"""Limits of a stream: what it removes, and what it refuses because it is full."""

from collections.abc import Callable

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.publishing import SECOND, Scenario, config_text


def test_the_oldest_go_when_there_are_too_many(js: Scenario) -> None:
    js.create(max_msgs=3)
    for number in range(5):
        js.publish("s.a", b"%d" % number)
    js.stored()
    js.state()
    js.update(max_msgs=2)
    js.state()
    js.update(max_msgs=-1)
    js.publish("s.a", b"5")
    js.state()


def test_the_oldest_go_when_they_take_too_many_bytes(js: Scenario) -> None:
    for storage in ("memory", "file"):
        name = storage[0].upper()
        js.create(name, subjects=[f"{name}.>"], storage=storage, max_bytes=200)
        for number in range(6):
            js.publish(f"{name}.a", b"x" * (20 + 5 * number))
        js.state(name)
        js.publish(f"{name}.a", b"x" * 180)
        js.state(name)
        js.publish(f"{name}.a", b"x" * 200)
        js.state(name)
        js.publish(f"{name}.a", b"x")
        js.state(name)


def test_a_subject_keeps_its_newest(js: Scenario) -> None:
    js.create(max_msgs_per_subject=2)
    for number, subject in enumerate(("s.a", "s.b", "s.a", "s.a", "s.b", "s.c", "s.b")):
        js.publish(subject, b"%d" % number)
    js.stored()
    js.state()
    js.update(max_msgs_per_subject=1)
    js.stored()
    js.state()


def test_a_full_stream_refuses_new_messages(js: Scenario) -> None:
    js.create(max_msgs=2, discard="new")
    js.publish("s.a", b"1")
    js.publish("s.a", b"2")
    js.publish("s.a", b"3")
    js.publish("s.a", b"3", {"Nats-Msg-Id": "x"})
    js.api("STREAM.MSG.DELETE.S", {"seq": 1})
    js.publish("s.a", b"3")
    js.state()


def test_a_stream_without_room_for_the_bytes_refuses_them(js: Scenario) -> None:
    for storage in ("memory", "file"):
        name = storage[0].upper()
        js.create(name, subjects=[f"{name}.>"], storage=storage, max_bytes=100, discard="new")
        js.publish(f"{name}.a", b"x" * 50)
        js.publish(f"{name}.a", b"x" * 50)
        js.publish(f"{name}.a", b"x" * (100 - 33 - 83 + 33))
        js.publish(f"{name}.a", b"x" * 200)
        js.state(name)


def test_a_full_subject_replaces_its_oldest_although_new_ones_are_discarded(js: Scenario) -> None:
    js.create(max_msgs_per_subject=1, max_msgs=2, discard="new")
    js.publish("s.a", b"1")
    js.publish("s.b", b"2")
    js.publish("s.a", b"3")
    js.publish("s.c", b"4")
    js.stored()
    js.create("B", subjects=["b.>"], max_msgs_per_subject=1, max_bytes=60, discard="new")
    js.publish("b.a", b"x" * 30)
    js.publish("b.a", b"x" * 20)
    js.publish("b.a", b"x" * 30)
    js.publish("b.a", b"x" * 41)
    js.publish("b.b", b"x" * 41)
    js.stored("B")


def test_a_full_subject_refuses_new_messages_if_it_is_told_to(js: Scenario) -> None:
    js.create(max_msgs_per_subject=2, discard="new", discard_new_per_subject=True)
    for subject in ("s.a", "s.a", "s.a", "s.b"):
        js.publish(subject)
    js.api("STREAM.PURGE.S", {"filter": "s.a", "keep": 1})
    js.publish("s.a")
    js.publish("s.a")
    js.state()


def test_limits_of_number_and_size_and_subject_hold_together(js: Scenario) -> None:
    js.create(max_msgs=3, max_bytes=150, max_msgs_per_subject=2)
    for number, subject in enumerate(("s.a", "s.a", "s.b", "s.a", "s.c", "s.d")):
        js.publish(subject, b"x" * (10 * number))
        js.state()
    js.stored()


def test_messages_go_when_they_are_old(js: Scenario) -> None:
    names = {"M": "memory", "F": "file"}
    for name, storage in names.items():
        js.create(
            name, subjects=[f"{name}.>"], storage=storage, max_age=SECOND // 2, duplicate_window=SECOND // 2
        )
        js.publish(f"{name}.a", b"1")
        js.publish(f"{name}.b", b"2")
    for name in names:
        js.until(name, messages=0)
        js.state(name)
        js.publish(f"{name}.a", b"3")


def test_a_shorter_age_holds_for_messages_that_are_there(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1")
    js.update(max_age=SECOND // 10, duplicate_window=SECOND // 10)
    js.until(messages=0)
    js.state()


def test_nobody_is_interested_so_nothing_is_kept(js: Scenario) -> None:
    for storage in ("memory", "file"):
        name = storage[0].upper()
        js.create(name, subjects=[f"{name}.>"], storage=storage, retention="interest", allow_rollup_hdrs=True)
        js.publish(f"{name}.a", b"1")
        js.publish(f"{name}.a", b"2", {"Nats-Msg-Id": "x"})
        js.publish(f"{name}.a", b"3", {"Nats-Expected-Last-Sequence": "2"})
        js.publish(f"{name}.a", b"4", {"Nats-Expected-Last-Sequence": "2"})
        js.publish(f"{name}.a", b"4", {"Nats-Expected-Last-Subject-Sequence": "0"})
        js.publish(f"{name}.a", b"4", {"Nats-TTL": "1s"})
        js.publish(f"{name}.a", b"5", {"Nats-Rollup": "all"})
        js.state(name)


def test_what_was_kept_goes_when_a_stream_becomes_one_of_interest(
    js: Scenario,
) -> None:
    js.create(allow_rollup_hdrs=True)
    js.publish("s.a", b"1")
    js.publish("s.b", b"2")
    js.update(retention="interest")
    js.until(messages=0)
    js.state()
    js.publish("s.c", b"3")
    js.state()


def test_work_waits_for_a_consumer(js: Scenario) -> None:
    js.create(retention="workqueue")
    js.publish("s.a", b"1")
    js.publish("s.b", b"2")
    js.publish("s.a", b"3", {"Nats-Expected-Last-Subject-Sequence": "1"})
    js.state()


def test_batches_are_not_kept_either_if_nobody_is_interested(js: Scenario) -> None:
    js.create(retention="interest", allow_atomic=True, allow_batched=True)
    js.publish("s.a", b"1", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    js.publish("s.b", b"2", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"})
    js.state()
    js.publish("s.a", b"1", {"Nats-Batch-Id": "c", "Nats-Batch-Sequence": "1"})
    js.publish("s.a", b"1", {"Nats-Batch-Id": "c", "Nats-Batch-Sequence": "2", "Nats-Msg-Id": "in batch"})
    js.publish("s.b", b"2", {"Nats-Batch-Id": "c", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "eob"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": "in batch"})
    js.state()
    js.listen("f.>")
    js.send("s.a", "f.b1.2.fail.1.0.$FI", b"1")
    js.send("s.a", "f.b1.2.fail.2.1.$FI", b"2")
    js.send("s.a", "f.b1.2.fail.3.2.$FI", b"3")
    js.heard("f.>", 3)
    js.state()


def test_an_account_has_room_for_so_much_and_no_more(
    shared_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> None:
    config = config_text("{max_mem: 1G, max_file: 1G}", "{max_mem: 1000, max_file: 1000}")
    js = open_scenario(shared_server(config=config, jetstream=True), account)
    js.create("M", subjects=["M.>"], storage="memory", allow_atomic=True, allow_batched=True)
    js.create("F", subjects=["F.>"], storage="file")
    for name in "MF":
        js.publish(f"{name}.a", b"x" * 900)
        js.publish(f"{name}.a", b"x" * 200)
        js.publish(f"{name}.a", b"x" * 200, {"Nats-TTL": "bad"})
        js.state(name)
        js.publish(f"{name}.b", b"x" * 20)
        js.state(name)
    js.publish(
        "M.a", b"x" * 200, {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    )
    js.publish("M.a", b"x" * 50, {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    js.publish("M.a", b"x" * 50, {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"})
    js.listen("f.>")
    js.send("M.a", "f.b1.2.fail.1.2.$FI", b"x" * 200)
    js.heard("f.>", 1)
    js.api("STREAM.PURGE.M")
    js.publish("M.a", b"x" * 900)


def test_a_server_has_room_for_so_much_and_no_more(
    own_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> None:
    server = own_server(config=config_text("{max_mem: 1000, max_file: 1000}"), jetstream=True)
    js = open_scenario(server, account)
    js.create("M", subjects=["M.>"], storage="memory")
    js.create("F", subjects=["F.>"], storage="file")
    for name in "MF":
        js.publish(f"{name}.a", b"x" * 900)
        js.publish(f"{name}.a", b"x" * 200)
        js.publish(f"{name}.a", b"x")
        js.publish(f"{name}.a", b"x", {"Nats-Expected-Stream": "wrong"})
        js.state(name)


def test_lower_limits_take_nothing_from_a_stream_that_discards_new_messages(js: Scenario) -> None:
    for storage in ("memory", "file"):
        name = storage[0].upper()
        js.create(name, subjects=[f"{name}.>"], storage=storage, discard="new")
        for number in range(4):
            js.publish(f"{name}.a", b"%d" % number)
        js.update(name, max_msgs=2)
        js.state(name)
        js.publish(f"{name}.a", b"no")
        js.update(name, max_msgs=-1, max_bytes=60)
        js.state(name)
        js.publish(f"{name}.a", b"no")
        js.update(name, max_bytes=-1, max_msgs_per_subject=3)
        js.state(name)
        js.publish(f"{name}.a", b"yes")
        js.update(name, max_msgs_per_subject=2, discard_new_per_subject=True)
        js.state(name)
        js.publish(f"{name}.a", b"no")
        js.update(name, discard="old", discard_new_per_subject=False, max_msgs_per_subject=-1, max_msgs=1)
        js.state(name)
