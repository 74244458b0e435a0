"""The short way of a commit: threads that need no interpreter, and the loop that hears of their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.store.disk_writer import DiskWriter

if TYPE_CHECKING:
    from millstream.jetstream.ports import CommitJob

Done = Callable[[Exception | None], None]


class DiskWriters:
    """A few of them, started when there is work; what comes while all are busy has to go another way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, name: str) -> None:
        self._loop = loop
        self._most = most
        self._name = name
        self._idle: list[DiskWriter] = []
        self._all: list[DiskWriter] = []
        self._busy: dict[DiskWriter, tuple[CommitJob, Done]] = {}

    def write(self, job: CommitJob, done: Done) -> bool:
        """Whether the commit is plain and on its way; `done` is called in the loop when it has ended."""
        plain = job.begin_plain() if self._idle or len(self._all) < self._most else None
        if plain is None:
            return False
        writer = self._idle.pop() if self._idle else self._start()
        self._busy[writer] = job, done
        job.begun(lambda: self._wait(writer))
        writer.begin(*plain)
        return True

    def _start(self) -> DiskWriter:
        writer = DiskWriter(f"{self._name}-{len(self._all)}")
        self._all.append(writer)
        self._loop.add_reader(writer.fileno(), self._readable, writer)
        return writer

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
