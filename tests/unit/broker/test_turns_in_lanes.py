"""Long work takes turns: one slice in a round of the loop, some work at a time, the rest in order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from millstream.base.lanes import Unwanted
from millstream.base.slices import MOST_ITEMS, Pieces
from millstream.broker.broker import Broker
from tests.kits.broker import client, loop_of, make_broker


class Desk:
    """Starts work that notes each of its slices."""

    def __init__(self, width: int = 2, most_waiting: int = 3) -> None:
        self.broker: Broker = make_broker()
        self.lane = self.broker.turns.lane(width=width, most_waiting=most_waiting)
        self.slices: list[str] = []
        self.ended: list[tuple[str, Any]] = []
        self.dropped: list[str] = []

    def begin(self, name: str, slices: int, wanted: Any = None) -> Any:
        def work() -> Generator[int, None, str]:
            try:
                for _ in range(slices):
                    self.slices.append(name)
                    yield MOST_ITEMS
            except GeneratorExit:
                self.dropped.append(name)
                raise
            return name.upper()

        def done(result: str | None, error: Exception | None) -> None:
            self.ended.append((name, error if error is not None else result))

        return self.lane.begin(name, work(), done, wanted)

    def run(self) -> None:
        loop_of(self.broker).run_ready()


def test_what_takes_one_slice_is_done_at_once_if_there_is_nothing_else() -> None:
    desk = Desk()
    desk.begin("short", 0)
    assert desk.ended == [("short", "SHORT")]
    assert len(desk.lane) == 0


def test_what_takes_one_slice_does_not_wait_for_the_end_of_what_is_long() -> None:
    desk = Desk(width=1, most_waiting=5)
    for name in "abc":
        desk.begin(name, 5)
    desk.begin("short", 0)
    desk.run()
    assert [name for name, _ in desk.ended] == ["short", "a", "b", "c"]


def test_nothing_but_the_first_begins_before_its_turn() -> None:
    desk = Desk(width=2, most_waiting=60)
    for number in range(50):
        desk.begin(f"w{number}", 2)
    assert desk.slices == ["w0"]
    assert len(desk.lane) == 50
    desk.run()
    assert [name for name, _ in desk.ended] == [f"w{number}" for number in range(50)]


def test_work_is_not_begun_without_number() -> None:
    desk = Desk(width=1, most_waiting=100)
    for number in range(100):
        desk.begin(f"w{number}", 1000)
    for _ in range(500):
        loop_of(desk.broker).run_one_round()
    assert len(set(desk.slices)) == 17
    assert len(desk.lane) == 100


def test_slices_of_different_work_alternate_and_the_others_wait() -> None:
    desk = Desk(width=2)
    for name in "abc":
        desk.begin(name, 3)
    assert desk.slices == ["a"]
    desk.run()
    assert desk.slices == ["a", "a", "b", "a", "b", "c", "b", "c", "c"]
    assert [name for name, _ in desk.ended] == ["a", "b", "c"]


def test_work_of_all_lanes_shares_the_rounds() -> None:
    desk, other = Desk(), Desk()
    other.lane = desk.broker.turns.lane(width=2, most_waiting=0)
    other.slices = desk.slices
    desk.begin("a", 3)
    other.begin("x", 3)
    desk.run()
    assert desk.slices == ["a", "x", "a", "x", "a", "x"]


def test_what_finds_no_place_is_refused() -> None:
    desk = Desk(width=1, most_waiting=1)
    assert desk.begin("a", 3) is not None
    assert desk.begin("b", 3) is not None
    assert desk.begin("c", 3) is None
    desk.run()
    assert "c" not in desk.slices
    assert [name for name, _ in desk.ended] == ["a", "b"]


@pytest.mark.parametrize("gone", ["a", "b"])
def test_work_that_is_dropped_makes_room(gone: str) -> None:
    desk = Desk(width=1, most_waiting=1)
    work = {name: desk.begin(name, 3) for name in "ab"}
    work[gone].drop()
    work[gone].drop()
    assert desk.begin("c", 3) is not None
    desk.run()
    assert [name for name, _ in desk.ended] == [name for name in "abc" if name != gone]


def test_work_that_nobody_wants_any_more_ends() -> None:
    desk = Desk(width=1)
    wanted = True
    desk.begin("a", 100, lambda: wanted)
    desk.begin("b", 3)
    wanted = False
    desk.run()
    (name, error), last = desk.ended
    assert (name, last) == ("a", ("b", "B"))
    assert isinstance(error, Unwanted)
    assert desk.slices.count("a") == 1


def test_work_that_raises_says_so_and_the_next_begins() -> None:
    desk = Desk(width=1)

    def work() -> Generator[int, None, str]:
        yield MOST_ITEMS
        raise ValueError("no")

    ended: list[Any] = []
    desk.lane.begin("bad", work(), lambda result, error: ended.append((result, str(error))))
    desk.begin("b", 2)
    desk.run()
    assert ended == [(None, "no")]
    assert desk.ended == [("b", "B")]


def test_a_round_of_the_loop_runs_one_slice(caplog: pytest.LogCaptureFixture) -> None:
    broker = make_broker()
    loop = loop_of(broker)
    ran: list[str] = []

    def work(name: str) -> Pieces[None]:
        ran.append(name)
        yield 1

    def fail() -> Pieces[None]:
        ran.append("bad")
        yield 1
        raise RuntimeError("a slice of this test")

    def publish() -> Pieces[None]:
        yield broker.publish(broker.global_account, b"news", b"hi")

    for name in "abc":
        broker.turns.in_slices(name, work(name))
    broker.turns.in_slices("bad", fail())
    broker.turns.soon(ran.append, "other")
    loop.run_ready()
    assert ran == ["a", "other", "b", "c", "bad"]
    assert sum("a slice of this test" in message for message in caplog.messages) == 1
    listener = client(broker)
    listener.say(b"SUB news 1\r\n")
    broker.turns.in_slices("d", publish())
    assert listener.heard() == b"MSG news 1 2\r\nhi\r\n"


def test_work_without_a_lane_takes_turns_and_can_be_dropped() -> None:
    broker = make_broker()
    loop = loop_of(broker)
    ran: list[str] = []

    def work(name: str) -> Pieces[None]:
        for _ in range(3):
            ran.append(name)
            yield MOST_ITEMS

    broker.turns.in_slices("a", work("a"))
    broker.turns.in_slices("b", work("b"))
    assert broker.turns.long_works == 2
    for _ in range(3):
        loop.run_one_round()
    assert ran == ["a", "b", "a"]
    broker.turns.drop_slices()
    assert broker.turns.long_works == 0
    loop.run_ready()
    assert ran == ["a", "b", "a"]
    broker.turns.in_slices("c", work("c"))
    loop.run_ready()
    assert ran[3:] == ["c", "c", "c"]
