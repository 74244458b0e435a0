"""When the garbage collector runs over everything."""

import gc

import pytest

from millstream.broker.connection import Tick
from millstream.broker.turns import Turns
from millstream.broker.watchdog import Watchdog
from millstream.server.collector import Collector, limit_pauses
from tests.kits.fake_transport import FakeLoop


@pytest.mark.parametrize(("aged", "collections"), [(0, 0), (9, 0), (10, 3), (1000, 3)])
def test_old_objects_are_collected_every_ten_minutes_if_there_are_many(
    aged: int, collections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = FakeLoop()
    full: list[float] = []
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, aged))
    monkeypatch.setattr(gc, "collect", lambda: full.append(loop.time()))
    Collector(Turns(loop.as_loop(), Tick(Watchdog(), loop.time))).start()
    loop.advance(599)
    assert not full
    loop.advance(1 + 1201)
    assert len(full) == collections


@pytest.mark.parametrize("takes_s", [0.001, 0.1])
def test_a_long_collection_waits_until_nobody_asks_for_anything(
    takes_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = FakeLoop()
    lost = [0.0]  # seconds, to collections
    full: list[float] = []

    def collect() -> None:
        full.append(loop.time())
        lost[0] += takes_s

    def ask() -> None:
        turns.later(0.01, ask)

    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 1000))
    monkeypatch.setattr(gc, "collect", collect)
    turns = Turns(loop.as_loop(), Tick(Watchdog(lambda: loop.time() + lost[0]), loop.time))
    Collector(turns).start()
    loop.advance(601.5)
    assert len(full) == 1  # nobody asked, and how long it takes was not known
    ask()
    loop.advance(700)
    assert len(full) == (2 if takes_s < 0.005 else 1)


def test_python_starts_no_full_collection_by_itself() -> None:
    before = gc.get_threshold()
    try:
        limit_pauses()
        assert gc.isenabled()
        assert gc.get_threshold()[2] > 10**9
    finally:
        gc.set_threshold(*before)
