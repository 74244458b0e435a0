"""Many short turns: no more of them in a round of the loop than fit, and in their order."""

import pytest

from millstream.broker.connection import Tick
from millstream.broker.turns import Turns
from millstream.broker.watchdog import Watchdog
from tests.kits.fake_transport import FakeLoop


class Site:
    """Turns that take half a millisecond each."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.clock = 0.0
        self.turns = Turns(self.loop.as_loop(), Tick(Watchdog(), lambda: self.clock))
        self.done: list[int] = []

    def act(self, number: int) -> None:
        self.done.append(number)
        self.clock += 0.0005


@pytest.fixture
def site() -> Site:
    return Site()


def test_turns_that_take_long_together_are_spread_over_rounds(site: Site) -> None:
    for number in range(10):
        site.turns.soon(site.act, number)
    site.loop.run_one_round()
    assert site.done == [0, 1, 2, 3]
    site.turns.soon(site.act, 10)
    site.loop.run_one_round()
    assert site.done == list(range(8))
    site.loop.run_ready()
    assert site.done == list(range(11))


def test_a_turn_that_is_asked_for_in_a_turn_waits_for_the_next_round(site: Site) -> None:
    site.turns.soon(lambda: site.turns.soon(site.act, 1))
    site.loop.run_one_round()
    assert site.done == []
    site.loop.run_one_round()
    assert site.done == [1]


def test_timers_that_are_due_together_are_spread_over_rounds(site: Site) -> None:
    for number in range(10):
        site.turns.later(1.0, site.act, number)
    handles = [site.turns.later(1.0, site.act, number) for number in range(10, 14)]
    # A real loop runs all timers that are due in one round.
    due, site.loop._timers = site.loop._timers, []
    for _, _, handle in due:
        handle.run()
    assert site.done == [0, 1, 2, 3]
    handles[0].cancel()
    site.loop.run_one_round()
    assert site.done == list(range(8))
    site.loop.run_ready()
    assert site.done == [*range(10), 11, 12, 13]


def test_a_turn_that_is_cancelled_does_not_run(site: Site) -> None:
    soon, later = site.turns.soon(site.act, 1), site.turns.later(1.0, site.act, 2)
    soon.cancel()
    later.cancel()
    later.cancel()
    site.loop.advance(2.0)
    assert site.done == []
    assert soon.callback is later.callback is None


def test_a_turn_that_raises_does_not_stop_the_others(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no")

    site.turns.soon(fail)
    site.turns.soon(site.act, 1)
    site.loop.run_one_round()
    assert site.done == [1]
    assert "ValueError" in caplog.text
