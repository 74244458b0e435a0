"""The checker on histories written by hand: each breaks one promise."""

from __future__ import annotations

import pytest

from tests.sim.checks.checker import check
from tests.sim.checks.letters import check_letters
from tests.sim.history import (
    AckSent,
    BatchOutcome,
    Delivery,
    FastBatch,
    Final,
    History,
    Publish,
    Removal,
    Rot,
    Stored,
)
from tests.sim.plans.plan import ConsumerPlan, Plan

CONFIG = {"durable_name": "c", "ack_policy": "explicit", "max_deliver": -1}


def plan_of(consumer: bool = False) -> Plan:
    consumers = (ConsumerPlan("S", "c", CONFIG),) if consumer else ()
    return Plan(0, {"S": {"subjects": ["s.>"]}}, consumers, (), (), (), False)


def published(uid: int, seq: int = 0, at: float = 0.0, **more: object) -> Publish:
    answer = {"stream": "S", "seq": seq} if seq else None
    found = Publish(uid, "p", "S", "s.1", at, 1, **more)  # type: ignore[arg-type]
    found.answer, found.answered_at = answer, at + 0.5 if seq else None
    return found


def stored(*pairs: tuple[int, int]) -> Final:
    content = [Stored(seq, "s.1", uid, f"2026-01-01T00:00:{seq:02}Z", {}) for seq, uid in pairs]
    first, last = (pairs[0][0], pairs[-1][0]) if pairs else (1, 0)
    deleted = last - first + 1 - len(pairs) if pairs else 0
    return Final(
        content,
        {"messages": len(pairs), "first_seq": first, "last_seq": last, "num_deleted": deleted},
    )


def history_of(final: Final, *publishes: Publish) -> History:
    return History(publishes=list(publishes), final={"S": final})


def test_a_history_that_keeps_its_promises() -> None:
    history = history_of(stored((1, 7), (2, 8)), published(7, 1), published(8, 2, at=1.0))
    assert check(plan_of(), history) == []


def test_an_answer_that_did_not_come_allows_both() -> None:
    assert check(plan_of(), history_of(stored((1, 7)), published(7))) == []
    assert check(plan_of(), history_of(stored(), published(7))) == []


@pytest.mark.parametrize(
    ("final", "publishes", "words"),
    [
        (stored((1, 7)), [published(7, 1), published(8, 2, 1.0)], "acknowledged as 2, and the last"),
        (stored((2, 8)), [published(7, 1), published(8, 2, 1.0)], "acknowledged as 1 and is lost"),
        (stored((1, 8)), [published(7, 1), published(8)], "which is message 8"),
        (stored((1, 7), (2, 7)), [published(7, 1)], "sent 1 times and is stored 2 times"),
        (stored((1, 9)), [], "nobody sent it"),
        (
            stored((1, 7), (2, 8)),
            [published(7, 2), published(8, 1, 1.0)],
            "was acknowledged before it was sent",
        ),
        (
            stored((1, 7), (2, 7)),
            [published(7, msg_id="a"), published(7, 2, 1.0, msg_id="a")],
            "twice within the window",
        ),
        (
            stored((1, 7), (2, 8), (3, 9)),
            [published(7, 1), published(8, 2), published(9, 3, expected=1, expects="stream")],
            "2 is between",
        ),
    ],
)
def test_a_broken_promise_of_a_stream(final: Final, publishes: list[Publish], words: str) -> None:
    assert words in "\n".join(check(plan_of(), history_of(final, *publishes)))


def test_a_removed_message_that_is_there_again() -> None:
    history = history_of(stored((1, 7)), published(7, 1))
    request = {"endpoint": "STREAM.MSG.DELETE", "seq": 1}
    history.removals.append(Removal("S", 5.0, request, {"success": True}, 6.0))
    assert "is there again" in "\n".join(check(plan_of(), history))


def test_half_a_batch() -> None:
    history = history_of(stored((1, 7)), published(7, batch="b"), published(8, batch="b"))
    history.batches.append(BatchOutcome("b", "S", [7, 8], 0.0))
    assert "1 of 2 messages are stored" in "\n".join(check(plan_of(), history))


def test_a_delivery_after_its_ack_was_confirmed() -> None:
    history = history_of(stored((1, 7)), published(7, 1))
    for number, at in enumerate((1.0, 5.0), 1):
        history.deliveries.append(Delivery(at, "r", 1, "S", "c", 1, number, number, 7, "s.1"))
    history.acks.append(AckSent(2.0, "r", 1, "S", "c", 1, "+ACK", confirmed_at=3.0))
    found = "\n".join(check(plan_of(consumer=True), history))
    assert "settled at 3.000 and is delivered at 5.000" in found


def test_a_message_that_is_never_delivered() -> None:
    history = history_of(stored((1, 7)), published(7, 1))
    assert "was never delivered" in "\n".join(check(plan_of(consumer=True), history))


def test_a_report_of_damage_is_false_if_nothing_was_damaged() -> None:
    history = history_of(stored((1, 7)), published(7, 1))
    history.reported = ["ERROR streams/S/log/0000000001.log: damaged end, at most 1 messages lost"]
    assert any("there was none" in line for line in check(plan_of(), history))
    history.rot = [Rot(0.0, "streams/S/log/0000000001.log")]
    assert check(plan_of(), history) == []


def test_fast_ingest_tells_no_more_than_was_sent() -> None:
    history = history_of(stored((1, 7)), published(7, batch="f"))
    history.fast = [FastBatch("f", "S", [7], 0.0, stored=1)]
    assert check(plan_of(), history) == []
    history.fast[0].stored = 2
    assert any("2 of 1 are told as stored" in line for line in check(plan_of(), history))


def test_an_expectation_looks_at_no_message_that_a_later_one_displaced() -> None:
    """The last message of the subject is damaged, and those before it were displaced by it."""
    sent = [published(7, 1), published(8, 2, at=1.0), published(9, 3, at=2.0)]
    history = history_of(stored((4, 10)), *sent, published(10, 4, at=3.0, expected=0, expects="subject"))
    history.rot = [Rot(2.5, "streams/S/log/0000000001.log")]
    history.reported = ["ERROR streams/S/log/0000000001.log: damaged record, at most 1 messages lost"]
    plan = plan_of().without(streams={"S": {"subjects": ["s.>"], "max_msgs_per_subject": 1}})
    assert check(plan, history) == []
    plan = plan_of().without(streams={"S": {"subjects": ["s.>"], "max_msgs_per_subject": 3}})
    assert any("is between" in line for line in check(plan, history))


def test_a_message_without_ack_has_one_letter() -> None:
    config = CONFIG | {"metadata": {"millstream.dead_letter": "dlq"}}
    streams = {"S": {"subjects": ["s.>"]}, "X": {"subjects": ["dlq"]}}
    plan = Plan(0, streams, (ConsumerPlan("S", "c", config),), (), (), (), False)
    origin = {
        "Millstream-Orig-Stream": "S",
        "Millstream-Dlq-Consumer": "c",
        "Millstream-Orig-Seq": "1",
    }
    history = history_of(stored((1, 7)), published(7, 1))
    history.final["X"] = stored()
    assert list(check_letters(plan, history)) == ["S.c: 1 was not acknowledged, and it has no letter"]
    history.final["X"] = stored((1, 7), (2, 7))
    for letter in history.final["X"].content:
        letter.headers.update(origin)
    assert list(check_letters(plan, history)) == ["message ('S', 'c', 1) has 2 letters"]
    del history.final["X"].content[0]
    assert list(check_letters(plan, history)) == []
    history.final["X"].content.clear()
    history.acks.append(AckSent(1.0, "p", 1, "S", "c", 1, "+ACK"))
    assert list(check_letters(plan, history)) == []
