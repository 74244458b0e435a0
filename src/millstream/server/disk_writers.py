"""The fast path of a commit: threads that write without the interpreter lock, and the loop that ends commits.

If ``SyncPace`` allows it, the loop itself writes, and the commit has ended when ``write`` returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.store.disk_writer import DiskWriter

if TYPE_CHECKING:
    from millstream.jetstream.stream.ticket import Ticket
    from millstream.server.sync_pace import SyncPace
    from millstream.store.record import RecordBuffer

_log = logging.getLogger("millstream.server")

Turn = Callable[..., None]  # given a kind and a callback: calls back, and sends what that left to be sent

_COMMIT_ENDED: Final = "commit ended"


def _is_written(_: Ticket) -> None:
    """Return at once: a write on the loop has ended before anything can wait for it."""


class DiskWriters:
    """A few writers, created at the start; a commit that finds all of them busy is written elsewhere."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        most: int,
        name: str,
        turn: Turn,
        pace: SyncPace | None = None,
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._pace = pace  # None: the loop never writes
        self._idle: list[DiskWriter] = []
        self._all: list[DiskWriter] = []
        self._busy: dict[DiskWriter, Ticket] = {}
        # Create all of them now: later there may be no descriptors, and no memory for a thread.
        for number in range(most):
            try:
                self._start(f"{name}-{number}")
            except (OSError, RuntimeError) as error:
                _log.warning("commits use %d threads of %d: %s", number, most, error)
                break

    def write(self, ticket: Ticket) -> bool:
        """Start or finish writing a commit; return False if no writer can."""
        plain = ticket.commit.begin_plain() if self._idle else None
        if plain is None:
            return False
        descriptor, buffer = plain
        if self._pace is not None:
            if self._busy:
                self._pace.disturbed()
            elif self._pace.allows(buffer.size):
                self._write_now(ticket, descriptor, buffer)
                return True
        writer = self._idle.pop()
        self._busy[writer] = ticket
        ticket.begun(self._wait_for)
        try:
            alone = len(self._busy) == 1  # many commits go to the journal, which needs no zeros ahead
            writer.begin(descriptor, buffer, alone)
        except OSError:  # the write did not begin: report it as failed, so that it is retried
            self._loop.call_soon(self._turn, _COMMIT_ENDED, self._end(writer), None)
        return True

    def _write_now(self, ticket: Ticket, descriptor: int, buffer: RecordBuffer) -> None:
        """Write and sync on the loop's thread; the commit ends in this call."""
        writer = self._idle[-1]
        ticket.begun(_is_written)
        writer.write_now(descriptor, buffer, True)
        if self._pace is not None:
            self._pace.ended(writer.took_ns, True)
        ticket.plain_ended(writer.failed_write, writer.failed_sync)
        ticket.tell(None)

    def _start(self, name: str) -> None:
        writer = DiskWriter(name)
        try:
            self._loop.add_reader(writer.fileno(), self._readable, writer)
        except BaseException:
            writer.close()
            raise
        self._all.append(writer)
        self._idle.append(writer)

    def _readable(self, writer: DiskWriter) -> None:
        if writer.collect():
            self._turn(_COMMIT_ENDED, self._end(writer), None)

    def _wait_for(self, ticket: Ticket) -> None:
        for writer, busy in list(self._busy.items()):
            if busy is ticket:
                self._wait(writer)

    def _wait(self, writer: DiskWriter) -> None:
        if writer.wait():
            self._loop.call_soon(self._turn, _COMMIT_ENDED, self._end(writer), None)

    def _end(self, writer: DiskWriter) -> Callable[[None], None]:
        """Take back a writer, and return the call that reports the end of its commit."""
        ticket = self._busy.pop(writer)
        self._idle.append(writer)
        if self._pace is not None and not (writer.failed_write or writer.failed_sync):
            self._pace.ended(writer.took_ns, False)
        ticket.plain_ended(writer.failed_write, writer.failed_sync)
        return ticket.tell

    def shutdown(self) -> None:
        """Return when all writes have ended; callbacks that the loop has not run yet are dropped."""
        for writer in self._all:
            self._loop.remove_reader(writer.fileno())
            if writer in self._busy:
                self._wait(writer)
            writer.close()
        self._all.clear()
        self._idle.clear()
