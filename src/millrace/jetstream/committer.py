"""Group commit: what all streams gathered while input was processed becomes durable together.

A stream that has something to commit says so with ``dirty``.  When the input at hand is processed,
each of them starts one commit in a worker thread; what it gathers meanwhile goes with the next.  Only
when the commit has ended are publishers answered and readers told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from millrace.jetstream.ports import World
    from millrace.store.commit import Commit
    from millrace.store.log import Log


class Committing(Protocol):
    """A stream, as the committer sees it."""

    log: Log
    in_memory: bool
    sync: bool  # whether a commit is only done when it is on disk

    def commit_begins(self) -> None:
        """What has gathered so far belongs to this commit."""

    def commit_ended(self) -> None: ...

    def commit_failed(self, error: Exception) -> None: ...


class Committer:
    """For all streams of an account."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dirty: dict[Committing, None] = {}
        self._planned = False

    def dirty(self, stream: Committing) -> None:
        """The stream has something to commit, or answers that wait for a commit."""
        self._dirty[stream] = None
        if not self._planned:
            self._planned = True
            self._world.call_soon(self._run)

    def forget(self, stream: Committing) -> None:
        self._dirty.pop(stream, None)

    def _run(self) -> None:
        self._planned = False
        dirty, self._dirty = self._dirty, {}
        for stream in dirty:
            self._start(stream)

    def _start(self, stream: Committing) -> None:
        if stream.log.committing:
            return  # its end starts the next
        commit = stream.log.begin_commit()
        stream.commit_begins()
        if commit is None:
            stream.commit_ended()
        elif stream.in_memory:
            commit.run(sync=False)
            stream.log.end_commit(commit)
            stream.commit_ended()
        else:
            self._world.run_in_worker(lambda: commit.run(sync=stream.sync), self._ender(stream, commit))

    def _ender(self, stream: Committing, commit: Commit) -> Callable[[Exception | None], None]:
        def end(error: Exception | None) -> None:
            if error is None:
                stream.log.end_commit(commit)
                stream.commit_ended()
            else:
                stream.log.fail_commit(commit)
                stream.commit_failed(error)
            if stream.log.uncommitted and error is None:
                self._start(stream)

        return end

    def flush(self, stream: Committing) -> None:
        """Commit now and here, for shutdown and for requests that must be durable when answered."""
        commit = stream.log.begin_commit()
        stream.commit_begins()
        if commit is not None:
            commit.run(sync=not stream.in_memory)
            stream.log.end_commit(commit)
        stream.commit_ended()
