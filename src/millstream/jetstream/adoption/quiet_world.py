"""A ``ports.World`` without clients, timers and other threads, for streams that are built but never started.

Whoever builds them flushes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from millstream.base.slices import Pieces
from millstream.jetstream.ports import ClientRequest, MessageLimits, NoJournal, Sink, Traced
from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.ticket import Ticket
from millstream.protocol.inlet import Responder
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.protocol.replies import Replies
from millstream.store.commit import Commit


class _NoTimer:
    def cancel(self) -> None:
        pass


class _DeadEnd(Outlet):
    """A destination without receivers."""

    def send(self, subject: bytes, frame: Frame) -> int:
        return 0

    def has_interest(self) -> bool:
        return False

    def behind(self) -> bool:
        return False


class _NoWriters:
    def start(self, commit: Commit, owner: Committing, publisher: int) -> Ticket:
        raise AssertionError("a stream that is not started was committed without a flush")


class QuietWorld:
    """Implements ``jetstream.ports.World``; see the module."""

    publisher = 0
    spans = None

    def __init__(self, limits: MessageLimits) -> None:
        self.limits = limits
        self.writers = _NoWriters()
        self.journal = NoJournal()

    def now_ns(self) -> int:
        return time.time_ns()

    def steady_ns(self) -> int:
        return time.time_ns()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _NoTimer:
        return _NoTimer()

    def call_soon(self, callback: Callable[[], None]) -> None:
        pass

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        pieces.close()

    def run_in_worker(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        try:
            work()
        except Exception as error:
            done(error)
        else:
            done(None)

    def hold_publisher(self) -> None:
        pass

    def release_publishers(self) -> None:
        pass

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        pass

    def ask(self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None) -> None:
        pass

    def acknowledge(self, start: bytes, acks: Replies, flush: bool = True) -> None:
        pass

    def confirm(self, replies: list[bytes]) -> None:
        pass

    def has_interest(self, subject: bytes) -> bool:
        return False

    def outlet(self, subject: bytes, queue: bytes | None = None) -> Outlet:
        return _DeadEnd()

    def flush(self) -> None:
        pass

    def watch(self, subject: bytes, changed: Callable[[], None]) -> Any:
        return None

    def capture(
        self,
        subject: bytes,
        sink: Sink,
        traced: Traced | None = None,
        refuse: Callable[[bytes], None] | None = None,
        *,
        from_clients: bool = False,
    ) -> Any:
        return None

    def serve(
        self,
        subject: bytes,
        callback: Callable[[ClientRequest], None],
        queue: bytes | None = None,
        *,
        spared: tuple[bytes, ...] = (),
        responder: Responder | None = None,
    ) -> Any:
        return None

    def hear(self, inbox: bytes, callback: Callable[[ClientRequest], None]) -> Any:
        return None

    def release(self, handle: Any) -> None:
        pass
