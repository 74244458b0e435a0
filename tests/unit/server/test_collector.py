"""When the garbage collector runs over everything."""

import gc

import pytest

from millstream.broker.connection import Tick
from millstream.broker.turns import Turns
from millstream.broker.watchdog import Watchdog
from millstream.server.collector import Collector, limit_pauses
from millstream.testing.fake_transport import FakeLoop


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
    loop.advance(1 + 1200)
    assert len(full) == collections


def test_python_starts_no_full_collection_by_itself() -> None:
    before = gc.get_threshold()
    try:
        limit_pauses()
        assert gc.isenabled()
        assert gc.get_threshold()[2] > 10**9
    finally:
        gc.set_threshold(*before)
