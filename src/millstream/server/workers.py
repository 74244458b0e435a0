"""Threads that wait for the disk, so that the event loop does not.

Work goes to them through one queue, and its end comes back as one callback of the loop.  A commit passes
from the loop to a thread and back for every batch of messages, so each step of that way is time that all
publishers of the batch wait: most go to threads that need no interpreter (``disk_writers``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from millstream.server.disk_writers import DiskWriters

if TYPE_CHECKING:
    import asyncio

    from millstream.jetstream.ports import CommitJob

Work = Callable[[], None]
Done = Callable[[Exception | None], None]


class Workers:
    """A few threads, started when there is work for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, name: str) -> None:
        self._loop = loop
        self._most = most
        self._name = name
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._writers = DiskWriters(loop, most, f"{name}-plain")
        self._busy = 0  # jobs whose end has not come back; only the loop's thread looks at it

    def submit(self, work: Work, done: Done) -> None:
        """Run `work` in a thread, then `done` in the loop, with the exception that it raised."""
        self._busy += 1
        if self._busy > len(self._threads) and len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            try:
                thread.start()
                self._threads.append(thread)
            except RuntimeError:
                if not self._threads:  # otherwise the others do it
                    self._busy -= 1
                    raise
        self._queue.put((work, done))

    def commit(self, job: CommitJob, done: Done) -> None:
        """Run a commit in a thread, the shortest way that is free, then `done` in the loop."""
        if not self._writers.write(job, done):
            self.submit(job.run, done)

    def shutdown(self) -> None:
        """Return when all work that was submitted is done; ends that the loop did not see are not told."""
        self._writers.shutdown()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            work, done = job
            problem: Exception | None = None
            try:
                work()
            except Exception as error:
                problem = error
            try:
                self._loop.call_soon_threadsafe(self._end, done, problem)
            except RuntimeError:
                return  # the loop is closed: nobody is there to be told
            del job, work, done, problem  # nothing is kept alive while this waits

    def _end(self, done: Done, problem: Exception | None) -> None:
        self._busy -= 1
        done(problem)
