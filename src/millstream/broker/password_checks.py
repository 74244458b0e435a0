"""Check bcrypt passwords in threads, a limited number at a time, in an order that clients cannot abuse.

A check takes longer than everything else the server does in a second, and anybody may cause one.  So

*   as many run at once as there are processors to spare for them;
*   each source (an address and the user it claims) has its turn, and its newest request comes first:
    whoever floods the server delays only itself;
*   a client that has hung up is not checked at all;
*   at most `MOST_WAITING` wait.  Beyond that, the oldest of the source with the most is refused.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import select
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from millstream.base.rarely import Rarely
from millstream.broker.auth import Identity
from millstream.golang.quote import quoted

_log = logging.getLogger("millstream.broker")

MOST_WAITING: Final = 64
_HUNG_UP: Final = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)

Source = tuple[str, str]  # an address, and the user that it claims to be


class PasswordCheck(msgspec.Struct, frozen=True):
    """One check.  Calls ``done`` with the outcome, or ``gone`` if the client is gone."""

    verify: Callable[[], Identity | None]  # in a thread
    is_gone: Callable[[], bool]
    done: Callable[[Identity | None], None]
    gone: Callable[[], None]


class PasswordChecks:
    """All password checks of one server."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, threads: int | None = None, most: int = MOST_WAITING
    ) -> None:
        self._loop = loop
        self._threads = threads or max(1, (os.cpu_count() or 1) // 2)
        self._most = most
        self._waiting: dict[Source, list[PasswordCheck]] = {}  # whose turn it is comes first; newest last
        self._count = 0
        self._running = 0
        self._executor: ThreadPoolExecutor | None = None
        self._refusals = Rarely()
        self.usual_s = 0.0  # what the last one took, its waiting included

    def submit(self, source: Source, check: PasswordCheck) -> None:
        """Run this check when its turn comes."""
        began = self._loop.time()

        def done(identity: Identity | None) -> None:
            self.usual_s = self._loop.time() - began
            check.done(identity)

        timed = PasswordCheck(check.verify, check.is_gone, done, check.gone)
        self._waiting.setdefault(source, []).append(timed)
        self._count += 1
        if self._count > self._most:
            self._refuse_oldest()
        self._start()

    def close(self) -> None:
        """Start no more checks."""
        self._waiting.clear()
        self._count = 0
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        while self._running < self._threads and (check := self._next()) is not None:
            self._running += 1
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, "millstream-password")
            checking = self._loop.run_in_executor(self._executor, check.verify)
            checking.add_done_callback(functools.partial(self._ended, check))

    def _ended(self, check: PasswordCheck, checking: asyncio.Future[Identity | None]) -> None:
        self._running -= 1
        identity = None
        if not checking.cancelled():
            error = checking.exception()
            if error is None:
                identity = checking.result()
            else:
                _log.error("cannot check a password: %r", error)
        try:
            check.done(identity)
        finally:
            self._start()

    def _next(self) -> PasswordCheck | None:
        while self._waiting:
            source = next(iter(self._waiting))
            checks = self._waiting.pop(source)
            check = checks.pop()
            self._count -= 1
            if checks:
                self._waiting[source] = checks  # behind the others
            if not check.is_gone():
                return check
            check.gone()
        return None

    def _refuse_oldest(self) -> None:
        source = max(self._waiting, key=lambda each: len(self._waiting[each]))
        checks = self._waiting[source]
        check = checks.pop(0)
        self._count -= 1
        if not checks:
            del self._waiting[source]
        if count := self._refusals.due():
            _log.warning(
                "More than %d passwords wait to be checked, most for user %s from %s: "
                "%d logins were refused unchecked",
                self._most,
                quoted(source[1]),
                source[0],
                count,
            )
        check.done(None)


def has_hung_up(transport: Any) -> bool:
    """Return True if the client closed its end, which a loop that does not read from it does not notice."""
    if transport is None or transport.is_closing():
        return True
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return False  # a transport of a test
    poll = select.poll()
    poll.register(sock.fileno(), _HUNG_UP)
    return bool(poll.poll(0))
