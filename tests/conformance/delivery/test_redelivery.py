"""Redelivery: which messages, when, in which order and how often; and what is held back meanwhile."""

import time
from typing import Any

import pytest

from tests.kits.conformance.delivery import MILLISECOND, SECOND, Scene

SOON = 100 * MILLISECOND


def prepared(js: Scene, messages: int = 3, **config: Any) -> None:
    js.stream()
    js.publish(*["a"] * messages)
    js.consumer(**{"ack_policy": "explicit", "ack_wait": SOON, **config})


def change(js: Scene, **config: Any) -> None:
    """Configure the consumer anew; that is not written down."""
    config = {"durable_name": "c", "ack_policy": "explicit", **config}
    js.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


def await_the_end(js: Scene) -> None:
    """Pull, since nats-server gives up more than one delivery only when it tries another one."""
    js.listen("p")
    js.ask_for("p", 1)


@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_what_is_not_acknowledged_in_time_comes_again_in_order(js: Scene, policy: str) -> None:
    prepared(js, 4, ack_policy=policy, ack_wait=SECOND // 4)
    began = time.monotonic()
    messages = js.pull(4)
    js.say(messages[1])
    again = js.pull(3 if policy == "explicit" else 2)
    assert time.monotonic() - began >= 0.25
    js.look()
    for message in again:
        js.say(message)
    js.look()


def test_the_first_delivery_can_still_be_acknowledged_after_the_second(js: Scene) -> None:
    prepared(js, 1)
    first = js.pull(1)[0]
    js.pull(1)
    js.say(first)
    js.look()


def test_what_comes_again_goes_before_what_is_new(js: Scene) -> None:
    prepared(js, 5, ack_wait=SECOND)
    js.pull(2)
    js.ask("CONSUMER.INFO.S.c")
    time_over = js.pull(3)
    assert [message.sseq for message in time_over] == [3, 4, 5]
    js.pull(5)
    js.look()


def test_each_delivery_waits_longer(js: Scene) -> None:
    prepared(js, 1, ack_wait=SECOND, backoff=[50 * MILLISECOND, 150 * MILLISECOND, 300 * MILLISECOND])
    began = time.monotonic()
    times = []
    for _ in range(5):
        js.pull(1)
        times.append(time.monotonic())
    for at, least in zip(times[1:], (0.05, 0.2, 0.5, 0.8), strict=True):
        assert at - began >= least - 0.01
    js.look()


def test_backoff_with_an_end(js: Scene) -> None:
    prepared(js, 2, backoff=[50 * MILLISECOND, 60 * MILLISECOND], max_deliver=3)
    js.pull(2)
    js.pull(2)
    js.pull(2)
    await_the_end(js)
    js.events(2, in_order=False)
    js.look(floor=False)


@pytest.mark.parametrize("policy", ["explicit", "all"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_last_delivery_is_announced_and_the_message_stays(js: Scene, policy: str, most: int) -> None:
    prepared(js, 1, max_deliver=most, ack_policy=policy)
    for _ in range(most):
        js.pull(1)
    await_the_end(js)
    js.events()
    js.look(floor=False)
    js.stored()
    change(js, ack_policy=policy, ack_wait=60 * SECOND, max_deliver=most)  # so that the look is in time
    js.publish("b")
    js.heard("p")
    js.look(floor=False)


@pytest.mark.parametrize("most", [1, 2])
def test_refusing_the_last_delivery_gives_a_message_up(js: Scene, most: int) -> None:
    prepared(js, 2, max_deliver=most, ack_wait=30 * SECOND)
    message = js.pull(1)[0]
    for _ in range(most - 1):
        js.tell(message, "-NAK")
        message = js.pull(1)[0]
    js.tell(message, "-NAK")
    js.pull(1)
    js.events(most + 1, in_order=False)
    js.look(floor=False)
    js.say(message)
    js.look(floor=False)


def test_what_was_given_up_can_still_be_acknowledged(js: Scene) -> None:
    prepared(js, 2, max_deliver=1)
    first, second = js.pull(2)
    js.events(2, in_order=False)
    js.look(floor=False)
    js.say(second)
    js.look(floor=False)
    js.say(first, "+TERM")
    js.events()
    js.look(floor=False)


def test_the_number_of_deliveries_can_be_raised(js: Scene) -> None:
    prepared(js, 2, max_deliver=1)
    js.pull(1)
    js.events()
    change(js, ack_wait=SOON, max_deliver=5)
    js.pull(1)
    js.look(floor=False)
    js.pull(1)
    js.look(floor=False)


def test_no_more_than_so_many_wait_for_acks(js: Scene) -> None:
    prepared(js, 5, max_ack_pending=2, ack_wait=30 * SECOND)
    js.listen("p")
    js.ask_for("p", 5)
    first, second = js.heard("p", 2)
    js.look()
    js.say(second)
    third = js.heard("p")[0]
    js.look()
    js.say(first)
    js.say(third)
    js.heard("p", 2)
    js.look()


def test_no_more_than_so_many_wait_for_acks_of_a_push_consumer(js: Scene) -> None:
    js.stream()
    js.publish(*"aaaaa")
    js.listen("d")
    js.consumer(ack_policy="explicit", deliver_subject="d", max_ack_pending=2)
    first, second = js.heard("d", 2)
    js.look()
    js.say(first, "+TERM")
    js.events()
    js.heard("d")
    js.say(second, "-NAK")
    js.events()
    js.heard("d")
    js.look()


def test_ack_all_opens_the_way_for_many(js: Scene) -> None:
    prepared(js, 6, max_ack_pending=3, ack_policy="all", ack_wait=30 * SECOND)
    js.listen("p")
    js.ask_for("p", 6)
    messages = js.heard("p", 3)
    js.say(messages[1])
    js.heard("p", 2)
    js.look()


def test_what_comes_again_is_not_held_back(js: Scene) -> None:
    prepared(js, 4, max_ack_pending=2)
    js.listen("p")
    js.ask_for("p", 6)
    js.heard("p", 4)
    js.heard("p", 2)
    js.look()


def test_the_bound_can_be_raised(js: Scene) -> None:
    prepared(js, 4, max_ack_pending=1, ack_wait=30 * SECOND)
    js.listen("p")
    js.ask_for("p", 4)
    js.heard("p")
    js.consumer(ack_policy="explicit", max_ack_pending=3, ack_wait=30 * SECOND)
    js.heard("p", 2)
    js.look()


def test_giving_up_opens_the_way(js: Scene) -> None:
    prepared(js, 3, max_ack_pending=1, max_deliver=1)
    js.listen("p")
    js.ask_for("p", 3)
    for _ in range(3):
        js.heard("p")
        js.events()
    js.look(floor=False)


def test_the_wait_can_be_shortened(js: Scene) -> None:
    prepared(js, 2, ack_wait=3600 * SECOND)
    js.pull(2)
    js.consumer(ack_policy="explicit", ack_wait=SOON)
    js.pull(1)
    js.look()


def test_a_pushed_message_comes_again(js: Scene) -> None:
    js.stream()
    js.publish("a", "b")
    js.listen("d")
    js.consumer(ack_policy="explicit", ack_wait=SOON, deliver_subject="d", max_deliver=2)
    js.heard("d", 4)
    js.events(2, in_order=False)
    js.look(floor=False)


def test_counts_of_deliveries_go_with_the_ack(js: Scene) -> None:
    prepared(js, 2)
    js.pull(2)
    again = js.pull(2)
    js.look()
    js.say(again[0])
    js.look()
    js.say(again[1])
    js.look()


def test_a_pull_that_waits_gets_what_comes_again(js: Scene) -> None:
    prepared(js, 1)
    js.listen("p")
    js.pull(1)
    js.ask_for("p", 1)
    js.heard("p")
    js.look()


def test_several_clients_share_what_comes_again(js: Scene) -> None:
    prepared(js, 4, ack_wait=SECOND)
    js.pull(4)
    js.listen("p")
    js.listen("q")
    js.ask_for("p", 2)
    js.ask_for("q", 2)
    js.heard("p", 2)
    js.heard("q", 2)


def test_terminated_messages_do_not_come_again(js: Scene) -> None:
    prepared(js, 3)
    first, second, _ = js.pull(3)
    js.say(first, "+TERM")
    js.say(second, "+TERM no use")
    js.events(2)
    js.pull(1)
    js.look()


def test_original_pace_of_a_pull_consumer(js: Scene) -> None:
    js.stream()
    js.publish("a")
    js.wait_a_moment(0.3)
    js.publish("a", "a")
    js.consumer(replay_policy="original")
    began = time.monotonic()
    js.pull(3)
    assert time.monotonic() - began >= 0.3
    js.publish("a")
    js.pull(1)
