"""Delivery to a subject: who gets it, when it starts and stops, heartbeats, rate and pace."""

import time
from collections.abc import Callable

import pytest

from tests.kits.conformance.delivery import MILLISECOND, SECOND, Scene
from tests.kits.reference import ServerProcess


def test_delivery_starts_when_somebody_listens(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.consumer(deliver_subject="d")
    js.look()
    js.listen("d")
    js.heard("d", 2)
    js.look()


def test_delivery_stops_when_nobody_listens_and_goes_on_later(js: Scene) -> None:
    js.stream()
    js.listen("d")
    js.consumer(deliver_subject="d")
    js.publish("a")
    js.heard("d")
    js.leave("d")
    js.until(push_bound=False)
    js.publish("b", "c")
    js.until(num_pending=2)
    js.listen("d", name="again")
    js.heard("again", 2)
    js.look()


def test_what_was_not_acknowledged_comes_again_to_the_next_listener(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.listen("d")
    js.consumer(deliver_subject="d", ack_policy="explicit", ack_wait=2 * SECOND)
    first, _ = js.heard("d", 2)
    js.leave("d")
    js.until(push_bound=False)
    js.say(first)
    js.listen("d", name="again")
    js.heard("again")
    js.look()


def test_a_client_that_leaves_is_missed(
    js: Scene, open_scene: Callable[..., Scene], place: tuple[ServerProcess, str], scenes: list[Scene]
) -> None:
    js.stream()
    js.consumer(deliver_subject="d")
    other = open_scene(*place)
    other.listen("d")
    js.until(push_bound=True)
    other.wire.close()
    scenes.remove(other)
    js.until(push_bound=False)
    js.publish("a")
    js.until(num_pending=1)
    js.listen("d")
    js.heard("d")


def test_who_listens_to_a_pattern_does_not_count(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.listen("d.>", name="all")
    js.listen("d.*", name="some")
    js.consumer(deliver_subject="d.here")
    js.look()
    js.listen("d.here")
    js.heard("d.here")
    js.heard("all")
    js.heard("some")
    js.look()
    js.leave("d.here")
    js.until(push_bound=False)


def test_everybody_gets_everything(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.listen("d")
    js.listen("d", name="other")
    js.consumer(deliver_subject="d")
    js.heard("d", 2)
    js.heard("other", 2)
    js.look()


def test_a_queue_does_not_count_without_a_group(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.listen("d", "q", name="queue")
    js.consumer(deliver_subject="d")
    js.look()
    js.listen("d")
    js.heard("d", 2)
    js.heard("queue", 2)
    js.look()


def test_a_group_member_that_listens_to_a_pattern_does_not_count(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.listen("d.*", "q", name="pattern")
    js.consumer(deliver_subject="d.here", deliver_group="q")
    js.look()
    js.listen("d.here", "q")
    js.until(push_bound=True, delivered=1)


def test_a_group_gets_each_message_once(js: Scene) -> None:
    js.stream()
    js.publish(*"abcdefgh")
    js.listen("d", "q", name="one")
    js.listen("d", "q", name="two")
    js.consumer(deliver_subject="d", deliver_group="q", ack_policy="explicit")
    js.until(delivered=8)
    js.sync()
    assert js.take("one") + js.take("two") == 8


def test_who_is_not_of_the_group_does_not_count(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.listen("d", name="plain")
    js.listen("d", "other")
    js.consumer(deliver_subject="d", deliver_group="q")
    js.look()
    js.listen("d", "q", name="member")
    js.heard("member")
    js.heard("plain")
    js.look()
    js.leave("member")
    js.until(push_bound=False)


def test_a_group_that_comes_and_goes(js: Scene) -> None:
    js.stream()
    js.consumer(deliver_subject="d", deliver_group="q")
    js.listen("d", "q", name="one")
    js.listen("d", "q", name="two")
    js.until(push_bound=True)
    js.leave("one")
    js.publish("a")
    js.heard("two")
    js.look()
    js.leave("two")
    js.until(push_bound=False)


def test_messages_keep_coming_as_they_are_published(js: Scene) -> None:
    js.stream()
    js.listen("d")
    js.consumer(deliver_subject="d", filter_subject="s.a", ack_policy="explicit")
    found = []
    for subject in "abba":
        js.publish(subject)
        if subject == "a":
            found += js.hear("d")
    js.note("heard on d:")
    for each in found:
        js.note(f"    {each}")
    js.look()


@pytest.mark.parametrize("acks", ["none", "explicit"])
def test_heartbeats_while_there_is_nothing_to_deliver(js: Scene, acks: str) -> None:
    js.stream()
    js.publish("a", "b", "c")
    js.listen("d")
    began = time.monotonic()
    js.consumer(
        deliver_subject="d", filter_subjects=["s.a", "s.b"], idle_heartbeat=SECOND // 4, ack_policy=acks
    )
    js.heard("d", 4)
    assert time.monotonic() - began >= 0.5
    js.publish("a")
    js.messages("d")
    js.heard("d")
    assert time.monotonic() - began >= 0.75
    js.look()


def test_heartbeats_of_a_consumer_that_has_nothing_yet(js: Scene) -> None:
    js.stream(first_seq=10)
    js.listen("d")
    js.consumer(deliver_subject="d", idle_heartbeat=100 * MILLISECOND)
    js.heard("d", 2)


def test_heartbeats_go_on_while_paused(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.listen("d")
    js.consumer(deliver_subject="d", idle_heartbeat=100 * MILLISECOND, pause_until="2100-01-01T00:00:00Z")
    js.heard("d", 2)
    js.look()


def test_heartbeats_while_acks_are_missing(js: Scene) -> None:
    js.stream()
    js.publish("a", "b", "c")
    js.listen("d")
    js.consumer(
        deliver_subject="d", idle_heartbeat=200 * MILLISECOND, ack_policy="explicit", max_ack_pending=2
    )
    js.heard("d", 4)
    js.look()


def test_heartbeats_need_a_listener(js: Scene) -> None:
    js.stream()
    js.listen("d")
    js.consumer(deliver_subject="d", idle_heartbeat=100 * MILLISECOND)
    js.heard("d", 1)
    js.leave("d")
    js.until(push_bound=False)
    js.listen("d", name="again")
    js.heard("again", 1)


def test_a_rate_keeps_the_order_and_the_bound(js: Scene) -> None:
    js.stream(max_msg_size=2000)
    js.publish(*"abcdefgh", payload=b"x" * 1000)
    js.listen("d")
    began = time.monotonic()
    js.consumer(deliver_subject="d", rate_limit_bps=8 * 10_000)
    js.heard("d", 8)
    # Some 8,300 bytes, of which 2,000 go at once, at 10,000 bytes a second.
    assert time.monotonic() - began >= 0.6
    js.look()


def test_the_rate_can_be_lifted(js: Scene) -> None:
    js.stream(max_msg_size=2000)
    js.publish(*"abcdef", payload=b"x" * 1000)
    js.listen("d")
    js.consumer(deliver_subject="d", rate_limit_bps=8 * 2000)
    js.heard("d", 1)
    js.ask(
        "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"durable_name": "c", "deliver_subject": "d"}}
    )
    js.heard("d", 5)


def test_the_original_pace(js: Scene) -> None:
    js.stream()
    js.publish("a", "a")
    js.wait_a_moment(0.3)
    js.publish("a", "b")
    js.wait_a_moment(0.2)
    js.publish("a")
    js.listen("d")
    began = time.monotonic()
    js.consumer(deliver_subject="d", replay_policy="original", filter_subject="s.a")
    js.heard("d", 2)
    js.heard("d", 1)
    assert time.monotonic() - began >= 0.29
    js.heard("d", 1)
    assert time.monotonic() - began >= 0.49
    js.wait_a_moment(0.3)
    js.publish("a")
    js.heard("d")
    js.look()


def test_delivering_into_the_stream_itself_is_refused(js: Scene) -> None:
    js.stream()
    for subject in ("s.x", "s.x.y", "other.x", "s"):
        js.ephemeral("c", deliver_subject=subject)


def test_delivery_to_another_subject(js: Scene) -> None:
    js.stream()
    js.publish("a", "b", "c")
    js.listen("d")
    js.consumer(deliver_subject="d", ack_policy="explicit")
    js.say(js.heard("d", 3)[1])
    js.consumer(deliver_subject="e", ack_policy="explicit")
    js.leave("d")
    js.until(push_bound=False)
    js.consumer(deliver_subject="e", ack_policy="explicit")
    js.listen("e")
    js.heard("e", 2)
    js.look()


def test_delivery_to_another_group(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.listen("d", "q", name="old")
    js.consumer(deliver_subject="d", deliver_group="q")
    js.heard("old")
    js.listen("d", "r", name="new")
    js.consumer(deliver_subject="d", deliver_group="r")
    js.publish("b")
    js.heard("new")
    js.look()


def test_a_filter_can_change_while_messages_are_pending(js: Scene) -> None:
    js.stream()
    js.publish("a", "b", "a", "b", "c", "a")
    js.consumer(filter_subject="s.a", ack_policy="explicit")
    first, second = js.pull(2)
    js.consumer(filter_subjects=["s.b", "s.c"], ack_policy="explicit")
    js.pull(2)
    js.say(first)
    js.look()
    js.say(second, "-NAK")
    js.events()
    js.pull(1)
    js.consumer(ack_policy="explicit")
    js.drain()
    js.look()


def test_a_filter_of_a_push_consumer_can_change(js: Scene) -> None:
    js.stream()
    js.listen("d")
    js.consumer(filter_subject="s.a", deliver_subject="d")
    js.publish("b", "a")
    js.heard("d")
    js.consumer(filter_subject="s.b", deliver_subject="d")
    js.publish("a", "b")
    js.heard("d")
    js.look()


def test_headers_can_be_asked_for_later(js: Scene) -> None:
    js.stream()
    js.listen("d")
    js.consumer(deliver_subject="d")
    js.publish("a")
    js.heard("d")
    js.consumer(deliver_subject="d", headers_only=True)
    js.publish("a")
    js.heard("d")


def test_pause_and_resume(js: Scene) -> None:
    js.stream()
    js.listen("d")
    js.consumer(deliver_subject="d", idle_heartbeat=100 * MILLISECOND)  # nats-server looks only when it beats
    js.publish("a")
    js.messages("d")
    js.api("CONSUMER.PAUSE.S.c", {"pause_until": "2100-01-01T00:00:00Z"})
    js.events()
    js.publish("b")
    js.until(num_pending=1)
    js.api("CONSUMER.PAUSE.S.c")
    js.events()
    js.messages("d")
    js.look()


def test_acks_count_while_paused(js: Scene) -> None:
    js.stream()
    js.publish("a", "b", "c")
    js.consumer(ack_policy="explicit")
    first, second = js.pull(2)
    js.api("CONSUMER.PAUSE.S.c", {"pause_until": "2100-01-01T00:00:00Z"})
    js.events()
    js.say(first)
    js.look()
    js.say(second, "-NAK")
    js.events()
    js.look()
    js.api("CONSUMER.PAUSE.S.c")
    js.events()
    js.pull(2)
    js.look()


def test_resuming_by_itself(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.consumer()
    js.listen("p")
    until = time.time_ns() + SECOND
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(until // SECOND)) + f".{until % SECOND:09}Z"
    js.api("CONSUMER.PAUSE.S.c", {"pause_until": text})
    js.events()
    js.ask_for("p")
    js.heard("p")
    assert time.time_ns() >= until
    js.events()
    js.look()


def test_consumers_that_nobody_uses_go(js: Scene) -> None:
    js.stream()
    js.consumer("push", deliver_subject="d", inactive_threshold=SECOND // 10)
    js.events()
    js.consumer("pull", inactive_threshold=SECOND // 10)
    js.events()
    js.listen("e")
    js.ephemeral("used", deliver_subject="e", inactive_threshold=SECOND // 10)
    js.consumer("other", deliver_subject="d", inactive_threshold=SECOND // 10)
    js.events()
    js.look("used")
    js.leave("e")
    js.events()


def test_a_waiting_request_keeps_a_consumer(js: Scene) -> None:
    js.stream()
    js.listen("p")
    js.ephemeral(inactive_threshold=SECOND)
    js.ask_for("p", expires=3 * SECOND)
    js.consumer("other", inactive_threshold=SECOND)
    js.events()
    js.look()
    js.heard("p")
    js.events()


def test_a_deleted_consumer_tells_those_who_wait(js: Scene) -> None:
    js.stream()
    js.consumer()
    js.listen("p")
    js.ask_for("p")
    js.until(num_waiting=1)
    js.api("CONSUMER.DELETE.S.c")
    js.heard("p")
    js.events()


def test_a_deleted_stream_tells_those_who_wait(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.consumer(ack_policy="explicit")
    js.consumer("push", deliver_subject="d")
    js.pull(1)
    js.listen("p")
    js.ask_for("p")
    js.until(num_waiting=1)
    js.api("STREAM.DELETE.S")
    js.heard("p")
    js.events(2, in_order=False)


@pytest.mark.parametrize("body", [None, {"seq": 2}, {"seq": 4}, {"seq": 9}])
def test_reset(js: Scene, body: dict[str, int] | None) -> None:
    js.stream()
    js.publish("a", "b", "a", "b", "a")
    js.consumer(ack_policy="explicit", ack_wait=30 * SECOND)
    first, second, third = js.pull(3)
    js.say(first)
    js.say(third)
    js.say(second, "-NAK")
    js.events()
    js.api("CONSUMER.RESET.S.c", body)
    js.look()
    js.drain()
    js.look()
    js.say(second)
    js.look()


def test_reset_of_a_push_consumer(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.listen("d")
    js.consumer(deliver_subject="d")
    js.heard("d", 2)
    js.api("CONSUMER.RESET.S.c", {"seq": 1})
    js.heard("d", 2)
    js.look()
