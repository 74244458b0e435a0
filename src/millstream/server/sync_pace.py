"""Decides whether the event loop writes and syncs a commit itself, instead of handing it to a thread.

To hand it over, a thread has to be woken, and then the loop: on a fast disk that takes half as long as the
sync. But a sync on the loop holds up all clients, so the loop does it only while nobody notices:

    one client      nobody else sent anything for 50 ms
    fast disk       the last writes took less than 2 ms each, whoever did them
    small commits   a client that sends much gains more if the next commit gathers meanwhile
    one commit      none is under way, and the step that begins it has begun no other

No disk promises that the next sync is as fast as the last. After a slow write on the loop, threads write
for twenty times as long; after one that took 5 ms or more for at least a second, and for twice as long each
time, up to a minute. So slow syncs take a twentieth of the loop's time at most, when nobody else asked for
it.
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
        """A part of the present step is over, after so many seconds."""


class Served(Protocol):
    """What the loop was doing."""

    @property
    def watchdog(self) -> Watched: ...

    @property
    def switches(self) -> int:
        """How often another client was read from than before."""

    @property
    def steps(self) -> int:
        """How many steps the loop has ended."""


class SyncPace:
    """One for all streams of a server."""

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
        """Tell whether the loop may write a commit that begins now while none is under way."""
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
        """A commit began while another was under way."""
        self._small = 0

    def ended(self, took_ns: int, *, on_loop: bool) -> None:
        """Note how long a write took."""
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
