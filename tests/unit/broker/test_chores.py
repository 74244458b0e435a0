"""Long work in slices: what one turn does, whose turn it is, and what a failure costs."""

from collections.abc import Callable, Iterator

import pytest
from broker_kit import loop_of, make_broker

from millstream.broker.chores import SLICE_S, Chores


def chores_on(clock: list[float]) -> tuple[Chores, list[str], Callable[[], None]]:
    """Chores by this clock, an empty list, and what runs the loop until it is idle."""
    broker = make_broker()
    return Chores(broker.turns, lambda: clock[0]), [], loop_of(broker).run_ready


def steps(name: str, count: int, done: list[str], clock: list[float], takes_s: float = 0.0) -> Iterator[None]:
    for _ in range(count):
        done.append(name)
        clock[0] += takes_s
        yield


def test_a_slice_ends_when_its_time_is_up() -> None:
    clock = [0.0]
    chores, done, run = chores_on(clock)
    chores.add("a", steps("a", 10, done, clock, takes_s=SLICE_S))
    run()
    assert len(done) == 10
    assert chores.slices == 11  # the last one finds that nothing is left
    assert len(chores) == 0


def test_chores_take_turns_so_that_a_short_one_does_not_wait_for_a_long_one() -> None:
    clock = [0.0]
    chores, done, run = chores_on(clock)
    chores.add("long", steps("long", 100, done, clock))
    chores.add("short", steps("short", 2, done, clock))
    run()
    assert done[:4] == ["long", "short", "long", "short"]
    assert done.count("long") == 100


def test_one_turn_has_a_limit_even_if_no_time_passes() -> None:
    clock = [0.0]
    chores, done, run = chores_on(clock)
    chores.add("a", steps("a", 1000, done, clock))
    run()
    assert chores.slices > 10


def test_a_chore_that_fails_is_given_up_alone(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    chores, done, run = chores_on(clock)

    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("broken")

    chores.add("breaking things", failing())
    chores.add("a", steps("a", 5, done, clock))
    run()
    assert done == ["a"] * 5
    assert len(chores) == 0
    assert "breaking things failed" in caplog.text


def test_work_that_is_given_up_is_not_done() -> None:
    clock = [0.0]
    chores, done, run = chores_on(clock)
    chores.add("a", steps("a", 5, done, clock))
    chores.clear()
    run()
    assert done == []
