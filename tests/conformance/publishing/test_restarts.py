"""Streams after the server was stopped, or killed, and started again."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.publishing import SECOND, Scenario, config_text
from tests.kits.reference import ServerProcess


@pytest.fixture
def again(
    own_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> Callable[..., Scenario]:
    """`again()` starts the server, the first time and whenever it is called; a client of it."""
    servers: list[ServerProcess] = []

    def start(*, kill: bool = False) -> Scenario:
        if not servers:
            servers.append(own_server(config=config_text(), jetstream=True))
        else:
            if kill:
                servers[0].kill()
            else:
                servers[0].signal(signal.SIGTERM)
                servers[0].wait()
            servers[0].start()
        scenario = open_scenario(servers[0], account)
        scenario.note("-- started")
        return scenario

    return start


Again = Callable[..., Scenario]


def test_messages_and_ids_and_sums_and_expectations_are_there_after_a_restart(again: Again) -> None:
    js = again()
    js.create(storage="file")
    js.create("C", subjects=["c.>"], storage="file", allow_msg_counter=True)
    js.create("M", subjects=["m.>"])
    js.create("P", subjects=["p.>"], storage="file", max_msgs_per_subject=1)
    js.create("E", subjects=["e.>"], storage="file", first_seq=100)
    js.publish("s.a", b"1", {"Nats-Msg-Id": "one"})
    js.publish("s.a", b"2", {"Nats-Msg-Id": "two"})
    js.publish("s.b", b"3")
    js.publish("c.a", b"", {"Nats-Incr": "5"})
    js.publish("c.a", b"", {"Nats-Incr": "7"})
    js.publish("m.a", b"", {"Nats-Msg-Id": "one"})
    js.publish("p.a", b"1")
    js.publish("p.a", b"2")
    for kill in (False, True):
        js = again(kill=kill)
        js.stored()
        js.publish("s.a", b"again", {"Nats-Msg-Id": "one"})
        js.publish("s.a", b"again", {"Nats-Msg-Id": "two"})
        js.publish("s.a", b"x", {"Nats-Expected-Last-Sequence": "1"})
        js.publish("s.a", b"x", {"Nats-Expected-Last-Subject-Sequence": "1"})
        js.publish("s.a", b"x", {"Nats-Expected-Last-Msg-Id": "one"})
        js.publish("c.a", b"", {"Nats-Incr": "1"})
        js.api("STREAM.INFO.M")
        js.state("E")
        js.publish("m.a", b"", {"Nats-Msg-Id": "one"})
        js.publish("p.a", b"3")
        js.stored("P")
        js.publish("s.c", b"after", {"Nats-Msg-Id": f"killed {kill}"})
    js.publish("s.c", b"", {"Nats-Msg-Id": "x", "Nats-Expected-Last-Msg-Id": "killed True"})
    js.stored("C")


def test_a_window_is_not_longer_than_before(again: Again) -> None:
    js = again()
    js.create(storage="file", duplicate_window=SECOND // 10)
    js.publish("s.a", b"1", {"Nats-Msg-Id": "x"})
    js = again()
    js.wait_for("no duplicate", lambda: b"duplicate" not in js.ask_raw("s.a", {"Nats-Msg-Id": "x"}))
    js.state()


def test_times_to_live_go_on(again: Again) -> None:
    js = again()
    js.create(storage="file", allow_msg_ttl=True)
    js.create(
        "K", subjects=["k.>"], storage="file", subject_delete_marker_ttl=3600 * SECOND, max_msgs_per_subject=1
    )
    js.create("A", subjects=["a.>"], storage="file", max_age=SECOND, duplicate_window=SECOND)
    js.publish("s.a", b"1", {"Nats-TTL": "1s"})
    js.publish("s.b", b"2", {"Nats-TTL": "1h"})
    js.publish("s.c", b"3", {"Nats-TTL": "1s"})
    js.publish("s.d", b"4", {"Nats-TTL": "never"})
    js.publish("s.e", b"5")
    js.publish("k.a", b"1", {"Nats-TTL": "1s"})
    js.publish("a.a", b"1")
    js = again(kill=True)
    js.until(messages=3)
    js.stored()
    js.until("A", messages=0)
    js.state("A")
    js.until("K", last_seq=2)
    js.stored("K")
    js = again()
    js.stored()
    js.stored("K")


def test_schedules_go_on(again: Again) -> None:
    js = again()
    js.create(storage="file", allow_msg_schedules=True)
    moment = (datetime.now(UTC) + timedelta(seconds=3)).isoformat(timespec="milliseconds")
    js.ask_raw("s.once", {"Nats-Schedule": f"@at {moment}", "Nats-Schedule-Target": "s.t"})
    js.ask_raw("s.gone", {"Nats-Schedule": f"@at {moment}", "Nats-Schedule-Target": "s.t"})
    js.publish("s.end", b"", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.gone"})
    js = again(kill=True)
    js.until(last_seq=4)
    js.stored()
    js = again()
    js.publish("s.after", b"", {"Nats-Expected-Last-Sequence": "4"})
    js.stored()


def test_what_is_due_again_and_again_goes_on(again: Again) -> None:
    js = again()
    js.create(storage="file", allow_msg_schedules=True)
    js.publish("s.a", b"tick", {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "s.t"})
    js.wait_for("one came", lambda: js.info()["last_seq"] >= 2)
    js = again()
    before = js.info()["last_seq"]
    js.wait_for("another came", lambda: js.info()["last_seq"] > before)
    js.ask_raw("s.stop", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.a"})
    found = js.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.a"})
    js.note(found["error"]["description"])


def test_batches_that_were_not_committed_are_gone(again: Again) -> None:
    js = again()
    js.create(storage="file", allow_atomic=True, allow_batched=True)
    js.publish("s.a", b"1", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    js.publish("s.a", b"1", {"Nats-Batch-Id": "c", "Nats-Batch-Sequence": "1"})
    js.publish("s.a", b"2", {"Nats-Batch-Id": "c", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"})
    js.listen("f.>")
    js.send("s.a", "f.f.10.fail.1.0.$FI", b"1")
    js.heard("f.>", 1)
    js.until(messages=3)
    js = again(kill=True)
    js.stored()
    js.publish("s.a", b"2", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"})
    js.listen("f.>")
    js.send("s.a", "f.f.10.fail.2.1.$FI", b"1")
    js.heard("f.>", 1)
    js.state()


def test_interest_and_limits_and_transforms_hold_after_a_restart(again: Again) -> None:
    js = again()
    js.create("I", subjects=["i.>"], storage="file", retention="interest")
    js.create("L", subjects=["l.>"], storage="file", max_msgs=2, discard="new")
    js.create("T", subjects=["t.>"], storage="file", subject_transform={"src": "t.*", "dest": "u.$1"})
    js.publish("i.a", b"1")
    js.publish("l.a", b"1")
    js.publish("l.a", b"2")
    js.publish("t.a", b"1")
    js = again(kill=True)
    for name in "ILT":
        js.state(name)
    js.publish("i.a", b"2")
    js.publish("l.a", b"3")
    js.publish("t.a", b"2")
    js.stored("T")
    js.api("STREAM.PURGE.L")
    js = again()
    js.publish("l.a", b"3")
    for name in "ILT":
        js.state(name)
