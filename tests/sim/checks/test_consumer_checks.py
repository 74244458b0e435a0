"""The checks of consumers on histories written by hand: each breaks one promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.sim.checks.checker import check
from tests.sim.consumer_history import Beat, Change, Life, Pull
from tests.sim.history import AckSent, ConsumerLook, Delivery, Final, History, Publish, Stored
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Plan

CONFIG: dict[str, Any] = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 3 * SECOND_NS}
PUSH = {"deliver_subject": "push.c"}
PATH = "Q.c"


class Scene:
    """A calm history of stream Q, which has messages 1, 2, … with the same numbers, stored at 1, 2, … s."""

    def __init__(self, messages: int = 1, **config: Any) -> None:
        self.config = CONFIG | config
        self.history = History()
        self.wide = self.history.wide
        self.wide.calm, self.wide.ended = True, 100.0
        self.life = Life("Q", "c", self.config, 0.1, 0.2)
        self.wide.lives.append(self.life)
        content = []
        for seq in range(1, messages + 1):
            answer = {"stream": "Q", "seq": seq}
            subject = f"q.{seq % 2}"
            sent = Publish(seq, "p", "Q", subject, float(seq), 1, size=0, answer=answer)
            sent.answered_at = seq + 0.01
            self.history.publishes.append(sent)
            content.append(Stored(seq, subject, seq, f"2023-11-14T22:13:{seq:02}Z", {}))
        state = {"messages": messages, "first_seq": 1, "last_seq": messages, "num_deleted": 0}
        self.history.final["Q"] = Final(content, state)
        self.end = self.look(99.0)
        self.dseq = 0

    def gets(self, at: float, seq: int, count: int = 1, **more: Any) -> Delivery:
        self.dseq += 1
        found = Delivery(at, "r", 1, "Q", "c", seq, self.dseq, count, seq, f"q.{seq % 2}")
        found = replace(found, size=len(f"{seq} "), pending=0)
        found = replace(found, **more)
        self.history.deliveries.append(found)
        return found

    def says(self, at: float, seq: int, kind: str = "+ACK", delay_s: float = 0.0) -> None:
        confirmed = at + 0.01 if kind == "+ACK" else None
        self.history.acks.append(AckSent(at, "r", 1, "Q", "c", seq, kind, confirmed, delay_s))

    def pulls(self, at: float, batch: int = 1, expires: float = 5.0, **more: Any) -> Pull:
        pull = Pull(PATH, at, 1, batch, expires, **more)
        self.wide.pulls.append(pull)
        return pull

    def look(self, at: float, **info: Any) -> ConsumerLook:
        told: dict[str, Any] = {
            "config": self.config,
            "delivered": {"consumer_seq": 0, "stream_seq": 0},
            "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
            "num_pending": 0,
            "num_ack_pending": 0,
            "num_redelivered": 0,
            "num_waiting": 0,
        }
        found = ConsumerLook(at, "Q", "c", info if "error" in info else told | info, at - 0.01, 1)
        self.wide.looks.append(found)
        return found

    def found(self) -> str:
        """Return what the checker finds, without what it says of the info in the end."""
        self.wide.looks.remove(self.end)
        push = "deliver_subject" in self.config
        consumer = ConsumerPlan("Q", "c", self.config, push, wide=True, left=True)
        plan = Plan(0, {"Q": {"subjects": ["q.>"]}}, (consumer,), (), (), (), False)
        return "\n".join(check(plan, self.history))


def test_a_history_that_keeps_its_promises() -> None:
    scene = Scene(2, **PUSH)
    scene.gets(1.1, 1)
    scene.gets(2.1, 2)
    scene.says(2.2, 1)
    scene.says(2.3, 2, "-NAK", 2.0)
    scene.gets(4.4, 2, 2)
    scene.says(4.5, 2)
    both = {"consumer_seq": 3, "stream_seq": 2}
    scene.look(5.0, delivered=both, ack_floor=both)
    assert scene.found() == ""


# -- time -----------------------------------------------------------------------------------------


def test_a_message_is_delivered_soon() -> None:
    scene = Scene(1, **PUSH)
    assert "1 was there at 1.010, and is not delivered at 2.010" in scene.found()
    scene = Scene(1)
    assert scene.found() == ""  # nobody asks for it
    scene = Scene(1)
    pull = scene.pulls(0.5)
    pull.ended, pull.status = 5.5, "408 Request Timeout"
    assert "1 was there at 1.010, and is not delivered at 2.010" in scene.found()
    scene = Scene(1, **PUSH)
    scene.wide.disturb(0.9, 200.0)
    assert scene.found() == ""


@pytest.mark.parametrize(("said", "again"), [((), 2.5), (("-NAK", 2.0), 3.0), (("+WPI", 0.0), 4.5)])
def test_a_message_is_not_delivered_again_too_early(said: tuple[Any, ...], again: float) -> None:
    scene = Scene(1, **PUSH)
    scene.gets(1.1, 1)
    if said:
        scene.says(2.0, 1, *said)
    scene.gets(again, 1, 2)
    scene.says(again + 0.1, 1)
    assert f"1 is delivered again at {again:.3f}" in scene.found()


@pytest.mark.parametrize(("said", "due"), [((), 4.1), (("-NAK", 0.0), 2.0), (("-NAK", 1.5), 3.5)])
def test_a_message_is_delivered_again_in_time(said: tuple[Any, ...], due: float) -> None:
    scene = Scene(1, **PUSH)
    scene.gets(1.1, 1)
    if said:
        scene.says(2.0, 1, *said)
    scene.gets(due + 5.0, 1, 2)
    scene.says(due + 5.1, 1)
    assert f"1, delivered at 1.100, is due at {due:.3f}" in scene.found()


def test_each_redelivery_has_its_own_wait() -> None:
    scene = Scene(1, **PUSH, backoff=[SECOND_NS * 2, SECOND_NS * 8])
    scene.gets(1.1, 1)
    scene.gets(3.2, 1, 2)
    scene.gets(5.3, 1, 3)
    scene.says(5.4, 1)
    found = scene.found()
    assert "1 is delivered again at 5.300" in found
    assert "1 is delivered again at 3.200" not in found


def test_nothing_is_delivered_in_a_pause() -> None:
    scene = Scene(1, **PUSH)
    scene.life.pauses.append(Change(0.3, {}, until=8.0, confirmed=0.4))
    scene.gets(1.1, 1)
    scene.says(1.2, 1)
    assert "it is paused until 8" in scene.found()


def test_heartbeats_show_that_a_consumer_is_alive() -> None:
    scene = Scene(0, **PUSH, idle_heartbeat=2 * SECOND_NS)
    scene.wide.beats += [Beat(PATH, at) for at in (2.2, 4.2)]
    scene.look(9.0)
    assert "there is no heartbeat between 4.200 and 8.990" in scene.found()


# -- deliveries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"subject": "q.7"}, "is delivered as q.7"),
        ({"size": 9}, "with 9 bytes of 2"),
        ({"dseq": 2}, "delivery 1 at 1.100 has the number 2"),
        ({"count": 2}, "for the first time with count 2"),
        ({"pending": 4}, "tells of 4 more, not 0 to 0"),
        ({"uid": 9}, "and nobody sent that"),
    ],
)
def test_a_delivery_tells_what_was_published(more: dict[str, Any], words: str) -> None:
    scene = Scene(1, **PUSH)
    scene.gets(1.1, 1, **more)
    scene.says(1.2, 1)
    assert words in scene.found()


def test_only_headers_are_delivered_with_the_size() -> None:
    scene = Scene(1, **PUSH, headers_only=True)
    scene.gets(1.1, 1, size=0, headers={"Nats-Msg-Size": "2"})
    scene.says(1.2, 1)
    assert scene.found() == ""
    scene = Scene(1, **PUSH, headers_only=True)
    scene.gets(1.1, 1)
    assert "only headers are wanted" in scene.found()


@pytest.mark.parametrize(
    ("config", "seq"),
    [
        ({"filter_subjects": ["q.0"]}, 1),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 2}, 1),
        ({"deliver_policy": "by_start_time", "opt_start_time": "2023-11-14T22:13:21.5Z"}, 1),
        ({"deliver_policy": "new"}, 2),
        ({"deliver_policy": "last"}, 2),
        ({"deliver_policy": "last_per_subject"}, 1),
    ],
)
def test_a_consumer_begins_where_it_should(config: dict[str, Any], seq: int) -> None:
    """It is created at 3.5 s, when the third message is the last one."""
    scene = Scene(3, **config)
    scene.life.asked, scene.life.created = 3.4, 3.5
    scene.gets(4.0, seq, pending=2)
    scene.says(4.1, seq)
    assert f"{seq} is delivered, and the consumer begins behind it or has other subjects" in scene.found()


def test_first_deliveries_are_in_order() -> None:
    scene = Scene(2, **PUSH)
    scene.gets(2.1, 2)
    scene.gets(2.2, 1)
    scene.says(2.3, 1)
    scene.says(2.3, 2)
    assert "1 is delivered for the first time at 2.200, after 2" in scene.found()


def test_no_more_messages_wait_for_acks_than_may() -> None:
    scene = Scene(2, **PUSH, max_ack_pending=1)
    scene.gets(1.1, 1)
    scene.gets(2.1, 2)
    scene.says(2.2, 1)
    scene.says(2.2, 2)
    assert "2 messages wait for acks at 2.100, and 1 may" in scene.found()


def test_the_number_of_deliveries_survives_a_restart() -> None:
    scene = Scene(1, **PUSH)
    scene.gets(1.1, 1)
    scene.gets(4.2, 1, 2)
    scene.wide.disturb(15.0, 100.0)
    scene.gets(20.0, 1, 1)
    scene.says(20.1, 1)
    assert "1 is delivered at 20.000 for time 1, after 2" in scene.found()


# -- pull requests --------------------------------------------------------------------------------


def test_a_request_gets_what_it_asked_for_and_ends_in_time() -> None:
    scene = Scene(0)
    pull = scene.pulls(1.0, got=[1.1, 1.2], expires=2.0)
    assert "got 2 messages" in scene.found()
    scene = Scene(0)
    pull = scene.pulls(1.0, expires=2.0)
    pull.ended, pull.status = 2.0, "408 Request Timeout"
    assert "timed out at 2.000, before 3.000" in scene.found()
    scene = Scene(0)
    scene.pulls(1.0, expires=2.0)
    assert "has no end at 4.000" in scene.found()
    scene = Scene(0)
    pull = scene.pulls(1.0, expires=8.0, heartbeat=1.0)
    pull.beats, pull.ended, pull.status = [2.0, 3.0], 9.0, "408 Request Timeout"
    assert "has no heartbeat between 3.000 and 9.000" in scene.found()


def test_a_request_that_does_not_wait_ends_without_messages_only_if_there_are_none() -> None:
    scene = Scene(1)
    pull = scene.pulls(3.0, expires=0.0, no_wait=True)
    pull.ended, pull.status = 3.1, "404 No Messages"
    assert "ends without 1" in scene.found()


def test_no_more_requests_wait_than_may() -> None:
    scene = Scene(0, max_waiting=1)
    for at in (1.0, 1.1):
        pull = scene.pulls(at, expires=5.0)
        pull.ended, pull.status = at + 5.0, "408 Request Timeout"
    assert "2 requests wait at 2.100, and 1 may" in scene.found()


# -- info -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"delivered": {"consumer_seq": 3, "stream_seq": 2}}, "2 to 2 deliveries came"),
        ({"delivered": {"consumer_seq": 2, "stream_seq": 3}}, "2 to 2 was delivered"),
        ({"num_pending": 1}, "1 messages are pending at 4.000, not 0 to 0"),
        ({"num_ack_pending": 0}, "0 wait for acks at 4.000, not 1 to 1"),
        ({"num_redelivered": 1}, "1 are redelivered at 4.000, not 0 to 0"),
        ({"ack_floor": {"consumer_seq": 0, "stream_seq": 0}}, "everything up to 1 is settled"),
        ({"ack_floor": {"consumer_seq": 2, "stream_seq": 2}}, "2 is not settled"),
        ({"num_waiting": 1}, "1 requests wait at 4.000, not 0 to 0"),
        ({"config": CONFIG | {"ack_wait": 1}}, "the configuration at 4.000 is"),
        ({"error": {"err_code": 10014}}, "it is gone at 4.000"),
    ],
)
def test_an_info_has_the_numbers_of_the_history(info: dict[str, Any], words: str) -> None:
    scene = Scene(2)
    for seq in (1, 2):
        pull = scene.pulls(seq + 0.5, got=[seq + 0.6])
        pull.ended = seq + 0.6
        scene.gets(seq + 0.6, seq, pull=pull)
    scene.says(2.7, 1)
    right = {
        "delivered": {"consumer_seq": 2, "stream_seq": 2},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
        "num_ack_pending": 1,
    }
    scene.look(3.9, **right)
    assert not words or "at 3.900" not in scene.found()
    scene.wide.looks.append(scene.end)
    scene.look(4.0, **(right | info))
    assert words in scene.found()


def test_a_deleted_consumer_stays_deleted() -> None:
    scene = Scene(1, **PUSH)
    scene.life.removing, scene.life.removed = 0.5, 0.6
    scene.look(4.0)
    scene.gets(5.0, 1)
    found = scene.found()
    assert "it was deleted at 0.600 and is there at 4.000" in found
    assert "1 is delivered at 5.000, and it was deleted" in found


def test_an_unused_consumer_goes_and_a_used_one_stays() -> None:
    scene = Scene(0, inactive_threshold=4 * SECOND_NS)
    scene.pulls(3.0, expires=1.0, ended=4.0, status="408")
    scene.look(6.0, error={"err_code": 10014})
    scene.look(30.0)
    found = scene.found()
    assert "it is gone at 6.000, and was used at 4.000" in found
    assert "it is there at 30.000, and was last used at 4.000" in found


def test_an_overflow_is_served_only_if_so_much_is_pending() -> None:
    scene = Scene(1, priority_policy="overflow")
    pull = scene.pulls(1.5, got=[1.6], ended=1.6, least=3)
    scene.gets(1.6, 1, pull=pull)
    assert "1 comes with 0 more, and 3 must be pending" in scene.found()


def test_only_the_pinned_client_is_served() -> None:
    scene = Scene(2, priority_policy="pinned_client", priority_timeout=8 * SECOND_NS)
    for seq, pin in ((1, "a"), (2, "b")):
        pull = scene.pulls(seq + 0.5, got=[seq + 0.6], ended=seq + 0.6)
        scene.gets(seq + 0.6, seq, pull=pull, headers={"Nats-Pin-Id": pin})
    assert "2 goes to b at 2.600, and a asked at 1.500" in scene.found()


def test_the_original_pace_is_kept() -> None:
    scene = Scene(3, replay_policy="original")
    scene.life.asked, scene.life.created = 10.0, 10.1
    scene.gets(10.2, 1, stamp_ns=0)
    scene.gets(10.3, 2, stamp_ns=3 * SECOND_NS)
    assert "2 comes 0.100 s after 1, not 3.000 s" in scene.found()


def test_a_message_stays_only_while_a_consumer_needs_it() -> None:
    scene = Scene(1)
    scene.gets(1.1, 1)
    scene.says(1.2, 1)
    consumer = ConsumerPlan("Q", "c", scene.config, wide=True, left=True)
    streams = {"Q": {"subjects": ["q.>"], "retention": "interest"}}
    plan = Plan(0, streams, (consumer,), (), (), (), False)
    assert "Q: 1 is there, and no consumer needs it" in "\n".join(check(plan, scene.history))
