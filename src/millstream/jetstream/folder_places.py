"""The places of stream folders that may be others after a power loss.

A deletion moves the folder of a stream, or renames the configuration in it, and a sync makes that durable.
If the sync fails, this is undone, and the stream goes on.  Until a sync succeeds, nobody knows what a power
loss would undo.  So commits of the stream are held, and requests about it wait: neither a message that is
acknowledged nor a stream that a client is told of may vanish with its folder.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.jetstream.stream import meta
from millstream.jetstream.stream.committer import Committer
from millstream.jetstream.stream.waiters import Outcome
from millstream.store.fs import FileSystem

if TYPE_CHECKING:
    from millstream.jetstream.ports import World
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_RETRY_S: Final = 1.0


class FolderPlaces:
    """The streams of an account whose places are in doubt; `folder` contains the folders of all streams."""

    def __init__(self, fs: FileSystem, world: World, committer: Committer, folder: str) -> None:
        self._fs = fs
        self._world = world
        self._committer = committer
        self._folder = folder
        self._doubted: dict[Stream, str] = {}  # and where a deletion moves the folder to
        self._settling = False
        self._waiting: list[Outcome] = []

    @property
    def in_doubt(self) -> bool:
        return bool(self._doubted)

    def doubts(self, stream: Stream) -> bool:
        """Return True if a stream waits for its place to be durable."""
        return stream in self._doubted

    def on_outcome(self, callback: Outcome) -> None:
        """Call back when the places of all streams are durable, however many attempts that takes."""
        self._waiting.append(callback)

    def doubt(self, stream: Stream, moved_to: str = "") -> None:
        """Let a stream wait until its place is durable."""
        if stream.in_memory:
            return
        if stream not in self._doubted:
            self._committer.hold(stream)
        self._doubted[stream] = moved_to
        if not self._settling:
            self._settling = True
            self._settle()

    def forget(self, stream: Stream) -> None:
        """Forget a stream that is deleted."""
        self._doubted.pop(stream, None)

    def _settle(self) -> None:
        """Make the places durable, in a worker; failures are retried."""
        places = dict(self._doubted)

        def settle() -> None:
            for stream, moved_to in places.items():
                if not moved_to:
                    continue
                folder = f"{self._folder}/{stream.name}"
                if self._fs.list(moved_to):  # it could not be moved back
                    self._fs.rename(moved_to, folder)
                meta.put_back(self._fs, folder)
                self._fs.sync_folder(folder)
            self._fs.sync_folder(self._folder)

        def ended(error: Exception | None) -> None:
            if error is not None:
                _log.error("%s: places of streams are not durable yet: %s", self._folder, error)
            if error is not None or self._doubted.keys() - places.keys():
                if not self._committer.stopping:
                    self._world.call_later(_RETRY_S, self._settle)
                return
            self._settling = False
            settled, self._doubted = self._doubted, {}
            for stream in settled:
                self._committer.release(stream)
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                guard.alone("what waits for the place of a stream", callback, None)

        self._world.run_in_worker(settle, ended)
