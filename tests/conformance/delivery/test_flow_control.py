"""Answers to requests keep a push consumer from sending too much, and can be acks at the same time."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.conformance.clients import eventually
from tests.kits.conformance.delivery import MILLISECOND, SECOND, Heard, Scene

KIB = 1024
SIZE = 100 * KIB  # of a message; the first window is 2 MiB, and a request goes out when half of it is used


def prepared(js: Scene, messages: int, **config: Any) -> None:
    js.stream()
    js.publish(*["a"] * messages, payload=b"x" * SIZE)
    js.listen("d")
    js.consumer(**{"deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND, **config})


def until(js: Scene, awaited: Callable[[Heard], bool]) -> Heard:
    """Note how many messages come before the status that is awaited, and that one.

    Others are passed over: how many heartbeats come meanwhile depends on how busy the machine is.
    """
    count = 0
    while not ((heard := js.hear("d")[0]).status and awaited(heard)):
        count += not heard.status
    js.note(f"{count} messages, then {heard}")
    return heard


def until_request(js: Scene) -> Heard:
    return until(js, lambda heard: heard.reply.startswith("$JS.FC.S.c."))


def until_heartbeat(js: Scene, last: int, *, stalled: bool) -> Heard:
    """Wait for a heartbeat that names the last delivery, and a request that was not answered or none."""
    return until(
        js,
        lambda heard: (
            heard.headers.get("Nats-Last-Consumer") == str(last)
            and ("Nats-Consumer-Stalled" in heard.headers) == stalled
        ),
    )


def test_a_request_comes_when_half_of_the_window_is_used(js: Scene) -> None:
    prepared(js, 12)
    until_request(js)
    until_heartbeat(js, 12, stalled=True)
    js.look()


def test_delivery_stalls_until_the_request_is_answered(js: Scene) -> None:
    prepared(js, 40)
    request = until_request(js)
    stalled = until_heartbeat(js, 21, stalled=True)
    assert stalled.headers["Nats-Consumer-Stalled"] == request.reply
    js.look()
    js.send(request.reply)
    second = until_request(js)
    assert second.reply != request.reply
    js.send(second.reply, b"any payload")
    until_heartbeat(js, 40, stalled=False)
    js.look()


def test_the_stalled_heartbeat_is_as_good_as_the_request(js: Scene) -> None:
    prepared(js, 40)
    until_request(js)
    stalled = until_heartbeat(js, 21, stalled=True)
    js.send(stalled.headers["Nats-Consumer-Stalled"])
    until_request(js)


def test_only_the_open_request_can_be_answered(js: Scene) -> None:
    prepared(js, 40)
    request = until_request(js)
    js.send("$JS.FC.S.c.none")
    js.send(request.reply)
    js.send(request.reply)
    second = until_request(js)
    until_heartbeat(js, 40, stalled=True)
    js.send(request.reply)
    until_heartbeat(js, 40, stalled=True)
    js.send(second.reply)
    until_heartbeat(js, 40, stalled=False)
    js.look()


def test_the_window_grows_with_every_answer(js: Scene) -> None:
    prepared(js, 120)
    for _ in range(3):
        js.send(until_request(js).reply)
    until_heartbeat(js, 120, stalled=False)
    js.look()


def test_small_messages_need_no_request(js: Scene) -> None:
    js.stream()
    js.publish(*"abc")
    js.listen("d")
    js.consumer(deliver_subject="d", flow_control=True, idle_heartbeat=100 * MILLISECOND)
    js.heard("d", 4)


def test_acks_are_needed_all_the_same(js: Scene) -> None:
    prepared(js, 12, ack_policy="explicit")
    request = until_request(js)
    js.send(request.reply)
    until_heartbeat(js, 12, stalled=False)
    js.look()


def test_a_new_listener_has_to_answer_too(js: Scene) -> None:
    prepared(js, 40)
    until_request(js)
    # All of the window, before nobody listens.
    eventually(lambda: js.ask("CONSUMER.INFO.S.c")["delivered"]["consumer_seq"] == 21, "21 deliveries")
    js.leave("d")
    js.until(push_bound=False)
    js.listen("d")
    stalled = until_heartbeat(js, 21, stalled=True)
    js.send(stalled.headers["Nats-Consumer-Stalled"])
    until_request(js)


# -- where the answer acknowledges ----------------------------------------------------------------


def by_answers(js: Scene, messages: int, **config: Any) -> None:
    js.stream()
    js.publish(*["a"] * messages)
    js.listen("d")
    js.consumer(ack_policy="flow_control", deliver_subject="d", **{"max_ack_pending": 100, **config})


def answer(js: Scene, request: Heard, consumer: int, stream: int) -> None:
    js.send(request.reply, headers=f"Nats-Last-Consumer: {consumer}\r\nNats-Last-Stream: {stream}")
    js.note(f"answered {consumer} {stream}")


def heard_after(js: Scene, request: Heard, count: int) -> Heard:
    """Wait for messages behind an answer; the last one.

    A heartbeat that the answer met on its way is passed over: it names the request.
    """
    found: list[Heard] = []
    while len(found) < count:
        found += [each for each in js.hear("d") if each.headers.get("Nats-Consumer-Stalled") != request.reply]
    js.note("heard on d:")
    for each in found:
        js.note(f"    {each}")
    return found[-1]


def test_a_heartbeat_asks_for_acks(js: Scene) -> None:
    by_answers(js, 3)
    request = js.heard("d", 5)[-1]
    js.look()
    answer(js, request, 2, 2)
    js.until(ack_floor=2)
    request = heard_after(js, request, 2)
    answer(js, request, 3, 3)
    js.until(ack_floor=3)
    heard_after(js, request, 1)


def test_a_full_consumer_asks_for_acks(js: Scene) -> None:
    by_answers(js, 5, max_ack_pending=2)
    request = js.heard("d", 3)[-1]
    js.look()
    answer(js, request, 2, 2)
    request = heard_after(js, request, 3)
    js.look()
    answer(js, request, 4, 4)
    heard_after(js, request, 1)
    js.look()


@pytest.mark.parametrize(
    "headers", ["", "Nats-Last-Consumer: 2", "Nats-Last-Stream: x\r\nNats-Last-Consumer: 2"]
)
def test_answers_that_acknowledge_nothing(js: Scene, headers: str) -> None:
    by_answers(js, 5, max_ack_pending=2)
    request = js.heard("d", 3)[-1]
    js.send(request.reply, headers=headers)
    js.look()


def test_nobody_takes_acks_where_answers_are_the_acks(js: Scene) -> None:
    by_answers(js, 2, max_ack_pending=2)
    first = js.heard("d", 3)[0]
    js.say(first)
    js.look()
