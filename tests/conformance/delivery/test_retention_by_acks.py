"""Work queues and interest: what leaves a stream when it is acknowledged, and what stays."""

from typing import Any

import pytest

from tests.kits.conformance.delivery import MILLISECOND, SECOND, Scene

LONG = 30 * SECOND


def queue(js: Scene, **config: Any) -> None:
    js.stream(retention="workqueue", **config)


def interest(js: Scene, **config: Any) -> None:
    js.stream(retention="interest", **config)


@pytest.mark.parametrize("payload", ["+ACK", "", "+TERM", "+NXT"])
def test_a_work_queue_drops_what_is_done(js: Scene, payload: str) -> None:
    queue(js)
    js.publish("a", "b", "c")
    js.consumer(ack_policy="explicit")
    messages = js.pull(3)
    js.stored()
    js.tell(messages[1], payload)
    if payload == "+TERM":
        js.events()
    js.until_stored(2)
    js.tell(messages[0], payload)
    if payload == "+TERM":
        js.events()
    js.until_stored(1)
    js.look()


def test_a_double_ack_is_answered_when_the_message_is_gone(js: Scene) -> None:
    queue(js)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit")
    for message in js.pull(2):
        js.say(message)
        js.stored()
        js.say(message)
    js.look()
    js.publish("c")
    js.pull(1)
    js.look()


def test_a_work_queue_keeps_what_is_refused(js: Scene) -> None:
    queue(js)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit")
    first = js.pull(1)[0]
    js.say(first, "-NAK")
    js.events()
    again = js.pull(1)[0]
    js.stored()
    js.say(again)
    js.stored()
    js.look()


def test_a_work_queue_keeps_what_was_given_up(js: Scene) -> None:
    queue(js)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit", max_deliver=1, ack_wait=100 * MILLISECOND)
    first = js.pull(1)[0]
    js.events()
    js.stored()
    js.look(floor=False)
    js.say(first)
    js.stored()
    js.look(floor=False)


def test_a_work_queue_keeps_what_nobody_asked_for(js: Scene) -> None:
    queue(js)
    js.publish("a", "b", "c")
    js.consumer("a", ack_policy="explicit", filter_subject="s.a")
    js.consumer("b", ack_policy="explicit", filter_subject="s.b")
    js.say(js.pull(1, "a")[0])
    js.stored()
    js.say(js.pull(1, "b")[0])
    js.stored()


def test_a_work_queue_outlives_its_consumers(js: Scene) -> None:
    queue(js)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit")
    js.say(js.pull(2)[0])
    js.api("CONSUMER.DELETE.S.c")
    js.events()
    js.stored()
    js.consumer("next", ack_policy="explicit")
    js.pull(1, "next")
    js.look("next")


def test_a_work_queue_without_consumers_keeps_everything(js: Scene) -> None:
    queue(js)
    js.publish("a", "b")
    js.stored()


def test_limits_of_a_work_queue(js: Scene) -> None:
    queue(js, max_msgs=2)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit")
    js.pull(2)
    js.publish("c")
    js.events()
    js.stored()
    js.until(num_ack_pending=1)
    js.pull(1)


def test_a_stream_by_interest_keeps_nothing_without_consumers(js: Scene) -> None:
    interest(js)
    js.publish("a")
    js.stored()
    js.consumer(ack_policy="explicit")
    js.publish("b")
    js.stored()
    js.drain()


def test_a_stream_by_interest_waits_for_all(js: Scene) -> None:
    interest(js)
    js.consumer("one", ack_policy="explicit")
    js.consumer("two", ack_policy="explicit")
    js.publish("a", "b")
    first, second = js.pull(2, "one")
    js.say(first)
    js.say(second)
    js.stored()
    first, second = js.pull(2, "two")
    js.say(second)
    js.stored()
    js.say(first)
    js.stored()


def test_a_stream_by_interest_waits_only_for_those_who_want_it(js: Scene) -> None:
    interest(js)
    js.consumer("a", ack_policy="explicit", filter_subject="s.a")
    js.consumer("ab", ack_policy="explicit", filter_subjects=["s.a", "s.b"])
    js.publish("a", "b", "c")
    js.stored()
    for message in js.pull(2, "ab"):
        js.say(message)
    js.stored()
    js.say(js.pull(1, "a")[0])
    js.stored()


def test_without_acks_delivery_is_enough(js: Scene) -> None:
    interest(js)
    js.consumer(ack_policy="none")
    js.consumer("d", ack_policy="none", deliver_subject="d")
    js.publish("a", "b")
    js.pull(1)
    js.stored()
    js.listen("d")
    js.heard("d", 2)
    js.until_stored(1)
    js.pull(1)
    js.until_stored(0)


def test_ack_all_releases_everything_before(js: Scene) -> None:
    interest(js)
    js.consumer(ack_policy="all")
    js.publish("a", "b", "c", "d")
    messages = js.pull(3)
    js.say(messages[1])
    js.until_stored(2)
    js.say(messages[2])
    js.until_stored(1)
    js.look()


def test_a_deleted_consumer_gives_back_what_only_it_wanted(js: Scene) -> None:
    interest(js)
    js.consumer("one", ack_policy="explicit")
    js.consumer("two", ack_policy="explicit", filter_subject="s.b")
    js.publish("a", "b", "c")
    js.pull(1, "one")
    js.api("CONSUMER.DELETE.S.one")
    js.events()
    js.until_stored(1)
    js.api("CONSUMER.DELETE.S.two")
    js.events()
    js.until_stored(0)


def test_another_filter_gives_back_what_is_not_wanted_any_more(js: Scene) -> None:
    interest(js)
    js.consumer("one", ack_policy="explicit")
    js.publish("a", "b", "c")
    js.consumer("one", ack_policy="explicit", filter_subject="s.b")
    js.until_stored(1)
    js.say(js.pull(1, "one")[0])
    js.until_stored(0)


def test_a_new_consumer_sees_what_is_left(js: Scene) -> None:
    interest(js)
    js.consumer("one", ack_policy="explicit")
    js.publish("a", "b", "c")
    js.say(js.pull(2, "one")[0])
    js.consumer("two", ack_policy="explicit")
    js.drain("two")
    js.look("two")


def test_a_stream_by_interest_keeps_what_was_given_up(js: Scene) -> None:
    interest(js)
    js.consumer(ack_policy="explicit", max_deliver=1, ack_wait=100 * MILLISECOND)
    js.consumer("two", ack_policy="explicit", ack_wait=LONG)
    js.publish("a")
    js.pull(1)
    js.events()
    js.say(js.pull(1, "two")[0])
    js.stored()
    js.api("CONSUMER.DELETE.S.c")
    js.events()


def test_a_consumer_that_starts_later_does_not_hold_back_what_is_older(js: Scene) -> None:
    interest(js)
    js.consumer("one", ack_policy="explicit")
    js.publish("a", "b")
    js.consumer("new", ack_policy="explicit", deliver_policy="new")
    js.publish("c")
    for message in js.pull(3, "one"):
        js.say(message)
    js.until_stored(1)
    js.say(js.pull(1, "new")[0])
    js.until_stored(0)


def test_terminating_counts_as_acknowledging(js: Scene) -> None:
    interest(js)
    js.consumer(ack_policy="explicit")
    js.publish("a", "b")
    first, _ = js.pull(2)
    js.say(first, "+TERM")
    js.events()
    js.until_stored(1)


# -- messages that go while they are pending ------------------------------------------------------


def pending(js: Scene, **config: Any) -> None:
    js.stream(**config)
    js.publish("a", "b", "a", "b")
    js.consumer(ack_policy="explicit", ack_wait=LONG)
    js.pull(3)


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_message_is_deleted(js: Scene, seq: int) -> None:
    pending(js)
    js.api("STREAM.MSG.DELETE.S", {"seq": seq})
    js.events()
    js.until(num_ack_pending=2)
    js.drain()
    js.look()


def test_a_message_is_deleted_that_was_delivered_twice(js: Scene) -> None:
    pending(js)
    js.tell("$JS.ACK.S.c.1.2.2.1700000000000000000.0", "-NAK")
    js.events()
    js.pull(1)
    js.api("STREAM.MSG.DELETE.S", {"seq": 2})
    js.events()
    js.until(num_ack_pending=2, num_redelivered=0)


def test_a_message_is_deleted_that_waits_to_go_out_again(js: Scene) -> None:
    pending(js)
    js.tell("$JS.ACK.S.c.1.2.2.1700000000000000000.0", "-NAK")
    js.events()
    js.api("STREAM.MSG.DELETE.S", {"seq": 2})
    js.events()
    js.drain()
    js.look()


def test_a_deleted_message_can_still_be_acknowledged(js: Scene) -> None:
    pending(js)
    js.api("STREAM.MSG.DELETE.S", {"seq": 2})
    js.events()
    js.until(num_ack_pending=2)
    js.say("$JS.ACK.S.c.1.2.2.1700000000000000000.0")
    js.look()


def test_the_stream_is_purged(js: Scene) -> None:
    pending(js)
    js.api("STREAM.PURGE.S")
    js.look()
    js.publish("a")
    js.await_pending(1)
    js.drain()
    js.look()


@pytest.mark.parametrize("seq", [2, 3, 4, 5])
def test_the_stream_is_purged_up_to_a_message(js: Scene, seq: int) -> None:
    pending(js)
    js.api("STREAM.PURGE.S", {"seq": seq})
    js.look()
    js.drain()
    js.look()


def test_the_stream_is_purged_but_for_some(js: Scene) -> None:
    pending(js)
    js.api("STREAM.PURGE.S", {"keep": 2})
    js.look()
    js.drain()
    js.look()


def test_a_consumer_of_a_subject_that_is_purged(js: Scene) -> None:
    js.stream()
    js.publish("a", "b", "a", "b", "a")
    js.consumer(ack_policy="explicit", ack_wait=LONG, filter_subject="s.a")
    js.consumer("b", ack_policy="explicit", ack_wait=LONG, filter_subject="s.b")
    js.pull(2)
    js.pull(1, "b")
    js.api("STREAM.PURGE.S", {"filter": "s.a"})
    js.look()
    js.look("b")
    js.publish("a")
    js.drain()
    js.drain("b")
    js.look()
    js.look("b")


def test_a_purge_opens_the_way(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.listen("p")
    js.consumer(ack_policy="explicit", max_ack_pending=2)
    js.ask_for("p", 3)
    js.heard("p", 2)
    js.api("STREAM.PURGE.S")
    js.publish("c")
    js.heard("p", 1)
    js.look()


def test_limits_remove_what_is_pending(js: Scene) -> None:
    pending(js, max_msgs=4)
    js.publish("a")
    js.events()
    js.until(num_ack_pending=2)
    js.publish("a", "a")
    js.events(2, in_order=False)
    js.until(num_ack_pending=0)
    js.drain()
    js.look()


def test_age_removes_what_is_pending(js: Scene) -> None:
    js.stream(max_age=2 * SECOND)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit", ack_wait=LONG)
    js.pull(2)
    js.events(2, in_order=False)
    js.until(num_ack_pending=0)


def test_a_newer_message_of_the_subject_removes_what_is_pending(js: Scene) -> None:
    js.stream(max_msgs_per_subject=1)
    js.publish("a", "b")
    js.consumer(ack_policy="explicit", ack_wait=LONG)
    js.pull(2)
    js.publish("a")
    js.events()
    js.until(num_ack_pending=1)
    js.drain()
