"""The watch on heartbeats, with time in the test's hand."""

from millstream.client.lines import HeartbeatWatch
from tests.kits.fake_transport import FakeLoop


class Watched:
    def __init__(self) -> None:
        self.missed = 0
        self.loop = FakeLoop()
        self.watch = HeartbeatWatch(4.0, self._miss)
        self.watch.start(self.loop.as_loop())

    def _miss(self) -> None:
        self.missed += 1


def test_two_heartbeats_that_do_not_come_are_missed_once() -> None:
    watched = Watched()
    watched.loop.advance(9.9)
    assert watched.missed == 0
    watched.loop.advance(0.1)
    assert watched.missed == 1
    watched.loop.advance(100)
    assert watched.missed == 1
    assert watched.loop.pending_timers() == 0


def test_whatever_is_heard_starts_the_silence_anew() -> None:
    watched = Watched()
    for _ in range(10):
        watched.loop.advance(9)
        watched.watch.heard()
    assert watched.missed == 0
    watched.loop.advance(10)
    assert watched.missed == 1


def test_a_watch_that_is_stopped_misses_nothing() -> None:
    watched = Watched()
    watched.watch.stop()
    watched.watch.heard()
    watched.loop.advance(100)
    assert watched.missed == 0
    watched.watch.start(watched.loop.as_loop())
    watched.loop.advance(10)
    assert watched.missed == 1
