"""Runs of the garbage collector over old objects, and the cases in which they are skipped."""

import gc
import threading

import pytest

from millstream.broker.connection import Tick
from millstream.broker.turns import Turns
from millstream.broker.watchdog import Watchdog
from millstream.server import collector
from millstream.server.collector import Collector, limit_pauses
from tests.kits.fake_transport import FakeLoop
from tests.kits.patience import PATIENCE_S


class Site:
    """A collector whose collections take as long as the test says, and leave notes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = FakeLoop()
        self.notes: list[str] = []
        self.takes_s = 0.001
        self.grown_old = 0
        self.frozen = 50_000
        self._lost_s = 0.0
        monkeypatch.setattr(gc, "get_freeze_count", lambda: self.frozen)
        monkeypatch.setattr(gc, "get_count", lambda: (0, 0, self.grown_old))
        monkeypatch.setattr(gc, "collect", self._collect)
        monkeypatch.setattr(gc, "freeze", lambda: self.notes.append("set aside"))
        monkeypatch.setattr(gc, "unfreeze", lambda: self.notes.append("take back"))
        watchdog = Watchdog(lambda: self.loop.time() + self._lost_s)
        self.turns = Turns(self.loop.as_loop(), Tick(watchdog, self.loop.time))
        Collector(self.turns, lambda: 0).start()

    def _collect(self, generation: int = 2) -> None:
        self.notes.append(f"collect {generation}")
        self._lost_s += self.takes_s

    def work(self) -> None:
        """Have something to do, from now on."""
        self.turns.later(0.01, self.work)

    def advance(self, seconds: float) -> list[str]:
        self.notes.clear()
        self.loop.advance(seconds)
        return list(self.notes)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_nothing_is_collected_while_nothing_grows_old(site: Site) -> None:
    assert site.advance(10_000) == []


def test_free_memory_is_given_back_after_a_quiet_minute(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    given = threading.Semaphore(0)
    monkeypatch.setattr(collector, "give_back", given.release)
    site.advance(59)
    assert not given.acquire(blocking=False)
    site.advance(2)
    assert given.acquire(timeout=PATIENCE_S)
    site.advance(10_000)
    assert not given.acquire(blocking=False)


def test_collections_go_on_if_there_is_no_thread_to_give_memory_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    site.advance(61)
    site.grown_old = 3
    assert site.advance(2.5) == ["collect 2"] * 2


def test_few_old_objects_are_collected_every_second(site: Site) -> None:
    site.grown_old = 3
    assert site.advance(2.5) == ["collect 2"] * 2


def test_old_objects_that_take_long_are_set_aside(site: Site) -> None:
    site.grown_old, site.takes_s = 3, 0.003
    assert site.advance(1.5) == ["collect 2", "set aside"]


def test_many_old_objects_are_set_aside_without_a_visit(site: Site) -> None:
    site.grown_old = 100
    assert site.advance(1.5) == ["collect 1", "set aside"]


def test_everything_is_collected_in_a_quiet_minute_once_an_hour(site: Site) -> None:
    site.grown_old = 100
    site.advance(1.5)
    site.grown_old = 0
    assert site.advance(3500) == []
    assert site.advance(200) == ["take back", "collect 2", "set aside"]
    assert site.advance(10_000) == []  # nothing was set aside since


def test_everything_is_collected_after_quiet_seconds_if_much_was_set_aside(site: Site) -> None:
    site.grown_old = 100
    site.advance(1.5)
    site.grown_old, site.frozen = 0, 170_000
    assert site.advance(20) == []  # not half as many and 100,000 more
    site.frozen = 180_000
    assert site.advance(10) == ["take back", "collect 2", "set aside"]
    assert site.advance(100) == []


def test_a_busy_server_never_collects_everything(site: Site) -> None:
    site.grown_old = 100
    site.frozen = 10**7
    site.work()
    assert "take back" not in site.advance(4000)


def test_python_starts_no_full_collection_by_itself() -> None:
    before = gc.get_threshold()
    try:
        limit_pauses()
        assert gc.isenabled()
        assert gc.get_threshold()[2] > 10**9
    finally:
        gc.set_threshold(*before)


def test_a_collection_after_many_clients_came_sets_their_objects_aside() -> None:
    enabled, set_aside = gc.isenabled(), gc.get_freeze_count()
    loop = FakeLoop()
    turns = Turns(loop.as_loop(), Tick(Watchdog(loop.time), loop.time))
    clients = 0
    stop = Collector(turns, lambda: clients).watch()
    gc.disable()
    try:
        gc.freeze()  # whatever the test run has made
        made = [[] for _ in range(10_000)]
        before = gc.get_freeze_count()
        clients = 83
        gc.collect(0)
        assert gc.get_freeze_count() <= before
        clients += 84
        gc.collect(0)
        assert gc.get_freeze_count() > before + 9_000
        del made
        before = gc.get_freeze_count()
        gc.collect(0)  # nobody came since
        assert gc.get_freeze_count() <= before
    finally:
        stop()
        if not set_aside:
            gc.unfreeze()
        if enabled:
            gc.enable()


def test_a_collection_after_many_timers_were_set_sets_their_objects_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: notes.append("set aside"))
    loop = FakeLoop()
    turns = Turns(loop.as_loop(), Tick(Watchdog(loop.time), loop.time))
    enabled = gc.isenabled()
    gc.disable()
    stop = Collector(turns, lambda: 0).watch()
    try:
        for _ in range(700):
            turns.later(60, notes.clear)
        gc.collect(0)
        assert notes == []
        for _ in range(720):
            turns.later(60, notes.clear)
        gc.collect(0)
        assert notes == ["set aside"]
    finally:
        stop()
        if enabled:
            gc.enable()


def test_objects_that_were_set_aside_are_still_freed() -> None:
    gone: list[int] = []

    class Kept:
        def __del__(self) -> None:
            gone.append(1)

    kept = [Kept()]
    gc.freeze()
    try:
        kept.clear()
        assert gone == [1]
    finally:
        gc.unfreeze()
