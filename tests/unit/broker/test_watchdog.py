"""The watchdog counts steps, names the long ones and logs those that held everybody up."""

from __future__ import annotations

import gc
import logging
import threading
from functools import partial

import pytest

from millstream.broker import watchdog as module
from millstream.broker.watchdog import Watchdog
from tests.kits.broker import client, loop_of, make_broker


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def step(dog: Watchdog, hand: Hand, took: float, kind: str, what: object = None) -> None:
    began = dog.began()
    hand.now += took
    dog.ended(began, kind, what)


def test_steps_are_counted_by_how_long_they_took() -> None:
    hand = Hand()
    dog = Watchdog(hand)
    for took in (0.001, 0.004, 0.006, 0.025, 0.1):
        step(dog, hand, took, "connection read")
    assert (dog.steps, dog.counts) == (5, [3, 2, 1])
    assert dog.busy_s == pytest.approx(0.136)
    assert dog.long_steps["connection read"].longest_s == pytest.approx(0.1)
    assert dog.long_steps["connection read"].count == 3


def test_a_step_has_the_name_of_what_it_called() -> None:
    hand = Hand()
    dog = Watchdog(hand)
    step(dog, hand, 0.01, "timer", step)
    step(dog, hand, 0.01, "timer", partial(partial(dog.handled), "x"))
    step(dog, hand, 0.01, "turn", lambda: None)
    step(dog, hand, 0.01, "turn", hand)
    names = [
        "timer step",
        "timer Watchdog.handled",
        "turn test_a_step_has_the_name_of_what_it_called",
        "turn Hand",
    ]
    assert list(dog.long_steps) == names


def test_the_part_that_took_most_of_a_step_gives_it_its_name() -> None:
    hand = Hand()
    dog = Watchdog(hand)
    began = dog.began()
    for took, name in ((0.002, "api INFO"), (0.02, "api STREAM.PURGE"), (0.003, "api STREAM.NAMES")):
        part = dog.began()
        hand.now += took
        dog.part_ended(dog.since(part), name)
    dog.ended(began, "connection read")
    step(dog, hand, 0.008, "connection read")
    assert {name: round(each.longest_s, 6) for name, each in dog.long_steps.items()} == {
        "api STREAM.PURGE": 0.025,
        "connection read": 0.008,
    }


def test_a_step_that_held_everybody_up_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    hand = Hand()
    dog = Watchdog(hand)
    for _ in range(3):
        step(dog, hand, 0.06, "api STREAM.PURGE")
        step(dog, hand, 0.07, "http /jsz")
        step(dog, hand, 0.04, "http /connz")
    assert caplog.messages == [
        "api STREAM.PURGE held up all clients for 60 ms",
        "http /jsz held up all clients for 70 ms",
    ]
    hand.now += 61
    step(dog, hand, 0.06, "api STREAM.PURGE")
    assert caplog.messages[-1] == "api STREAM.PURGE held up all clients for 60 ms (and 2 times before)"
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_the_table_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_NAMES", 10)
    hand = Hand()
    dog = Watchdog(hand)
    for number in range(50):
        step(dog, hand, 0.006 + number / 10_000, f"step {number}")
        dog.handled(f"work {number}", number)
    assert len(dog.long_steps) == 10
    assert "step 49" in dog.long_steps
    assert len(dog.most_items) == 10


def test_the_most_items_of_a_slice_are_remembered() -> None:
    dog = Watchdog()
    for items in (3, 17, 5):
        dog.handled("api STREAM.INFO", items)
    assert dog.most_items == {"api STREAM.INFO": 17}


def test_a_pause_of_the_garbage_collector_has_a_name() -> None:
    hand = Hand()
    dog = Watchdog(hand)
    stop = dog.watch_collections()

    def slow(phase: str, info: dict[str, int]) -> None:
        hand.now += 0.02 if phase == "start" else 0.0

    gc.callbacks.append(slow)  # behind the watchdog's own
    try:
        began = dog.began()
        gc.collect()
        dog.ended(began, "connection read")
    finally:
        gc.callbacks.remove(slow)
        stop()
    assert list(dog.long_steps) == ["garbage collection"]
    gc.collect()
    assert dog.since(began) == pytest.approx(0.02)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_pause_between_two_steps_is_recorded_once(elsewhere: bool) -> None:
    hand = Hand()
    dog = Watchdog(hand)
    stop = dog.watch_collections()

    def slow(phase: str, info: dict[str, int]) -> None:
        hand.now += 0.02 if phase == "start" else 0.0

    gc.callbacks.append(slow)
    try:
        if elsewhere:
            thread = threading.Thread(target=gc.collect)
            thread.start()
            thread.join()
        else:
            gc.collect()
    finally:
        gc.callbacks.remove(slow)
        stop()
    for _ in range(2):
        step(dog, hand, 0.001, "read")
    name = "garbage collection of another thread" if elsewhere else "garbage collection"
    assert list(dog.long_steps) == [name]
    assert dog.long_steps[name].count == 1
    assert dog.long_steps[name].longest_s == pytest.approx(0.02)


@pytest.mark.parametrize("way", ["read", "made", "timer", "turn", "slice"])
def test_everything_that_the_loop_calls_is_a_step(way: str) -> None:
    broker = make_broker()
    one = client(broker)
    dog = broker.turns.watchdog
    before = dog.steps
    if way == "read":
        one.say(b"PING\r\nPING\r\n")
    elif way == "made":
        client(broker)
    elif way == "timer":
        broker.turns.later(0.1, print)
    elif way == "turn":
        broker.turns.soon(lambda: None)
    else:
        broker.turns.in_slices("work", (items for items in (3, 4)))
    loop_of(broker).advance(0.2)
    assert dog.steps > before
    if way == "slice":
        assert dog.most_items == {"work": 7}
