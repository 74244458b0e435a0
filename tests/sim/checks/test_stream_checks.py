"""The checks of streams and their followers on histories written by hand: each breaks one promise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checks.checker import check
from tests.sim.history import (
    BatchOutcome,
    Final,
    History,
    Publish,
    Reading,
    Removal,
    Republished,
    StateLook,
    Stored,
    Update,
)
from tests.sim.plans.plan import Plan

BASIC: dict[str, Any] = {"subjects": ["s.>"]}


def plan_of(config: dict[str, Any] | None = None, **others: dict[str, Any]) -> Plan:
    return Plan(0, {"S": BASIC | (config or {}), **others}, (), (), (), (), False)


def sent(uid: int, seq: int = 0, at: float = 0.0, **more: Any) -> Publish:
    found = Publish(uid, "p", more.pop("stream", "S"), more.pop("subject", "s.1"), at, 1, **more)
    if seq:
        found.answer, found.answered_at = {"stream": "S", "seq": seq}, at + 0.5
    return found


def refused(uid: int, code: int, text: str, at: float = 1.0, **more: Any) -> Publish:
    found = sent(uid, at=at, **more)
    found.answer, found.answered_at = {"error": {"err_code": code, "description": text}}, at + 0.5
    return found


def message(seq: int, uid: int, subject: str = "s.1", **headers: str) -> Stored:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Stored(seq, subject, uid, f"2026-01-01T00:00:{seq:02}Z", named)


def final(*content: Stored, **more: Any) -> Final:
    first, last = (content[0].seq, content[-1].seq) if content else (1, 0)
    deleted = last - first + 1 - len(content) if content else 0
    state = {"messages": len(content), "first_seq": first, "last_seq": last, "num_deleted": deleted}
    return Final(list(content), state | more.pop("state", {}), **more)


def judged(history: History, plan: Plan | None = None) -> str:
    return "\n".join(check(plan or plan_of(), history))


def history_of(there: Final, *publishes: Publish, **more: Any) -> History:
    return History(publishes=list(publishes), final={"S": there}, **more)


def test_a_true_expectation_is_not_refused() -> None:
    wrong = refused(8, 10071, "wrong last sequence: 1", expected=1, expects="subject")
    assert "although that is the last" in judged(history_of(final(message(1, 7)), sent(7, 1), wrong))


def test_a_refusal_tells_the_last_sequence() -> None:
    there = final(message(1, 7), message(2, 9))
    wrong = refused(8, 10071, "wrong last sequence: 1", at=3.0, expected=0, expects="subject")
    told = judged(history_of(there, sent(7, 1), sent(9, 2, at=1.0), wrong))
    assert "told that 1 is the last sequence, and 2 was acknowledged before" in told
    wrong = refused(8, 10071, "wrong last sequence: 3", at=3.0, expected=0, expects="subject")
    assert "which nobody sent" in judged(history_of(there, sent(7, 1), sent(9, 2, at=1.0), wrong))
    right = refused(8, 10071, "wrong last sequence: 2", at=3.0, expected=0, expects="subject")
    assert judged(history_of(there, sent(7, 1), sent(9, 2, at=1.0), right)) == ""


def test_an_expected_sequence_is_of_the_subject() -> None:
    there = final(message(1, 7, "s.2"), message(2, 8))
    first = sent(7, 1, subject="s.2")
    told = judged(history_of(there, first, sent(8, 2, at=1.0, expected=1, expects="subject")))
    assert "expected 1, which is of s.2" in told


def test_a_batch_expects_as_a_message_does() -> None:
    there = final(message(1, 7), message(2, 8))
    batch = BatchOutcome("b", "S", [8], 1.0, {"seq": 2}, 1.5)
    inside = sent(8, at=1.0, batch="b", expected=0, expects="subject")
    told = judged(history_of(there, sent(7, 1), inside, batches=[batch]))
    assert "8 expected 0 and has 2, but 1 is between" in told


def test_an_expected_id_is_that_of_the_last_message() -> None:
    first = sent(7, 1, msg_id="a", headers={"Nats-Msg-Id": "a"})
    other = sent(8, 2, at=1.0)
    expects = {"Nats-Expected-Last-Msg-Id": "a"}
    there = final(message(1, 7, Nats_Msg_Id="a"), message(2, 8), message(3, 9, **expects))
    told = judged(history_of(there, first, other, sent(9, 3, at=2.0, headers=expects)))
    assert "expected the id of 1 and has 3, but [2] are between" in told
    wrong = refused(9, 10070, "wrong last msg ID: ", headers=expects)
    there = final(message(1, 7, Nats_Msg_Id="a"))
    assert "which was the last one, and was refused" in judged(history_of(there, first, wrong))


def test_a_message_has_what_was_sent() -> None:
    stored = message(1, 7, X="y")
    stored.size = 12
    publish = sent(7, 1, size=10, headers={"X": "y"})
    assert judged(history_of(final(stored), publish)) == ""
    stored.size = 11
    assert "has 11 bytes" in judged(history_of(final(stored), publish))
    stored.size, stored.headers = 12, {}
    assert "has the headers {}" in judged(history_of(final(stored), publish))


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"bytes": 33}, "33 bytes, and there are 66"),
        ({"num_subjects": 2}, "counts 2 subjects"),
        ({"subjects": {"s.1": 1}}, "the subjects are"),
        ({"deleted": []}, "the deleted messages are []"),
        ({"first_ts": "2026-01-01T00:00:02Z"}, "the first time is"),
        ({"last_ts": "2026-01-01T00:00:09Z"}, "the last time is"),
    ],
)
def test_the_state_counts_what_is_there(state: dict[str, Any], told: str) -> None:
    content = [message(1, 7), message(3, 8)]
    for each in content:
        each.size = 0
    right = {
        "bytes": 66,
        "num_subjects": 1,
        "subjects": {"s.1": 2},
        "deleted": [2],
        "first_ts": content[0].time,
        "last_ts": content[1].time,
    }
    publishes = [sent(7, 1), sent(8, 3, at=1.0)]
    assert judged(history_of(final(*content, state=right), *publishes)) == ""
    assert told in judged(history_of(final(*content, state=right | state), *publishes))


def test_a_limit_is_kept_in_the_end() -> None:
    there = final(message(1, 7), message(2, 8), config={"max_msgs": 1})
    assert "has 2 messages of 1" in judged(history_of(there, sent(7, 1), sent(8, 2, at=1.0)))
    there = final(message(1, 7), message(2, 8), config={"max_msgs_per_subject": 1})
    assert "s.1 has 2 messages of 1" in judged(history_of(there, sent(7, 1), sent(8, 2, at=1.0)))
    state = {"bytes": 33, "first_ts": "2026-01-01T00:00:01Z", "last_ts": "2026-01-01T00:00:01Z"}
    there = final(message(1, 7), config={"max_bytes": 9}, state=state)
    assert "has 33 bytes of 9" in judged(history_of(there, sent(7, 1)))


def test_a_stream_that_is_not_full_refuses_nothing() -> None:
    plan = plan_of({"discard": "new", "max_msgs": 2})
    full = refused(8, 10077, "maximum messages exceeded")
    there = final(message(1, 7))
    assert "is refused, and there is room" in judged(history_of(there, sent(7, 1), full), plan)
    assert judged(history_of(there, sent(7, 1), sent(9, at=0.5), full), plan) == ""


def test_the_size_of_a_message_is_limited() -> None:
    plan = plan_of({"max_msg_size": 20})
    assert "and is stored" in judged(history_of(final(message(1, 7)), sent(7, 1, size=30)), plan)
    wrong = refused(7, 10054, "message size exceeds maximum allowed", size=5)
    assert "7 bytes, and is refused" in judged(history_of(final(), wrong), plan)


def test_nothing_is_stored_in_a_sealed_stream() -> None:
    update = Update(1.0, "S", BASIC | {"sealed": True}, 1.5, {"config": {}})
    history = history_of(final(message(1, 7)), sent(7, 1, at=2.0), updates=[update])
    assert "is stored in a sealed stream" in judged(history)


def test_a_confirmed_configuration_stays() -> None:
    update = Update(1.0, "S", BASIC | {"max_msgs": 5}, 1.5, {"config": {}})
    history = history_of(final(config=BASIC | {"max_msgs": -1}), updates=[update])
    assert "has the configuration" in judged(history)
    history.updates[0].answer = None
    assert judged(history) == ""


def test_all_streams_are_listed() -> None:
    history = history_of(final(), names=["S"])
    assert judged(history) == ""
    history.names = []
    assert "listed are []" in judged(history)


def read(how: str, at: float, found: Stored | None, **more: Any) -> Reading:
    return Reading(at, "S", how, more.get("subject", ""), more.get("seq", 0), at + 0.5, found)


def test_a_read_finds_what_was_acknowledged_before() -> None:
    one, two = message(1, 7), message(2, 8)
    publishes = [sent(7, 1), sent(8, 2, at=1.0)]
    for reading, told in (
        (read("last", 2.0, one, subject="s.1"), "last s.1 gives 1, and 2 was acknowledged"),
        (read("last", 2.0, None, subject="s.1"), "last s.1 gives nothing"),
        (read("seq", 2.0, None, seq=2), "seq 2 gives nothing, and 2 was acknowledged"),
        (read("next", 2.0, two, seq=1, subject="s.1"), "next s.1 gives 2, and 1 was acknowledged"),
        (read("seq", 2.0, one, seq=2), "not from 2 on"),
        (read("last", 2.0, message(2, 8, "s.2"), subject="s.1"), "whose subject is s.2, not s.1"),
        (read("last", 2.0, message(3, 9), subject="s.1"), "message 9, which nobody sent"),
    ):
        assert told in judged(history_of(final(one, two), *publishes, readings=[reading]))
    for fine in (read("last", 1.2, one, subject="s.1"), read("last", 1.2, two, subject="s.1")):
        assert judged(history_of(final(one, two), *publishes, readings=[fine])) == ""


def test_a_read_gives_nothing_that_was_removed_before() -> None:
    removal = Removal("S", 1.0, {"endpoint": "STREAM.MSG.DELETE", "seq": 1}, {"success": True}, 1.5)
    history = history_of(final(state={"last_seq": 1, "first_seq": 2}), sent(7, 1), removals=[removal])
    history.readings = [read("seq", 2.0, message(1, 7), seq=1)]
    assert "which was removed before" in judged(history)
    history.readings = [read("seq", 1.2, message(1, 7), seq=1)]
    assert judged(history) == ""


def test_a_purge_keeps_as_many_as_it_should() -> None:
    purge = Removal("S", 2.0, {"endpoint": "STREAM.PURGE", "keep": 2}, {"success": True}, 2.5)
    publishes = [sent(7, 1), sent(8, 2, at=0.5), sent(9, 3, at=1.0)]
    kept = final(message(2, 8), message(3, 9))
    assert judged(history_of(kept, *publishes, removals=[purge])) == ""
    too_few = judged(history_of(final(message(3, 9)), *publishes, removals=[purge]))
    assert "message 8 was acknowledged as 2 and is lost" in too_few
    too_many = final(message(1, 7), message(2, 8), message(3, 9))
    assert "message 7 (1) was removed" in judged(history_of(too_many, *publishes, removals=[purge]))


def test_a_state_does_not_go_back() -> None:
    state = {"messages": 1, "first_seq": 1, "last_seq": 1}
    looks = [StateLook(at, at + 0.1, "S", state | {"last_seq": last}) for at, last in ((2.0, 2), (3.0, 1))]
    told = judged(history_of(final(message(1, 7)), sent(7, 1), states=looks))
    assert "last_seq goes from 2 back to 1" in told
    looks = [StateLook(2.0, 2.1, "S", state | {"last_seq": 0, "messages": 0})]
    told = judged(history_of(final(message(1, 7)), sent(7, 1), states=looks))
    assert "the last sequence is 0, and 1 was acknowledged before" in told


def test_a_rollup_replaces_and_nothing_else_does() -> None:
    there = final(message(2, 8, "s.2", Nats_Rollup="sub"))
    roll = sent(8, 2, at=1.0, subject="s.2", headers={"Nats-Rollup": "sub"})
    assert "message 7 was acknowledged as 1 and is lost" in judged(history_of(there, sent(7, 1), roll))
    assert judged(history_of(there, sent(7, 1, subject="s.2"), roll)) == ""


def test_what_is_republished_is_what_is_stored() -> None:
    history = history_of(final(message(1, 7)), sent(7, 1), republished=[Republished("S", 2, 7, "s.1")])
    assert "is republished as 2" in judged(history)


def copied(seq: int, uid: int, subject: str, source: str) -> Stored:
    return message(seq, uid, subject, Nats_Stream_Source=source)


def test_a_source_with_a_filter_has_what_matches_it() -> None:
    source = {"name": "S", "filter_subject": "s.1"}
    plan = plan_of(GG={"sources": [source]})
    origin = final(message(1, 7), message(2, 8, "s.2"), message(3, 9))
    history = history_of(origin, sent(7, 1), sent(8, 2, subject="s.2", at=1.0), sent(9, 3, at=2.0))
    one, two = copied(1, 7, "s.1", "S 1 s.1 > s.1"), copied(2, 9, "s.1", "S 3 s.1 > s.1")
    history.final["GG"] = final(one, two)
    assert judged(history, plan) == ""
    history.final["GG"] = final(one)
    assert "has no copy of [3]" in judged(history, plan)
    history.final["GG"] = final(
        one, copied(2, 8, "s.2", "S 2 s.1 > s.2"), copied(3, 9, "s.1", "S 3 s.1 > s.1")
    )
    assert "which is Stored(seq=2" in judged(history, plan)
    history.final["GG"] = final(copied(1, 9, "s.1", "S 3 s.1 > s.1"), copied(2, 7, "s.1", "S 1 s.1 > s.1"))
    assert "are not in order: [3, 1]" in judged(history, plan)


def test_a_mirror_renames_and_begins_as_configured() -> None:
    transforms = [{"src": "s.*", "dest": "m.{{wildcard(1)}}"}]
    plan = plan_of(MF={"mirror": {"name": "S", "subject_transforms": transforms}})
    origin = final(message(1, 7), message(2, 8))
    history = history_of(origin, sent(7, 1), sent(8, 2, at=1.0))
    history.final["MF"] = final(message(1, 7, "m.1"), message(2, 8, "m.1"))
    assert judged(history, plan) == ""
    history.final["MF"] = final(message(1, 7, "m.1"), message(2, 8))
    assert "its copy of 2" in judged(history, plan)
    plan = plan_of(MF={"mirror": {"name": "S", "opt_start_seq": 2}})
    history.final["MF"] = final(message(2, 8))
    assert judged(history, plan) == ""
    history.final["MF"] = final(message(1, 7), message(2, 8))
    assert "its copy of 1" in judged(history, plan)


def test_a_promoted_mirror_gets_no_more_copies() -> None:
    plan = plan_of(MP={"mirror": {"name": "S"}})
    origin = final(message(1, 7), message(2, 8))
    own = sent(9, 2, at=3.0, stream="MP", subject="mp.1")
    history = history_of(origin, sent(7, 1), sent(8, 2, at=1.0), own)
    history.updates = [Update(2.0, "MP", {"subjects": ["mp.>"]}, 2.5, {"config": {}})]
    history.final["MP"] = final(message(1, 7), message(2, 9, "mp.1"))
    assert judged(history, plan) == ""
    own.answer = {"seq": 1}
    history.final["MP"] = final(message(1, 9, "mp.1"), message(2, 8))
    assert "1 was published to it, and 2 is a copy" in judged(history, plan)
