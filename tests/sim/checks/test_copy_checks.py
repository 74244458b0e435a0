"""The checks of copies, queues, markers and duplicates on histories written by hand."""

from __future__ import annotations

from tests.sim.checks.test_stream_checks import (
    BASIC,
    copied,
    final,
    history_of,
    judged,
    message,
    plan_of,
    sent,
)
from tests.sim.history import AckSent, ConsumerLook, Copy, Delivery, Final, History, Incarnation, Update
from tests.sim.machine.loop import START_NS
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan


def test_a_rollup_leaves_nothing_before_it() -> None:
    there = final(message(1, 7), message(2, 8, Nats_Rollup="sub"))
    roll = sent(8, 2, at=1.0, headers={"Nats-Rollup": "sub"})
    assert "1 is there, and 2 has replaced it" in judged(history_of(there, sent(7, 1), roll))


def test_the_last_message_of_a_subject_leaves_a_marker() -> None:
    plan = plan_of({"subject_delete_marker_ttl": 300 * SECOND_NS, "max_msgs_per_subject": 1})
    history = history_of(final(state={"last_seq": 1, "first_seq": 2}), sent(7, 1, ttl_s=2))
    history.read_at_ns = START_NS + 60 * SECOND_NS
    assert "1 of s.1 has expired, and left no marker" in judged(history, plan)
    history.read_at_ns = START_NS + 400 * SECOND_NS
    assert judged(history, plan) == ""


def test_nothing_is_a_duplicate_long_after_the_window() -> None:
    again = sent(7, 1, at=100.0, msg_id="a")
    again.answer = {"seq": 1, "duplicate": True}
    there = final(message(1, 7))
    there.content[0].time = "2023-11-14T22:13:20Z"
    history = history_of(there, sent(7, 1, msg_id="a"), again)
    assert judged(history) == ""
    assert "called a duplicate of 1, 100.0 s later" in judged(
        history, plan_of({"duplicate_window": SECOND_NS})
    )
    history.updates = [Update(200.0, "S", BASIC | {"duplicate_window": SECOND_NS}, 201.0, {"config": {}})]
    assert judged(history) == ""  # it ruled later
    history.updates = [Update(2.0, "S", BASIC | {"duplicate_window": SECOND_NS}, 3.0, {"config": {}})]
    assert "called a duplicate" in judged(history)


def _copy_of(content: Final) -> History:
    history = history_of(final(message(1, 7), message(2, 8)), sent(7, 1), sent(8, 2, at=1.0))
    history.copies = [Copy("R", "S", 2.0, taken_at=3.0, consumers=True)]
    history.final["R"] = content
    return history


def test_a_copy_goes_on_with_the_sequences() -> None:
    assert judged(_copy_of(final(message(1, 7), message(2, 8)))) == ""
    history = _copy_of(final())
    history.final["S"] = final(state={"last_seq": 2, "first_seq": 3})
    assert "the last sequence is 0, and 2 was acknowledged before" in judged(history)


def test_a_copied_consumer_has_open_what_was_not_acknowledged() -> None:
    history = _copy_of(final(message(1, 7), message(2, 8)))
    history.acks = [AckSent(1.2, "r", 1, "S", "c", 1, "+ACK", confirmed_at=1.5)]
    info = {"num_pending": 0, "num_ack_pending": 1, "ack_floor": {"stream_seq": 1}}
    history.looks = [ConsumerLook(9.0, "R", "c", info)]
    assert judged(history) == ""
    info["num_pending"] = 1
    assert "c has 2 messages open" in judged(history)
    info |= {"num_pending": 0, "ack_floor": {"stream_seq": 2}}
    assert "c has the floor" in judged(history)


def test_a_queue_with_a_source_gets_each_message_once() -> None:
    queue = {"sources": [{"name": "S"}], "retention": "workqueue"}
    consumer = ConsumerPlan("GW", "g", {"durable_name": "g", "ack_policy": "explicit"})
    plan = plan_of(GW=queue).without(consumers=(consumer,))
    history = history_of(final(message(1, 7)), sent(7, 1))
    history.final["GW"] = final(state={"last_seq": 1, "first_seq": 2})
    info = {"num_pending": 0, "num_ack_pending": 0, "ack_floor": {}}
    history.looks = [ConsumerLook(9.0, "GW", "g", info)]
    assert "GW: [1] were never delivered" in judged(history, plan)
    history.deliveries = [Delivery(1.0, "r", 1, "GW", "g", 1, 1, 1, 7, "s.1")]
    assert judged(history, plan) == ""
    history.deliveries.append(Delivery(2.0, "r", 1, "GW", "g", 2, 2, 1, 7, "s.1"))
    assert "message 7 was copied as [1, 2]" in judged(history, plan)


def test_a_source_that_was_renewed_is_copied_from_its_beginning() -> None:
    plan = plan_of(GZ={"sources": [{"name": "S"}]})
    history = history_of(final(message(1, 8)), sent(7, 1), sent(8, 1, at=9.0))
    history.incarnations = [Incarnation("S", 5.0, 6.0, 7.0)]
    history.final["GZ"] = final(copied(1, 7, "s.1", "S 1 > > s.1"))
    assert "has no copy of [1] of S, which is a new stream" in judged(history, plan)
    history.final["GZ"] = final(copied(1, 7, "s.1", "S 1 > > s.1"), copied(2, 8, "s.1", "S 1 > > s.1"))
    assert judged(history, plan) == ""
