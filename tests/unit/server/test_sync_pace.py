"""Conditions under which the event loop writes and syncs a commit itself."""

from __future__ import annotations

import pytest

from millstream.server.sync_pace import (
    ALONE_S,
    FAST_NS,
    FAST_WRITES,
    FORGIVEN_AFTER,
    LONGEST_PAUSE_S,
    MOST_BYTES,
    PAUSE_FACTOR,
    SMALL_COMMITS,
    STALL_NS,
    STALL_PAUSE_S,
    SyncPace,
)

QUICK_NS = 100_000


class Loop:
    """A loop that serves one client, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.watchdog = self
        self.named: list[tuple[float, str]] = []
        self.switches = 1
        self.steps = 0
        self.now = 0.0
        self.pace = SyncPace(self, lambda: self.now)

    def part_ended(self, took: float, name: str) -> None:
        self.named.append((took, name))

    def commit(self, took_ns: int = QUICK_NS, size: int = 100, *, switches: int = 0, steps: int = 2) -> bool:
        """Commit what one client sent; returns whether the loop wrote it itself."""
        self.switches += switches
        self.steps += steps
        on_loop = self.pace.allows(size)
        self.pace.ended(took_ns, on_loop=on_loop)
        return on_loop

    def settle(self) -> None:
        """Commit until the loop writes itself."""
        self.commit()
        self.now += ALONE_S
        for _ in range(SMALL_COMMITS + FAST_WRITES + 1):
            if self.commit():
                return
        raise AssertionError("the loop never wrote itself")


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_threads_write_until_the_disk_has_proved_to_be_fast(loop: Loop) -> None:
    loop.commit()
    loop.now += ALONE_S
    assert not any(loop.commit() for _ in range(max(SMALL_COMMITS - 2, FAST_WRITES - 1)))
    loop.settle()
    assert all(loop.commit() for _ in range(100))


def test_a_disk_that_is_slow_is_always_left_to_threads(loop: Loop) -> None:
    assert not any(loop.commit(FAST_NS) for _ in range(1000))


def test_a_large_commit_is_left_to_a_thread_and_so_are_some_behind_it(loop: Loop) -> None:
    loop.settle()
    assert not loop.commit(size=MOST_BYTES + 1)
    assert not any(loop.commit(size=MOST_BYTES) for _ in range(SMALL_COMMITS - 1))
    assert loop.commit(size=MOST_BYTES)


def test_threads_write_while_more_than_one_client_is_served(loop: Loop) -> None:
    loop.settle()
    assert not loop.commit(switches=1)
    loop.now += 0.9 * ALONE_S
    assert not any(loop.commit() for _ in range(100))
    loop.now += 0.2 * ALONE_S
    assert loop.commit()
    for _ in range(100):
        assert not loop.commit(switches=2)
        loop.now += 0.9 * ALONE_S


def test_a_step_that_commits_for_two_streams_leaves_both_to_threads(loop: Loop) -> None:
    loop.settle()
    assert not loop.commit(steps=0)
    assert not loop.commit()


def test_a_commit_beside_another_one_ends_the_quiet(loop: Loop) -> None:
    loop.settle()
    loop.pace.disturbed()
    assert not loop.commit()


def test_a_slow_write_on_the_loop_is_followed_by_many_times_as_long_without(loop: Loop) -> None:
    loop.settle()
    assert loop.commit(FAST_NS)
    assert loop.named == [(FAST_NS / 1e9, "sync on the loop")]  # which the watchdog calls the step
    began = loop.now
    loop.now = began + 0.9 * PAUSE_FACTOR * FAST_NS / 1e9
    assert not any(loop.commit() for _ in range(100))
    loop.now = began + 1.1 * PAUSE_FACTOR * FAST_NS / 1e9
    assert loop.commit()


def test_a_slow_write_of_a_thread_makes_the_disk_prove_itself_again(loop: Loop) -> None:
    loop.settle()
    assert not loop.commit(FAST_NS, size=MOST_BYTES + 1)
    assert not any(loop.commit() for _ in range(max(FAST_WRITES, SMALL_COMMITS - 1)))
    assert loop.commit()


def test_the_pause_after_a_stall_doubles_up_to_a_bound(loop: Loop) -> None:
    pauses = []
    for _ in range(9):
        loop.settle()
        began = loop.now
        loop.commit(STALL_NS)
        assert not any(loop.commit() for _ in range(FAST_WRITES))
        while not loop.commit():
            loop.now += STALL_PAUSE_S / 2
        pauses.append(loop.now - began)
    assert pauses[:3] == [STALL_PAUSE_S, 2 * STALL_PAUSE_S, 4 * STALL_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_stall_long_ago_is_forgiven(loop: Loop) -> None:
    loop.settle()
    loop.commit(STALL_NS)
    loop.now += STALL_PAUSE_S
    loop.settle()
    for _ in range(FORGIVEN_AFTER):
        assert loop.commit()
    loop.commit(STALL_NS)
    loop.now += STALL_PAUSE_S
    loop.settle()


def test_one_very_long_write_pauses_no_longer_than_the_bound(loop: Loop) -> None:
    loop.settle()
    loop.commit(3600 * 1_000_000_000)
    loop.now += LONGEST_PAUSE_S
    loop.settle()
