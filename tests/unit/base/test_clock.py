import time

import pytest

from millstream.base.clock import Clock, ManualClock, SystemClock


def test_a_manual_clock_stands_still_until_advanced() -> None:
    clock = ManualClock(monotonic=5.0, wall_ns=1_000)
    assert (clock.monotonic(), clock.wall_ns()) == (5.0, 1_000)
    assert (clock.monotonic(), clock.wall_ns()) == (5.0, 1_000)


def test_advancing_moves_both_clocks_alike() -> None:
    clock = ManualClock(monotonic=5.0, wall_ns=1_000)
    clock.advance(1.5)
    assert (clock.monotonic(), clock.wall_ns()) == (6.5, 1_500_001_000)


def test_setting_the_wall_clock_leaves_monotonic_time_alone() -> None:
    clock = ManualClock(monotonic=5.0, wall_ns=1_000)
    clock.set_wall_ns(1)
    assert (clock.monotonic(), clock.wall_ns()) == (5.0, 1)


def test_a_manual_clock_cannot_be_advanced_backwards() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-0.1)


def test_the_system_clock_reads_the_machine() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns()
    wall = clock.wall_ns()
    after = time.time_ns()
    assert before <= wall <= after
    assert clock.monotonic() <= clock.monotonic() <= time.monotonic()
