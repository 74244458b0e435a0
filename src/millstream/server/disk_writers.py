"""The short way of a commit: threads that need no interpreter, and the loop that hears of their ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.store.disk_writer import DiskWriter

if TYPE_CHECKING:
    from millstream.jetstream.ports import CommitJob

_log = logging.getLogger("millstream.server")

Done = Callable[[Exception | None], None]


class DiskWriters:
    """A few of them, made at the start; what comes while all are busy has to go another way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, name: str) -> None:
        self._loop = loop
        self._idle: list[DiskWriter] = []
        self._all: list[DiskWriter] = []
        self._busy: dict[DiskWriter, tuple[CommitJob, Done]] = {}
        # All now: later there may be no descriptors, and no memory for a thread.
        for number in range(most):
            try:
                self._start(f"{name}-{number}")
            except (OSError, RuntimeError) as error:
                _log.warning("commits use %d threads of %d: %s", number, most, error)
                break

    def write(self, job: CommitJob, done: Done) -> bool:
        """Whether the commit is plain and on its way; `done` is called in the loop when it has ended."""
        plain = job.begin_plain() if self._idle else None
        if plain is None:
            return False
        writer = self._idle.pop()
        self._busy[writer] = job, done
        job.begun(lambda _: self._wait(writer))
        try:
            writer.begin(*plain)
        except OSError:  # it was not begun: that ends as a write that failed, which is tried again
            self._loop.call_soon(self._end(writer), None)
        return True

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
            self._end(writer)(None)

    def _wait(self, writer: DiskWriter) -> None:
        if writer.wait():
            self._loop.call_soon(self._end(writer), None)

    def _end(self, writer: DiskWriter) -> Done:
        job, done = self._busy.pop(writer)
        self._idle.append(writer)
        job.plain_ended(writer.failed_write, writer.failed_sync)
        return done

    def shutdown(self) -> None:
        """Return when all that was begun has ended; ends that the loop did not see are not told."""
        for writer in self._all:
            self._loop.remove_reader(writer.fileno())
            if writer in self._busy:
                self._wait(writer)
            writer.close()
        self._all.clear()
        self._idle.clear()
