"""Decide whether the event loop writes and syncs a commit itself, instead of handing it to a thread.

Handing a commit over has to wake a thread and then the loop: on a fast disk that takes half as long as the
sync. But a sync on the loop blocks all clients, so the loop syncs only while no client notices:

    one client      no other client sent anything for 50 ms
    fast disk       the last writes took less than 2 ms each, on the loop or in a thread
    small commits   a client that sends much gains more if the next commit gathers meanwhile
    one commit      none is running, and the step that begins it has begun no other

The next sync may always be slower than the last.  After a slow write on the loop, threads write for twenty
times as long; after a write of 5 ms or more for at least a second, which doubles each time, up to about a
minute.  So slow syncs take at most a twentieth of the loop's time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

MOST_BYTES: Final = 32 * 1024
FAST_NS: Final = 2_000_000
STALL_NS: Final = 5_000_000  # that nobody should be held up for
FAST_WRITES: Final = 8  # in a row, before the loop writes itself
_NAME: Final = "sync on the loop"
_SECOND_NS: Final = 1_000_000_000
SMALL_COMMITS: Final = 8  # in a row, each in a step of its own
ALONE_S: Final = 0.05  # since another client sent something
PAUSE_FACTOR: Final = 20  # how much longer than a slow write the loop then leaves writes to threads
STALL_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 64.0
FORGIVEN_AFTER: Final = 10_000  # writes on the loop; the next stall counts as the first


class Watched(Protocol):
    """The watchdog of the loop."""

    def part_ended(self, took: float, name: str) -> None:
        """Report that a part of the present step has ended, after `took` seconds."""


class Served(Protocol):
    """The state of the loop."""

    @property
    def watchdog(self) -> Watched: ...

    @property
    def switches(self) -> int:
        """Return how often the loop switched from one client to another."""

    @property
    def steps(self) -> int:
        """Return how many steps the loop has ended."""


class SyncPace:
    """Decides for all streams of a server."""

    def __init__(self, served: Served, now: Callable[[], float]) -> None:
        self._served = served
        self._now = now
        self._switches = 0  # when the last commit began
        self._steps = -1
        self._small = 0  # commits in a row
        self._alone_from = 0.0
        self._fast = 0  # writes in a row
        self._paused_until = 0.0
        self._stall_pause_s = STALL_PAUSE_S  # after the next stall
        self._good = 0  # writes on the loop since the last stall

    def allows(self, size: int) -> bool:
        """Return True if the loop may write a commit that begins now while none is running."""
        switches, steps = self._served.switches, self._served.steps
        now = self._now()
        if switches != self._switches:
            self._alone_from = now + ALONE_S
        self._small = self._small + 1 if steps != self._steps and size <= MOST_BYTES else 0
        self._switches, self._steps = switches, steps
        return (
            self._small >= SMALL_COMMITS
            and self._fast >= FAST_WRITES
            and now >= self._alone_from
            and now >= self._paused_until
        )

    def disturbed(self) -> None:
        """Record that a commit began while another one was running."""
        self._small = 0

    def ended(self, took_ns: int, on_loop: bool) -> None:
        """Record how long a write took."""
        if took_ns < FAST_NS:
            self._fast += 1
        else:
            self._fast = 0
            if on_loop:
                self._pause(took_ns)
        if on_loop:
            self._good += 1

    def _pause(self, took_ns: int) -> None:
        self._served.watchdog.part_ended(took_ns / _SECOND_NS, _NAME)
        pause_s = PAUSE_FACTOR * took_ns / _SECOND_NS
        if took_ns >= STALL_NS:
            if self._good >= FORGIVEN_AFTER:
                self._stall_pause_s = STALL_PAUSE_S
            self._good = 0
            pause_s = max(pause_s, self._stall_pause_s)
            self._stall_pause_s = min(2 * self._stall_pause_s, LONGEST_PAUSE_S)
        self._paused_until = self._now() + min(pause_s, LONGEST_PAUSE_S)
