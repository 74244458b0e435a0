"""Reasons why a consumer does not deliver: a case for each, and cases in which it must not be named."""

from typing import Any

import msgspec
import pytest

from millstream.diagnosis import DeliveryVerdict, Diagnosis, DiagnosisFailure, Extra, PendingMessage, why
from millstream.golang.time import Time, format_time
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo, PriorityGroupState, SequenceInfo
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, PriorityPolicy, ReplayPolicy
from millstream.jsapi.errors import ErrorBody
from millstream.jsapi.stream_types import (
    ClusterInfo,
    LostStreamData,
    PeerInfo,
    StreamConfig,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)

SECOND = 1_000_000_000
NOW = Time(1_800_000_000 * SECOND)
LONG_AGO = Time(NOW - 3600 * SECOND)
JUST_NOW = Time(NOW - SECOND)


def stream(**changes: Any) -> StreamInfo:
    """A stream with ten messages."""
    info = StreamInfo(
        config=StreamConfig(name="S", subjects=["s.>"]),
        state=StreamState(messages=10, bytes=1000, first_seq=1, last_seq=10),
    )
    for name, value in changes.items():
        place, _, field = name.partition("__")
        if field:
            setattr(getattr(info, place), field, value)
        else:
            setattr(info, place, value)
    return info


def consumer(config: dict[str, Any] | None = None, **changes: Any) -> ConsumerInfo:
    """A pull consumer that has delivered half of them and has a client that waits for more."""
    info = ConsumerInfo(
        stream_name="S",
        name="c",
        config=ConsumerConfig(
            durable_name="c",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=30 * SECOND,
            max_ack_pending=1000,
            **(config or {}),
        ),
        delivered=SequenceInfo(5, 5, LONG_AGO),
        ack_floor=SequenceInfo(5, 5, LONG_AGO),
        num_pending=5,
        num_waiting=1,
    )
    for name, value in changes.items():
        setattr(info, name, value)
    return info


def ask(the_stream: StreamInfo, the_consumer: ConsumerInfo, **extra: Any) -> Diagnosis:
    found = why(the_stream, the_consumer, Extra(NOW, **extra))
    msgspec.json.encode(found)  # whatever is found can be sent
    assert found.summary.endswith(".")
    assert all(cause.advice.endswith(".") for cause in found.causes)
    return found


def kinds(found: Diagnosis) -> list[str]:
    return [cause.kind for cause in found.causes]


def evidence(found: Diagnosis, kind: str) -> dict[str, Any]:
    return next(cause.evidence for cause in found.causes if cause.kind == kind)


def test_one_that_delivers_has_no_cause() -> None:
    found = ask(stream(), consumer(delivered=SequenceInfo(5, 5, JUST_NOW)))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.DELIVERING, [])


def test_one_that_should_deliver_and_does_not_is_unknown() -> None:
    found = ask(stream(), consumer())
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.UNKNOWN, [])


def test_max_ack_pending_says_by_which_messages_and_since_when() -> None:
    oldest = PendingMessage(3, "s.a")
    found = ask(stream(), consumer({"backoff": []}, num_ack_pending=1000, num_pending=5), oldest=oldest)
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.BLOCKED, ["max_ack_pending"])
    shown = evidence(found, "max_ack_pending")
    assert (shown["messages"], shown["since"]) == ([oldest], format_time(LONG_AGO))
    told = [PendingMessage(seq, deliveries=1) for seq in range(1, 20)]
    found = ask(stream(), consumer(num_ack_pending=1000), pending=told)
    assert evidence(found, "max_ack_pending")["messages"] == told[:10]


@pytest.mark.parametrize(
    ("config", "count"),
    [({"max_ack_pending": -1}, 5000), ({"max_ack_pending": 7}, 6), ({"ack_policy": AckPolicy.NONE}, 1000)],
)
def test_max_ack_pending_is_not_named_below_the_limit_or_without_one(
    config: dict[str, Any], count: int
) -> None:
    changed = consumer(num_ack_pending=count)
    assert changed.config is not None
    for name, value in config.items():
        setattr(changed.config, name, value)
    assert "max_ack_pending" not in kinds(ask(stream(), changed))


def test_nobody_pulls() -> None:
    found = ask(stream(), consumer(num_waiting=0))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.BLOCKED, ["no_pulls"])
    found = ask(stream(), consumer(num_waiting=0, delivered=SequenceInfo(5, 5, JUST_NOW)))
    assert (found.verdict, [cause.severity for cause in found.causes]) == (
        DeliveryVerdict.DELIVERING,
        ["warning"],
    )
    found = ask(stream(), consumer(num_waiting=0, delivered=SequenceInfo(0, 0)))
    assert "nothing was ever delivered" in found.summary


def test_nobody_listens() -> None:
    push = {"deliver_subject": "out", "deliver_group": "g"}
    found = ask(stream(), consumer(push, num_waiting=0))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.BLOCKED, ["no_interest"])
    assert "queue group g" in found.summary
    found = ask(stream(), consumer(push, num_waiting=0, push_bound=True))
    assert kinds(found) == []
    idle = ask(stream(), consumer(push, num_waiting=0, num_pending=0))
    assert (idle.verdict, kinds(idle)) == (DeliveryVerdict.IDLE, ["no_interest", "caught_up"])


def test_it_is_paused() -> None:
    until = Time(NOW + 60 * SECOND)
    found = ask(
        stream(), consumer({"pause_until": until}, paused=True, pause_remaining=60 * SECOND, num_waiting=0)
    )
    assert (found.verdict, kinds(found)[0]) == (DeliveryVerdict.BLOCKED, "paused")
    assert evidence(found, "paused") == {"pause_until": format_time(until), "remaining_s": 60.0}


def test_it_is_pinned_to_another_client() -> None:
    config = {"priority_policy": PriorityPolicy.PINNED_CLIENT, "priority_groups": ["g"]}
    pins = [PriorityGroupState("g", "client-1", LONG_AGO)]
    found = ask(stream(), consumer(config, priority_groups=pins))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.BLOCKED, ["pinned"])
    assert evidence(found, "pinned")["pins"][0]["client"] == "client-1"
    works = ask(stream(), consumer(config, priority_groups=pins, delivered=SequenceInfo(5, 5, JUST_NOW)))
    assert works.verdict is DeliveryVerdict.DELIVERING
    assert kinds(ask(stream(), consumer(config, priority_groups=[PriorityGroupState("g")]))) == []


def test_the_filter_matches_nothing_that_is_stored() -> None:
    found = ask(stream(), consumer({"filter_subject": "s.none"}, num_pending=0), matches=False)
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.IDLE, ["filter_matches_nothing", "caught_up"])
    found = ask(stream(), consumer({"filter_subjects": ["x.>", "y"]}, num_pending=0), matches=False)
    assert kinds(found)[0] == "filter_never_matches"
    found = ask(stream(), consumer({"filter_subjects": ["x.>", "s.a"]}, num_pending=0), matches=True)
    assert kinds(found) == ["caught_up"]


def test_a_filter_may_match_what_a_mirror_copies() -> None:
    copied = stream(config__mirror=None)
    copied.config.subjects = []
    found = ask(copied, consumer({"filter_subject": "x"}, num_pending=0), matches=True)
    assert "filter_never_matches" not in kinds(found)


def test_everything_is_delivered_and_waits_for_acks() -> None:
    found = ask(stream(), consumer(num_pending=0, num_ack_pending=3), oldest=PendingMessage(4, "s.a"))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.IDLE, ["waiting_for_acks"])
    assert evidence(found, "waiting_for_acks")["messages"] == [PendingMessage(4, "s.a")]


def test_redelivery_waits_as_the_server_tells() -> None:
    later = format_time(NOW + 5 * SECOND)
    waits = [
        PendingMessage(3, deliveries=2, redeliver=later),
        PendingMessage(4, deliveries=1, redeliver=later),
    ]
    found = ask(stream(), consumer(num_pending=0, num_ack_pending=2), pending=waits)
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.IDLE, ["backoff", "waiting_for_acks"])
    assert evidence(found, "backoff")["until"] == later


def test_redelivery_waits_at_most_as_long_as_the_backoff() -> None:
    config = {"backoff": [SECOND, 60 * SECOND]}
    changes = {"num_pending": 0, "num_ack_pending": 1, "num_redelivered": 1}
    found = ask(stream(), consumer(config, delivered=SequenceInfo(5, 5, JUST_NOW), **changes))
    assert kinds(found) == ["backoff", "waiting_for_acks"]
    assert evidence(found, "backoff")["estimated"] is True
    assert "backoff" not in kinds(ask(stream(), consumer(config, **changes)))  # that time is over


def test_what_is_due_and_nobody_pulls_is_blocked() -> None:
    due = [PendingMessage(3, deliveries=1, redeliver=format_time(NOW - SECOND))]
    found = ask(stream(), consumer(num_pending=0, num_ack_pending=1, num_waiting=0), pending=due)
    assert (found.verdict, kinds(found)[0]) == (DeliveryVerdict.BLOCKED, "no_pulls")


def test_messages_were_delivered_as_often_as_they_may() -> None:
    config = {"max_deliver": 3}
    found = ask(stream(), consumer(config, num_pending=0, num_redelivered=4, num_ack_pending=1))
    assert "max_deliver" in kinds(found)
    assert evidence(found, "max_deliver")["count"] == 3
    found = ask(stream(), consumer(config, num_pending=0), exhausted=[7, 8])
    assert evidence(found, "max_deliver")["sequences"] == [7, 8]
    assert "max_deliver" not in kinds(ask(stream(), consumer(config, num_redelivered=1, num_ack_pending=1)))
    assert "max_deliver" not in kinds(ask(stream(), consumer(config, num_redelivered=9), exhausted=[]))


def test_a_rate_limit_slows_it_down() -> None:
    config = {"deliver_subject": "out", "rate_limit_bps": 800}
    found = ask(stream(), consumer(config, push_bound=True, num_waiting=0))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.DELIVERING, ["rate_limit"])
    assert evidence(found, "rate_limit")["estimated_s"] == 5.0


def test_it_replays_at_the_original_pace() -> None:
    found = ask(stream(), consumer({"replay_policy": ReplayPolicy.ORIGINAL}))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.DELIVERING, ["replay_original"])


def test_the_stream_is_sealed() -> None:
    found = ask(stream(config__sealed=True), consumer(num_pending=0))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.IDLE, ["stream_sealed", "caught_up"])


def test_the_stream_is_damaged() -> None:
    found = ask(stream(state__lost=LostStreamData([2, 3], 100)), consumer())
    assert evidence(found, "stream_damaged")["lost"] == [2, 3]
    found = why(None, None, Extra(NOW, failure=DiagnosisFailure.DAMAGED, failure_text="torn"))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.BLOCKED, ["stream_damaged"])


def test_the_leader_is_missing() -> None:
    cluster = ClusterInfo(name="C", leader="", replicas=[PeerInfo("n2", offline=True)])
    found = ask(stream(cluster=cluster), consumer(cluster=ClusterInfo(name="C", leader="n1")))
    assert (found.verdict, evidence(found, "leader_missing")["without_leader"]) == (
        DeliveryVerdict.BLOCKED,
        ["stream"],
    )
    alone = stream(cluster=ClusterInfo(leader=""))  # no cluster, no leader
    assert kinds(ask(alone, consumer())) == []
    for failure in (DiagnosisFailure.NO_LEADER, DiagnosisFailure.OFFLINE):
        assert why(None, None, Extra(NOW, failure=failure)).verdict is DeliveryVerdict.BLOCKED
    assert why(None, None, Extra(NOW)).verdict is DeliveryVerdict.UNKNOWN


def test_the_consumer_is_ahead_of_a_stream_that_was_restored() -> None:
    found = ask(stream(), consumer(delivered=SequenceInfo(20, 20, LONG_AGO), num_pending=0))
    assert (found.verdict, kinds(found)[0]) == (DeliveryVerdict.BLOCKED, "consumer_ahead")


def test_it_begins_later() -> None:
    nothing = {"num_pending": 0, "delivered": SequenceInfo(0, 99)}
    at = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 100}
    assert kinds(ask(stream(), consumer(at, **nothing))) == ["starts_later", "caught_up"]
    then = {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": Time(NOW + SECOND)}
    assert kinds(ask(stream(), consumer(then, **nothing))) == ["starts_later", "caught_up"]


def test_the_origin_of_a_copy_is_lost() -> None:
    mirror = StreamSourceInfo(name="O", lag=0, active=-1, error=ErrorBody(404, 10059, "stream not found"))
    found = ask(stream(mirror=mirror), consumer(num_pending=0))
    assert kinds(found) == ["origin_lost", "caught_up"]


def test_it_has_delivered_everything() -> None:
    found = ask(stream(), consumer(num_pending=0))
    assert (found.verdict, kinds(found)) == (DeliveryVerdict.IDLE, ["caught_up"])


def test_the_most_serious_cause_comes_first() -> None:
    found = ask(
        stream(state__lost=LostStreamData([2], 1)),
        consumer(
            {"max_deliver": 2, "backoff": []}, num_waiting=0, num_ack_pending=1000, num_redelivered=1001
        ),
    )
    assert kinds(found) == ["max_ack_pending", "no_pulls", "stream_damaged", "max_deliver"]
