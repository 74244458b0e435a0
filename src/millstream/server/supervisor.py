"""Tell the service manager that started this process what it does, by systemd's notify protocol.

The manager gives the address of a socket in ``NOTIFY_SOCKET``; without it there is nothing to tell.  With
``WATCHDOG_USEC`` it expects a sign of life at that interval, and restarts a process that gives none.  The
event loop gives it, twice in each interval: a loop that is stuck stays silent.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

from millstream.broker.turns import Turns

_log = logging.getLogger("millstream.server")

_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG: Final = "WATCHDOG_USEC"
_WATCHED: Final = "WATCHDOG_PID"
_SHORTEST_S: Final = 0.01


class Supervisor:
    """The service manager of this process, or nobody."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Take the manager's variables out of the environment: processes that we start have none."""
        self._address = environment.pop(_SOCKET, "")
        interval, watched = environment.pop(_WATCHDOG, ""), environment.pop(_WATCHED, "")
        if watched in ("", str(os.getpid())) and interval.isdigit() and int(interval) > 0:
            self._alive_every_s = max(int(interval) / 2_000_000, _SHORTEST_S)
        else:
            self._alive_every_s = 0.0

    def ready(self, status: str, turns: Turns) -> None:
        """Say that the server serves, and give signs of life from now on."""
        self._tell("READY=1", f"STATUS={status}")
        if self._address and self._alive_every_s:
            turns.later(self._alive_every_s, self._alive, turns)

    def reloading(self) -> None:
        """Say that a reload has begun; `reloaded` must follow."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self) -> None:
        """Say that a reload has ended, with or without success."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Say that the server stops."""
        self._tell("STOPPING=1")

    def _alive(self, turns: Turns) -> None:
        self._tell("WATCHDOG=1")
        turns.later(self._alive_every_s, self._alive, turns)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is in the abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
                line.setblocking(False)  # a manager that does not read must not stop the loop
                line.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            _log.error("The service manager cannot be told %s: %s", lines[0], error.strerror)
            self._address = ""  # say it once
