"""``python -m benchmarks.waits.thread_clock serve …``: our server with clocks that no other process disturbs.

The watchdog is on the clock of its thread: it records the processor time of a step, whatever else the machine
does meanwhile.  Time in which the loop waits for the disk or for the interpreter lock is left out.

A timer of a millisecond shows that time as well: how late it is tells how long the loop did not get to its
clients, by any number of steps and waits.  What the thread waited for a processor that others had is
subtracted; Linux counts it.  The watchdog records it as the step `round`.

Each reading of `/varz` has the steps since the one before.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Final

from millstream.broker import broker
from millstream.broker.turns import Turns
from millstream.broker.watchdog import BOUNDS_S, Watchdog
from millstream.cli.main import main
from millstream.server.monitor import varz
from millstream.server.monitor.loop_steps import EventLoop, event_loop
from tests.kits.reference import ServerProcess

ROUND: Final = "round"
_MODULE: Final = ["-m", "benchmarks.waits.thread_clock"]
_BEAT_S: Final = 0.001


class ThreadClockServer(ServerProcess):
    """Our server in a child process, with these clocks."""

    def _command(self) -> list[str]:
        python, _, _, *rest = super()._command()
        return [python, *_MODULE, *rest]


class _Rounds:
    """Records how long the loop takes to come back to its sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop, watchdog: Any) -> None:
        self._loop = loop
        self._watchdog = watchdog
        self._delays = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._last = float("inf")  # the program starts yet
        loop.call_later(_BEAT_S, self._beat)

    def _now(self) -> float:
        """Return a time that stands still while this thread waits for a processor."""
        return time.monotonic() - int(os.pread(self._delays, 64, 0).split()[1]) / 1e9

    def _beat(self) -> None:
        now = self._now()
        late, self._last = now - self._last - _BEAT_S, now
        if late >= BOUNDS_S[0]:
            self._watchdog._note(late, ROUND, None)
        self._loop.call_later(_BEAT_S, self._beat)


class _WatchedTurns(Turns):
    """The turns of a loop whose rounds are measured."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Any) -> None:
        super().__init__(loop, tick)
        self._rounds = _Rounds(loop, tick.watchdog)


def _event_loop(watchdog: Watchdog) -> EventLoop:
    found = event_loop(watchdog)
    watchdog.long_steps.clear()
    return found


if __name__ == "__main__":
    clock = {"Watchdog": lambda: Watchdog(time.thread_time), "Turns": _WatchedTurns}
    vars(broker).update(clock)
    varz.event_loop = _event_loop  # type: ignore[attr-defined]
    main()
